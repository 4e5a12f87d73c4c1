"""A head is noted as text and read again; everything else of the chain is tested where it is written."""

from __future__ import annotations

import pytest

from knowledge.items.chain import Head, check_chain
from spot_sdk.errors import InvalidRequest


def test_a_head_is_read_as_it_was_written() -> None:
    head = Head(12, bytes(range(32)))
    assert Head.parse(str(head)) == head


@pytest.mark.parametrize("text", ["", "12", "12:", "12:abcd", "x:" + "0" * 64, "-1:" + "0" * 64, "12:" + "g" * 64])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="64 hexadecimal digits"):
        Head.parse(text)


def test_nothing_at_all_has_a_head_too() -> None:
    report = check_chain([], {})
    assert (report.head.seq, report.findings) == (0, [])
    assert check_chain([], {}, [Head(3, bytes(32))]).findings == ["the log ends at 0, but once it reached 3"]
