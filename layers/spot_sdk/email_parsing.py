"""Reading ``.eml`` files of any kind, the broken ones included, by the standard library's parser.

    bytes ─► headers ─► each by the modern policy, or else loosely
          └► body ─► cut at its boundaries, level by level ─► leaves ─► text, and names of attachments

The library's own reader of whole mails recurses into nested parts, and takes a second for every two megabytes and more
where boundaries are many; its reader of headers raises on some that are broken. So parts are cut here, headers are read
one by one, and what had to be mended is said.
"""

from __future__ import annotations

import email.header
import re
from collections.abc import Iterator
from contextlib import suppress
from email.errors import HeaderParseError
from email.message import Message
from email.parser import BytesParser
from email.policy import compat32, default
from html import unescape
from typing import Any, NamedTuple

MAX_BYTES = 25_000_000
MAX_TEXT = 500_000
"""Characters of a body, and of the HTML that it is made from."""
MAX_HEADER = 20_000
"""Characters of one header."""
MAX_REPEATED = 100
"""Headers of one name, addresses of one header, attachments, repairs."""
MAX_HEADERS = 256_000
"""Bytes of the headers of one part."""
MAX_PARTS = 1_000
_MAX_DEPTH = 20
_MAX_COMMENTS = 50
_MAX_STRICT = 4_000  # characters of an address header that the library reads in good time
_MAX_ADDRESS = 1_000

_ENCODED_WORD = re.compile(r"=\?[^?\s]{1,60}\?[bqBQ]\?[^?]*\?=")
_MARKUP = re.compile(
    r"""<!--|<(?P<closing>/?)(?P<tag>[a-zA-Z][a-zA-Z0-9]*)[^<>"']*(?:"[^"]*"[^<>"']*|'[^']*'[^<>"']*)*>|<[!?][^<>]*>"""
)
_SILENT = {tag: re.compile(rf"</{tag}[^<>]*>?", re.IGNORECASE) for tag in ("script", "style", "template")}
_BLOCKS = frozenset(
    ("p", "div", "br", "tr", "li", "ul", "ol", "table", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "pre", "hr")
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_BLANKS = re.compile(r"[ \t]*[\r\n]+[ \t]*")
_LOOSE_MAILBOX = re.compile(r"([^<>,]{0,1000})<([^<>]{0,1000})>|([^\s,<>\"();:]{1,300}@[^\s,<>\"();:]{1,300})")
_ADDRESS_HEADERS = ("from", "reply-to", "to", "cc")
_ONCE = ("from", "reply-to", "to", "cc", "subject", "date", "message-id", "return-path")


def parse(raw: bytes) -> dict[str, Any]:
    """The fields of an ``Email``, but for its limits."""
    return _Reader(raw).read()


class _Reader:
    def __init__(self, raw: bytes) -> None:
        self.repairs: dict[str, None] = {}
        self._raw = raw
        if len(raw) > MAX_BYTES:
            self._note(f"only the first {MAX_BYTES:,} bytes were read")
            self._raw = raw[:MAX_BYTES]

    def _note(self, repair: str) -> None:
        if len(self.repairs) < MAX_REPEATED:
            self.repairs[repair] = None

    def read(self) -> dict[str, Any]:
        message = self._part(self._raw)
        headers = self._headers(message.headers)
        texts: dict[str, list[str]] = {"plain": [], "html": []}
        attachments: list[dict[str, Any]] = []
        for leaf in self._leaves(message):
            self._take(leaf, texts, attachments)
        return {
            "headers": headers,
            "body_text": self._body(texts),
            "attachments": attachments,
            "repairs": list(self.repairs),
        }

    # --- parts ------------------------------------------------------------------------------------------------------

    def _part(self, raw: bytes) -> _Part:
        if b"\n" not in raw:
            raw = raw.replace(b"\r", b"\n")
        head, body = _cut_at_blank_line(raw)
        if len(head) > MAX_HEADERS:
            self._note("the headers are too long, and were cut")
            head = head[:MAX_HEADERS]
        return _Part(BytesParser(policy=compat32).parsebytes(head + b"\n\n", headersonly=True), body)

    def _leaves(self, message: _Part) -> Iterator[_Part]:
        """The parts that hold no parts, in order."""
        waiting: list[tuple[_Part, int]] = [(message, 0)]
        parts = 0
        while waiting:
            part, depth = waiting.pop()
            parts += 1
            if parts > MAX_PARTS:
                self._note(f"only the first {MAX_PARTS:,} parts were read")
                return
            inner = self._inner_parts(part, depth)
            if inner is None:
                yield part
            else:
                waiting.extend((each, depth + 1) for each in reversed(inner))

    def _inner_parts(self, part: _Part, depth: int) -> list[_Part] | None:
        """The parts of a multipart or an attached mail; None for what is a leaf."""
        kind = part.headers.get_content_type()
        if kind != "message/rfc822" and not kind.startswith("multipart/"):
            return None
        if depth == _MAX_DEPTH:
            self._note("parts are nested too deep; the rest was read as text")
            part.headers.set_type("text/plain")
            return None
        if kind == "message/rfc822":
            return [self._part(part.body.lstrip(b"\r\n"))]
        pieces, is_closed = _cut_at_boundary(part.body, self._boundary(part))
        if not pieces:
            self._note("the parts could not be told apart, and were read as one text")
            part.headers.set_type("text/plain")
            return None
        if not is_closed:
            self._note("the end of the parts is missing")
        return [self._part(piece) for piece in pieces[: MAX_PARTS + 1]]

    def _boundary(self, part: _Part) -> bytes:
        with suppress(ValueError, LookupError, TypeError, AttributeError):
            return (part.headers.get_boundary() or "").encode("utf-8", "surrogateescape")
        return b""

    def _take(self, part: _Part, texts: dict[str, list[str]], attachments: list[dict[str, Any]]) -> None:
        """A leaf's text or, where it is an attachment, its name."""
        name = self._file_name(part)
        is_attached = "attachment" in str(part.headers.get("Content-Disposition", "")).lower()
        kind = part.headers.get_content_subtype() if part.headers.get_content_maintype() == "text" else ""
        if name or is_attached or kind not in texts:
            if len(attachments) < MAX_REPEATED:
                media_type = self._clean(part.headers.get_content_type(), 200)
                attachments.append({"name": name, "media_type": media_type, "size": len(self._content(part, None))})
            return
        if sum(map(len, texts[kind])) < MAX_TEXT:
            texts[kind].append(self._text(part))

    def _file_name(self, part: _Part) -> str:
        try:
            return self._words(part.headers.get_filename() or "")
        except (ValueError, LookupError, TypeError, AttributeError):
            self._note("an attachment's name could not be read")
            return ""

    def _content(self, part: _Part, limit: int | None) -> bytes:
        """What a part holds, its transfer encoding undone; of its first ``limit`` bytes."""
        body = part.body[:limit]
        part.headers.set_payload(body.decode("ascii", "surrogateescape"))
        with suppress(ValueError, LookupError, TypeError, AttributeError):
            decoded: Any = part.headers.get_payload(decode=True)
            if isinstance(decoded, bytes):
                return decoded
        return body

    def _text(self, part: _Part) -> str:
        payload = self._content(part, 6 * MAX_TEXT)[: 4 * MAX_TEXT]
        charset = str(part.headers.get_content_charset() or "utf-8")
        try:
            return payload.decode(charset)
        except (LookupError, ValueError):
            self._note(f"text is not in the character set that it names ({self._clean(charset, 60)})")
            return payload.decode("utf-8", "replace")

    def _body(self, texts: dict[str, list[str]]) -> str:
        """The HTML parts as text, and the plain parts where they say something else."""
        plain = self._clean("\n".join(texts["plain"]), MAX_TEXT)
        html = self._clean(html_as_text("\n".join(texts["html"])[:MAX_TEXT]), MAX_TEXT)
        if not html or _letters(html) == _letters(plain):
            return plain or html
        if not plain or _letters(plain) in _letters(html):
            return html
        return f"{html}\n\n{plain}"[:MAX_TEXT]

    # --- headers ----------------------------------------------------------------------------------------------------

    def _headers(self, message: Message) -> dict[str, Any]:
        found: dict[str, list[str]] = {}
        for name, value in message.raw_items():
            known = found.setdefault(str(name).lower(), [])
            if len(known) < MAX_REPEATED:
                known.append(self._unfolded(name, value))
        for name in _ONCE:
            if len(found.get(name, ())) > 1:
                self._note(f"{name.title()} stands {len(found[name])} times")
        if not found.get("from"):
            self._note("there is no From")
        addresses = {
            name.replace("-", "_"): [box for value in found.get(name, []) for box in self._mailboxes(value)][
                :MAX_REPEATED
            ]
            for name in _ADDRESS_HEADERS
        }
        return {
            **addresses,
            "return_path": self._return_path(found.get("return-path", [])),
            "subject": self._words(" ".join(found.get("subject", [])[:1])),
            "date": self._clean(" ".join(found.get("date", [])[:1]), 200),
            "message_id": self._clean(" ".join(found.get("message-id", [])[:1]), 1_000),
            "received": [self._clean(value, MAX_HEADER) for value in found.get("received", [])],
            "authentication_results": [
                self._clean(value, MAX_HEADER) for value in found.get("authentication-results", [])
            ],
        }

    def _unfolded(self, name: str, value: Any) -> str:
        text = str(value)
        if len(text) > MAX_HEADER:
            self._note(f"{self._clean(str(name), 60).title()} is too long, and was cut")
            text = text[:MAX_HEADER]
        with suppress(
            UnicodeEncodeError
        ):  # bytes beyond ASCII, which the library keeps as surrogates, are UTF-8 mostly
            text = text.encode("ascii", "surrogateescape").decode("utf-8", "replace")
        return _BLANKS.sub(" ", text)

    def _mailboxes(self, value: str) -> list[dict[str, str]]:
        """The addresses of a header: by the modern policy, or else whatever looks like one."""
        boxes = self._by_policy(value)
        if boxes is None:
            self._note("an address header is malformed or very long, and was read loosely")
            boxes = [(found[1] or "", found[2] or found[3]) for found in _LOOSE_MAILBOX.finditer(value)]
            boxes = boxes or [(value, "")]
        return [
            {"display_name": self._words(name.strip().strip('"')), "address": self._address(address)}
            for name, address in boxes[:MAX_REPEATED]
            if name or address
        ]

    def _by_policy(self, value: str) -> list[tuple[str, str]] | None:
        if len(value) > _MAX_STRICT or value.count("(") > _MAX_COMMENTS:
            return None
        try:
            header: Any = default.header_factory("from", value)
            if header.defects:
                return None
            return [(str(box.display_name or ""), str(box.addr_spec)) for box in header.addresses]
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError, HeaderParseError):
            return None

    def _address(self, address: str) -> str:
        return "".join(self._words(address).split())[:_MAX_ADDRESS]

    def _return_path(self, values: list[str]) -> str:
        found = re.search(r"<([^<>]*)>", values[0]) if values else None
        return self._address(found[1] if found else values[0] if values else "")

    def _words(self, text: str) -> str:
        """Text with encoded words (``=?utf-8?B?…?=``) decoded, also where they are not allowed, as readers do."""
        if _ENCODED_WORD.search(text):
            try:
                decoded = str(email.header.make_header(email.header.decode_header(text)))
            except (ValueError, LookupError, TypeError, AttributeError, HeaderParseError):
                self._note("an encoded word could not be decoded")
            else:
                text = decoded
        return self._clean(_BLANKS.sub(" ", text), MAX_HEADER).strip()

    def _clean(self, text: str, limit: int) -> str:
        """Text that can be stored and shown: no control characters, no lone surrogates, not too long."""
        if len(text) > limit:
            self._note(f"text beyond {limit:,} characters was cut")
            text = text[:limit]
        if _CONTROLS.search(text):
            self._note("control characters were taken out")
            text = _CONTROLS.sub("", text)
        if any("\ud800" <= c <= "\udfff" for c in text):
            self._note("bytes that are no text were replaced")
            text = "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text)
        return text.strip()


class _Part(NamedTuple):
    """A part's headers, and what follows them undivided and encoded."""

    headers: Message
    body: bytes


def _cut_at_blank_line(raw: bytes) -> tuple[bytes, bytes]:
    """Headers and body."""
    if raw.startswith((b"\n", b"\r\n")):
        return b"", raw.lstrip(b"\r\n")
    ends = [(at, length) for length, mark in ((2, b"\n\n"), (3, b"\n\r\n")) if (at := raw.find(mark)) != -1]
    if not ends:
        return raw, b""
    at, length = min(ends)
    return raw[:at], raw[at + length :]


def _cut_at_boundary(body: bytes, boundary: bytes) -> tuple[list[bytes], bool]:
    """The pieces between lines that are the boundary, and whether a closing one ended them."""
    mark = b"--" + boundary
    if not boundary or mark not in body:
        return [], False
    pieces: list[bytes] = []
    begun: int | None = None
    at = -1
    while (at := body.find(mark, at + 1)) != -1:
        if at and body[at - 1] not in b"\r\n":
            continue
        end = body.find(b"\n", at)
        rest = body[at + len(mark) : len(body) if end == -1 else end].strip()
        if rest not in (b"", b"--"):
            continue
        if begun is not None:
            pieces.append(body[begun:at].removesuffix(b"\n").removesuffix(b"\r"))
        if rest or end == -1:
            return pieces, bool(rest)
        begun = end + 1
    if begun is not None:
        pieces.append(body[begun:])
    return pieces, False


def _letters(text: str) -> str:
    return "".join(c for c in text if c.isalnum()).casefold()


def html_as_text(html: str) -> str:
    """The text of HTML, with a line break for each block; scripts, styles and comments say nothing.

    In one pass: the library's parser takes time with the square of the length where tags do not end.
    """
    pieces: list[str] = []
    at = 0
    while found := _MARKUP.search(html, at):
        pieces.append(html[at : found.start()])
        at = found.end()
        tag = (found["tag"] or "").lower()
        if found[0] == "<!--":
            end = html.find("-->", at)
            at = len(html) if end == -1 else end + 3
        elif tag in _SILENT and not found["closing"]:
            closing = _SILENT[tag].search(html, at)
            at = closing.end() if closing else len(html)
        elif tag in _BLOCKS:
            pieces.append("\n")
    pieces.append(html[at:])
    lines = unescape("".join(pieces)).split("\n")
    tidy = (" ".join(line.split()) for line in lines)
    return "\n".join(line for line in tidy if line)
