"""Reading ``.eml`` files of any kind, the broken ones included, in bounded time and memory.

    bytes ─► headers ─► addresses by the standard library's modern policy, or else loosely
          └► body ─► cut at its boundaries, level by level ─► leaves ─► text, and names of attachments

What had to be mended is said.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from spot_sdk.email.addresses import MAX_MAILBOXES, AddressReader
from spot_sdk.email.html import html_as_text
from spot_sdk.email.model import Attachment, EmailHeaders, Mailbox
from spot_sdk.email.parts import MAX_VALUE, Fields, Part, PartReader
from spot_sdk.email.text import Repairs, clean, decode, decode_words

MAX_BYTES = 25_000_000
MAX_TEXT = 500_000
"""Characters of a body."""
MAX_HTML = 2_000_000
"""Characters of the HTML that it is made from."""
MAX_ATTACHMENTS = 100

_ONCE = ("from", "reply-to", "to", "cc", "subject", "date", "message-id", "content-type")
_LONG_BLANKS = re.compile(r"[ \t\n]{20,}")
_BYTES_PER_CHARACTER = 4


class ParsedEmail(NamedTuple):
    """The fields of an ``Email``, but for its limits."""

    headers: EmailHeaders
    body_text: str
    attachments: list[Attachment]
    repairs: list[str]


def parse(raw: bytes) -> ParsedEmail:
    """What the bytes of an ``.eml`` file say. Never raises."""
    repairs = Repairs()
    if len(raw) > MAX_BYTES:
        repairs.note(f"only the first {MAX_BYTES:,} bytes were read")
    reader = PartReader(repairs)
    mail = reader.read(_with_plain_line_ends(raw[:MAX_BYTES]))
    headers = _headers(mail.fields, repairs)
    body = _Body(repairs)
    for leaf in reader.leaves(mail):
        body.add(leaf)
    return ParsedEmail(headers, body.text(), body.attachments, list(repairs))


def _with_plain_line_ends(raw: bytes) -> bytes:
    mail = raw.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return mail.lstrip(b"\n")


# --- headers ---------------------------------------------------------------------------------------------------------


def _headers(fields: Fields, repairs: Repairs) -> EmailHeaders:
    for name in _ONCE:
        if len(fields.get(name, ())) > 1:
            repairs.note(f"{name.title()} stands {len(fields[name])} times")
    if not fields.get("from"):
        repairs.note("there is no From")
    reader = AddressReader(repairs)

    def boxes(name: str) -> list[Mailbox]:
        return [box for value in fields.get(name, []) for box in reader.mailboxes(value)][:MAX_MAILBOXES]

    def first(name: str) -> str:
        return next(iter(fields.get(name, [])), "")

    def all_of(name: str) -> list[str]:
        return [clean(value, MAX_VALUE, repairs) for value in fields.get(name, [])]

    return EmailHeaders(
        from_=boxes("from"),
        reply_to=boxes("reply-to"),
        return_path=reader.address(first("return-path")),
        to=boxes("to"),
        cc=boxes("cc"),
        subject=clean(decode_words(first("subject"), repairs), MAX_VALUE, repairs),
        date=clean(first("date"), 200, repairs),
        message_id=clean(first("message-id"), 1_000, repairs),
        received=all_of("received"),
        authentication_results=all_of("authentication-results"),
    )


# --- body ------------------------------------------------------------------------------------------------------------


class _Body:
    """Collects what the leaves say, and the names of those that are files."""

    def __init__(self, repairs: Repairs) -> None:
        self.attachments: list[Attachment] = []
        self._repairs = repairs
        self._plain = _Text(MAX_TEXT, repairs)
        self._html = _Text(MAX_HTML, repairs)

    def add(self, leaf: Part) -> None:
        """A text that names a file and is no attachment is shown by some readers: it is both."""
        texts = {"text/plain": self._plain, "text/html": self._html}
        is_divided = leaf.media_type.startswith(("multipart/", "message/rfc822"))
        text = self._plain if is_divided else texts.get(leaf.media_type)
        name = leaf.parameters.get("filename") or leaf.parameters.get("name") or ""
        if name or leaf.is_attachment or text is None:
            self._attach(leaf, name)
        if text is not None and not leaf.is_attachment:
            text.add(leaf)

    def text(self) -> str:
        """The HTML parts as text, and the plain parts where they say something else."""
        plain = clean(_LONG_BLANKS.sub(_shorter, str(self._plain)), MAX_TEXT, self._repairs)
        html = clean(html_as_text(str(self._html)), MAX_TEXT, self._repairs)
        if not html or _letters(html) == _letters(plain):
            return plain or html
        if not plain or _letters(plain) in _letters(html):
            return html
        return clean(f"{html}\n\n{plain}", MAX_TEXT, self._repairs)

    def _attach(self, leaf: Part, name: str) -> None:
        if len(self.attachments) == MAX_ATTACHMENTS:
            self._repairs.note(f"only the first {MAX_ATTACHMENTS} attachments are listed")
            return
        name = clean(" ".join(decode_words(name, self._repairs).split()), 1_000, self._repairs)
        self.attachments.append(Attachment(name=name, media_type=leaf.media_type, size=leaf.size()))


class _Text:
    """Texts one after another, up to ``limit`` characters."""

    def __init__(self, limit: int, repairs: Repairs) -> None:
        self._limit = limit
        self._left = limit
        self._repairs = repairs
        self._texts: list[str] = []

    def add(self, leaf: Part) -> None:
        limit = self._left * _BYTES_PER_CHARACTER
        text = decode(
            leaf.content(self._repairs, limit=limit), leaf.parameters.get("charset", ""), self._repairs, limit=limit
        )
        if len(text) > self._left:
            self._repairs.note(f"text beyond {self._limit:,} characters was cut")
        self._texts.append(text[: self._left])
        self._left -= len(self._texts[-1])

    def __str__(self) -> str:
        return "\n".join(self._texts)


def _shorter(blanks: re.Match[str]) -> str:
    """Instead of blanks that push a text out of sight."""
    return "\n\n" if "\n" in blanks[0] else "  "


def _letters(text: str) -> str:
    return "".join(c for c in text if c.isalnum()).casefold()
