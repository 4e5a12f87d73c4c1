"""The LDIF reader: RFC 2849's ways of writing a value, and every file that must not be taken for a whole directory."""

from __future__ import annotations

import base64
import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.providers.employee_dir.entries import DirectoryListingFailed
from examples.providers.employee_dir.ldif import LdifError, parse_ldif, read_ldif

DN = b"dn: uid=a,dc=x\n"


def only(raw: bytes) -> dict[str, tuple[str, ...]]:
    (entry,) = parse_ldif(raw)
    return dict(entry.attributes)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (b"cn: Ada\n", "Ada"),
        (b"cn:Ada\n", "Ada"),
        (b"cn:   Ada\n", "Ada"),
        (b"cn: Ada \n", "Ada "),
        (b"cn: a: b:: c\n", "a: b:: c"),
        (b"cn: Ad\n a Lovel\n ace\n", "Ada Lovelace"),
        (b"cn: Ada\n  Lovelace\n", "Ada Lovelace"),
        (b"cn:: w5hyc3RlZA==\n", "Ørsted"),
        (b"cn::w5hyc3RlZA==\n", "Ørsted"),
        (b"cn:: w5hy\n c3RlZA==\n", "Ørsted"),
        ("cn: Ørsted\n".encode(), "Ørsted"),  # not by the letter of the RFC, and common
        (b"CN: Ada\n", "Ada"),
        (b"cn;lang-en: Ada\n", "Ada"),
        (b"cn: Ada\r\n", "Ada"),
        (b"# a comment\ncn: Ada\n", "Ada"),
        (b"cn: Ada\n# a comment\n  that goes on: here\n", "Ada"),
    ],
)
def test_a_value_is_read_however_it_is_written(written: bytes, read: str) -> None:
    assert only(DN + written) == {"cn": (read,)}


def test_values_keep_their_order_and_stand_once() -> None:
    assert only(DN + b"title: B\ntitle: A\nTITLE: B\n")["title"] == ("B", "A")


def test_empty_values_and_photographs_are_left_out() -> None:
    photograph = base64.b64encode(b"\xff\xd8\xff\xe0")
    written = b"cn: Ada\ndescription:\njpegPhoto:: " + photograph + b"\nuserCertificate;binary:: QUJD\n"
    assert only(DN + written) == {"cn": ("Ada",)}


@pytest.mark.parametrize(
    "raw",
    [
        b"version: 1\ndn: dc=a\ncn: 1\n\ndn: dc=b\ncn: 2\n",
        b"version: 1\n\ndn: dc=a\ncn: 1\n\n\n\ndn: dc=b\ncn: 2\n\n",
        b"\xef\xbb\xbfdn: dc=a\ncn: 1\n\n# between\n\ndn: dc=b\ncn: 2\n",
        b"# first\n\ndn:: ZGM9YQ==\ncn: 1\n\ndn: dc=b\ncn: 2\n",
        b"dn: dc=a\r\ncn: 1\r\n\r\ndn: d\r\n c=b\r\ncn: 2\r\n",
    ],
)
def test_records_are_separated_by_blank_lines(raw: bytes) -> None:
    assert [(entry.dn, entry.attributes["cn"]) for entry in parse_ldif(raw)] == [("dc=a", ("1",)), ("dc=b", ("2",))]


@pytest.mark.parametrize("raw", [b"", b"\n\n", b"# nothing\n", b"version: 1\n"])
def test_a_file_without_entries_has_none(raw: bytes) -> None:
    assert list(parse_ldif(raw)) == []


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (DN + b"cn: Ada Lov", "line 2: the file ends in the middle of a line"),
        (DN + b"no colon\n", "line 2: expected 'attribute: value'"),
        (DN + b": value\n", "line 2: expected 'attribute: value'"),
        (DN + b"cn:: not base64!\n", "line 2: the value of cn is not base64"),
        (DN + b"cn:: QUJ\n", "line 2: the value of cn is not base64"),
        (DN + b"cn:: QU!JD\n", "line 2: the value of cn is not base64"),
        (DN + b"jpegPhoto:< file:///etc/passwd\n", "line 2: the value of jpegPhoto is elsewhere"),
        (b"cn: Ada\n", "line 1: expected 'dn', found 'cn'"),
        (DN + b"\ncn: Ada\n", "line 3: expected 'dn', found 'cn'"),
        (DN + b"changetype: delete\n", "line 2: a change record"),
        (b" cn: Ada\n", "line 1: a continuation of nothing"),
        (DN + b"\n cn: Ada\n", "line 3: a continuation of nothing"),
        (b"dn:: /////w==\n", "line 1: the DN is not UTF-8"),
    ],
)
def test_what_is_no_list_of_entries_is_refused_with_its_line(raw: bytes, message: str) -> None:
    with pytest.raises(LdifError) as caught:
        list(parse_ldif(raw))
    assert str(caught.value).startswith(message)


def test_a_file_that_cannot_be_read_is_a_listing_that_failed(tmp_path: Path) -> None:
    with pytest.raises(DirectoryListingFailed, match="No such file"):
        read_ldif(tmp_path / "missing.ldif")
    broken = tmp_path / "broken.ldif"
    broken.write_bytes(DN + b"cn: cut sho")
    with pytest.raises(DirectoryListingFailed, match=r"broken\.ldif: line 2: the file ends"):
        read_ldif(broken)


def written(name: str, value: str, as_base64: bool, fold_at: int) -> bytes:
    """An attribute as another program may write it; ``fold_at`` counts bytes."""
    raw = value.encode()
    line = f"{name}:: ".encode() + base64.b64encode(raw) if as_base64 else f"{name}: ".encode() + raw
    pieces = [line[at : at + fold_at] for at in range(0, len(line), fold_at)]
    return b"\n ".join(pieces) + b"\n"


values = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)


@given(st.lists(st.tuples(values, st.integers(1, 30)), min_size=1, max_size=5))
def test_any_text_comes_back_from_base64_however_it_is_folded(parts: list[tuple[str, int]]) -> None:
    raw = DN + b"".join(written("cn", value, True, fold_at) for value, fold_at in parts)
    assert only(raw)["cn"] == tuple(dict.fromkeys(value for value, _ in parts))


@given(st.binary(max_size=200) | st.text("dn:=<# \n\rcx-A", max_size=80).map(str.encode))
def test_no_bytes_break_the_reader_in_any_other_way(raw: bytes) -> None:
    with contextlib.suppress(LdifError):
        list(parse_ldif(raw))
