"""Bodies: what JSON does not allow is refused by name, and nothing else is."""

from __future__ import annotations

import base64
import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.body import MAX_BODY_BYTES, parse_body
from spot_sdk.errors import MalformedRequest, PayloadTooLarge

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**300), 10**300) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)  # fmt: skip


@given(json_values)
def test_reads_what_json_writes(value: object) -> None:
    text = json.dumps(value)
    packed = base64.b64encode(gzip.compress(text.encode())).decode()
    assert parse_body(text, is_base64=False, content_encoding=None) == value
    assert parse_body(packed, is_base64=True, content_encoding="GZIP") == value


def test_no_body_is_none() -> None:
    assert parse_body(None, is_base64=False, content_encoding=None) is None
    assert parse_body("", is_base64=True, content_encoding=None) is None


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("{", "not JSON"),
        ("{'a': 1}", "not JSON"),
        ('{"a": NaN}', "NaN"),
        ("[Infinity, -Infinity]", "Infinity"),
        ("1e400", "range"),
        ("-1e400", "range"),
        ("9" * 4_300, "4300 digits"),
        ("9" * 5_000, "5000 digits"),
        ('{"a": 1, "b": 2, "a": 3}', "'a' stands twice"),
        ("[" * 10_000 + "]" * 10_000, "nested too deep"),
        ('{"a":' * 10_000 + "1" + "}" * 10_000, "nested too deep"),
    ],
)
def test_refuses_what_json_does_not_allow(body: str, reason: str) -> None:
    with pytest.raises(MalformedRequest, match=reason):
        parse_body(body, is_base64=False, content_encoding=None)


@pytest.mark.parametrize(
    ("body", "encoding", "reason"),
    [
        ("!!!", None, "base64"),
        (base64.b64encode(b"\xff\xfe{}").decode(), None, "UTF-8"),
        (base64.b64encode(b"not gzip").decode(), "gzip", "gzip"),
        (base64.b64encode(gzip.compress(b'{"a": 1}')[:-9]).decode(), "gzip", "ends too early"),
        (base64.b64encode(gzip.compress(b"{}") + b"more").decode(), "gzip", "follows"),
        (base64.b64encode(b"{}").decode(), "br", "is not understood"),
    ],
)
def test_refuses_what_cannot_be_decoded(body: str, encoding: str | None, reason: str) -> None:
    with pytest.raises(MalformedRequest, match=reason):
        parse_body(body, is_base64=True, content_encoding=encoding)


def test_a_body_that_unpacks_to_too_much_is_refused_without_unpacking_it_all() -> None:
    bomb = base64.b64encode(gzip.compress(b" " * (MAX_BODY_BYTES * 4))).decode()
    with pytest.raises(PayloadTooLarge):
        parse_body(bomb, is_base64=True, content_encoding="gzip")
