"""Cutting a mail into its parts, and undoing their transfer encodings.

The standard library's reader of whole mails recurses into nested parts, and takes a second for every two megabytes and
more where boundaries are many. Here each level is cut in one pass, and no more than so many parts.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from email.utils import collapse_rfc2231_value, decode_params
from typing import NamedTuple

from spot_sdk.email.text import Repairs, decode, decode_base64

MAX_PARTS = 1_000
MAX_DEPTH = 20
MAX_HEADS = 2_000_000
"""Bytes of the headers of all parts."""
MAX_VALUE = 20_000
"""Characters of one header."""
MAX_VALUES = 64_000
"""Characters of all headers of one name."""
MAX_REPEATED = 100
"""Headers of one name."""
_MAX_PARAMETERS = 2_000  # characters; a boundary and a file name, in several languages

_FIELD = re.compile(
    rb"^(from|reply-to|to|cc|subject|date|message-id|return-path|received|authentication-results|content-type"
    rb"|content-disposition|content-transfer-encoding)[ \t]*+:([^\n]*+(?:\n[ \t][^\n]*+)*+)",
    re.IGNORECASE | re.MULTILINE,
)
_NO_FIELD = re.compile(rb"^(?!(?:[!-9;-~]++[ \t]*+:|[ \t]|>?From |\n|\Z))", re.MULTILINE)
_PARAMETER = re.compile(r""";\s*+([^=;\s"]++)\s*+=\s*+("(?:[^"\\]|\\.)*+"|[^;]*+)""")
_MEDIA_TYPE = re.compile(r"\s*([!-.0-~]{1,100}/[!-.0-:<-~]{1,100})\s*(?:;|$)")

Fields = dict[str, list[str]]
"""Unfolded headers by their name in lower case."""


class Part(NamedTuple):
    """Headers and what follows them, undivided and encoded. ``media_type`` is ``text/plain`` where none is right."""

    fields: Fields
    media_type: str
    parameters: dict[str, str]
    body: bytes

    @property
    def is_attachment(self) -> bool:
        return self._first("content-disposition").lower().lstrip().startswith("attachment")

    @property
    def encoding(self) -> str:
        return self._first("content-transfer-encoding").strip().lower()

    def content(self, repairs: Repairs, *, limit: int | None = None) -> bytes:
        """The body with its transfer encoding undone; about ``limit`` bytes of it, if it has more."""
        if self.encoding == "base64":
            return decode_base64(self.body, repairs, limit=limit)
        if self.encoding == "quoted-printable":
            return binascii.a2b_qp(self.body)
        if self.encoding not in ("", "7bit", "8bit", "binary"):
            repairs.note("a transfer encoding is not known; the part was read as it is")
        return self.body

    def size(self) -> int:
        """Bytes of the content, to within a few."""
        if self.encoding == "base64":
            return (len(self.body) - self.body.count(b"\n")) * 3 // 4
        return len(self.body)

    def _first(self, name: str) -> str:
        return next(iter(self.fields.get(name, [])), "")


class PartReader:
    """Reads the parts of one mail, which has ``\\n`` for line ends."""

    def __init__(self, repairs: Repairs) -> None:
        self._repairs = repairs
        self._heads_left = MAX_HEADS

    def leaves(self, mail: Part) -> Iterator[Part]:
        """The parts that hold no parts, in order; the mail itself if it has none."""
        waiting: list[tuple[bytes | Part, int]] = [(mail, 0)]
        for _ in range(MAX_PARTS):
            if not waiting:
                return
            piece, depth = waiting.pop()
            part = piece if isinstance(piece, Part) else self.read(piece)
            inner = self._inner(part, depth)
            if inner is None:
                yield part
            else:
                waiting.extend((each, depth + 1) for each in reversed(inner))
        if waiting:
            self._repairs.note(f"only the first {MAX_PARTS:,} parts were read")

    def read(self, raw: bytes) -> Part:
        """A part, or a whole mail."""
        head, body = _cut_at_blank_line(raw)
        if len(head) > self._heads_left:
            self._repairs.note(f"headers beyond {MAX_HEADS:,} bytes were left out")
            head = head[: self._heads_left]
        self._heads_left -= len(head)
        fields = _fields(head, self._repairs)
        content_type = next(iter(fields.get("content-type", [])), "")[:_MAX_PARAMETERS]
        disposition = next(iter(fields.get("content-disposition", [])), "")[:_MAX_PARAMETERS]
        media_type = _MEDIA_TYPE.match(content_type)
        if content_type and media_type is None:
            self._repairs.note("a Content-Type is malformed, and was taken for text/plain")
        return Part(
            fields,
            media_type[1].lower() if media_type else "text/plain",
            _parameters(disposition, self._repairs) | _parameters(content_type, self._repairs),
            body,
        )

    def _inner(self, part: Part, depth: int) -> list[bytes] | None:
        """The parts of a multipart or an attached mail; None for what is a leaf, or is read as one."""
        is_mail = part.media_type == "message/rfc822"
        if not is_mail and not part.media_type.startswith("multipart/"):
            return None
        if depth == MAX_DEPTH:
            self._repairs.note("parts are nested too deep; the rest was read as text")
            return None
        if is_mail:
            return [part.content(self._repairs).lstrip(b"\n")]
        pieces = _cut_at_boundary(part.body, part.parameters.get("boundary", ""), self._repairs)
        if not pieces:
            self._repairs.note("the parts could not be told apart, and were read as one text")
        return pieces or None


def _cut_at_blank_line(raw: bytes) -> tuple[bytes, bytes]:
    """Headers and body."""
    if raw.startswith(b"\n"):
        return b"", raw[1:]
    head, _, body = raw.partition(b"\n\n")
    return head, body


def _cut_at_boundary(body: bytes, boundary: str, repairs: Repairs) -> list[bytes]:
    """The pieces between lines that are the boundary, and one more than are allowed if there are so many."""
    if not boundary:
        return []
    line = re.compile(rb"\n--" + re.escape(boundary.encode("utf-8", "surrogateescape")) + rb"(--)?+[ \t]*+(?=\n|\Z)")
    pieces: list[bytes] = []
    begun: int | None = None
    body = b"\n" + body
    for found in line.finditer(body):
        if begun is not None:
            pieces.append(body[begun : found.start()])
        if found[1] or len(pieces) > MAX_PARTS:
            return pieces
        begun = found.end() + 1
    if begun is not None:
        repairs.note("the end of the parts is missing")
        pieces.append(body[begun:])
    return pieces


def _fields(head: bytes, repairs: Repairs) -> Fields:
    if _NO_FIELD.search(head):
        repairs.note("lines among the headers that are none were passed over")
    fields: Fields = {}
    for found in _FIELD.finditer(head):
        name = found[1].decode("ascii").lower()
        known = fields.setdefault(name, [])
        room = min(MAX_VALUE, MAX_VALUES - sum(map(len, known)))
        if room <= 0 or len(known) == MAX_REPEATED:
            repairs.note(f"{name.title()} stands too often; the rest was left out")
            continue
        start, end = found.span(2)
        if end - start > room:
            repairs.note(f"{name.title()} is too long, and was cut")
        text = decode(head[start : min(end, start + room)], "", repairs)
        known.append(" ".join(text.split()))
    return fields


def _parameters(value: str, repairs: Repairs) -> dict[str, str]:
    """The first ``name=value`` of each name, in lower case; continued and encoded ones (RFC 2231) are put together."""
    pairs = [("", "")] + [(name.lower(), text.strip()) for name, text in _PARAMETER.findall(value)]
    found: dict[str, str] = {}
    try:
        for name, text in decode_params(pairs)[1:]:
            plain = text if isinstance(text, str) else collapse_rfc2231_value(text)
            found.setdefault(name, _unquoted(plain))
    except (ValueError, LookupError, TypeError):
        repairs.note("a header's parameters are malformed, and were read as they are")
        found = {name: _unquoted(text) for name, text in reversed(pairs) if name}
    return found


def _unquoted(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] == '"':
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    return text
