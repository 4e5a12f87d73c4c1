"""Reads the content records of an LDIF file (RFC 2849)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from pathlib import Path

from examples.providers.employee_dir.entries import DirectoryListingFailed, Entry


def read_ldif(path: Path) -> list[Entry]:
    """The entries of a file, in its order.

    Raises DirectoryListingFailed, with the line, for what is no content record: a file that ends in the middle of a
    line (an export cut short), change records, values by URL.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise DirectoryListingFailed(f"{path}: {error.strerror}") from error
    try:
        return list(parse_ldif(raw))
    except LdifError as error:
        raise DirectoryListingFailed(f"{path}: {error}") from error


class LdifError(ValueError):
    """What is wrong, and on which line."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(f"line {number}: {message}")


def parse_ldif(raw: bytes) -> Iterator[Entry]:
    """The entries in ``raw``. Raises LdifError."""
    record: list[tuple[int, str, bytes]] = []
    for number, logical in _logical_lines(raw):
        if logical:
            record.append((number, *_attribute(number, logical)))
        elif record:
            yield from _entry(record)
            record = []
    if record:
        yield from _entry(record)


def _logical_lines(raw: bytes) -> Iterator[tuple[int, bytes]]:
    """Lines with their continuations joined and comments left out, each with the number of its first line."""
    if raw and not raw.endswith((b"\n", b"\r")):
        raise LdifError(raw.count(b"\n") + 1, "the file ends in the middle of a line; was its export cut short?")
    start, logical = 1, None
    for number, physical in enumerate(raw.removeprefix(b"\xef\xbb\xbf").splitlines(), 1):
        if physical.startswith(b" "):
            if not logical:
                raise LdifError(number, "a continuation of nothing")
            logical += physical[1:]
            continue
        if logical is not None and not logical.startswith(b"#"):
            yield start, logical
        start, logical = number, physical
    if logical is not None and not logical.startswith(b"#"):
        yield start, logical


def _attribute(number: int, logical: bytes) -> tuple[str, bytes]:
    description, colon, rest = logical.partition(b":")
    if not colon or not description.isascii() or not description.strip():
        raise LdifError(number, "expected 'attribute: value'")
    name = description.decode()
    if rest.startswith(b":"):
        try:
            return name, base64.b64decode(rest[1:].strip(b" "), validate=True)
        except binascii.Error as error:
            raise LdifError(number, f"the value of {name} is not base64") from error
    if rest.startswith(b"<"):
        raise LdifError(number, f"the value of {name} is elsewhere, and a directory's file may not send us there")
    return name, rest.lstrip(b" ")


def _entry(record: list[tuple[int, str, bytes]]) -> Iterator[Entry]:
    number, name, value = record[0]
    if name.lower() == "version" and value.strip() == b"1":
        if len(record) > 1:
            yield from _entry(record[1:])
        return
    if name.lower() != "dn":
        raise LdifError(number, f"expected 'dn', found {name!r}")
    try:
        dn = value.decode()
    except UnicodeDecodeError as error:
        raise LdifError(number, "the DN is not UTF-8") from error
    attributes = record[1:]
    if attributes and attributes[0][1].lower() in ("changetype", "control"):
        raise LdifError(attributes[0][0], "a change record; an export of entries is wanted")
    yield Entry.of(dn, ((name, [value]) for _, name, value in attributes))
