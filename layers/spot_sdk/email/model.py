"""An e-mail as analyzers get it: who it says it is from, what it says, and what had to be mended to read it."""

from __future__ import annotations

import re
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, computed_field

from spot_sdk.documents import RetrievalLimits


class Mailbox(BaseModel):
    """A name and an address, as they stand in a header: ``Alice Example <alice@example.com>``.

    The name may hold anything, another address included; who reads it decides what that means.
    """

    model_config = ConfigDict(frozen=True)

    display_name: str = ""
    address: str = ""

    @property
    def domain(self) -> str:
        """What follows the last ``@``, in lower case and as it is written; empty where there is none."""
        return self.address.rpartition("@")[2].lower().rstrip(".") if "@" in self.address else ""

    @property
    def unicode_domain(self) -> str:
        """The domain as a reader is shown it: punycode labels (``xn--…``) in the characters that they stand for."""
        return ".".join(_shown(label) for label in self.domain.split("."))

    def __str__(self) -> str:
        return f"{self.display_name} <{self.address}>" if self.display_name else self.address


class Attachment(BaseModel):
    """An attached file, by name alone: its content is not kept."""

    model_config = ConfigDict(frozen=True)

    name: str
    media_type: str
    size: int


def _read(value: Any) -> Any:
    """A header as it is written, read; mailboxes as they are."""
    if not isinstance(value, str):
        return value
    from spot_sdk.email.addresses import AddressReader
    from spot_sdk.email.text import Repairs

    return AddressReader(Repairs()).mailboxes(value)


Mailboxes = Annotated[list[Mailbox], BeforeValidator(_read)]
"""In JSON either ``[{"display_name", "address"}]``, or one header as it is written: ``"Alice <alice@example.com>"``."""


class EmailHeaders(BaseModel):
    """The headers that say whom a mail is from and how it came. Decoded; those that repeat keep their order.

    All mailboxes of all ``From:`` headers are kept, since readers differ in which of them they show.
    """

    from_: Annotated[Mailboxes, Field(alias="from")] = []
    reply_to: Mailboxes = []
    return_path: str = ""
    to: Mailboxes = []
    cc: Mailboxes = []
    subject: str = ""
    date: str = ""
    message_id: str = ""
    received: list[str] = []
    authentication_results: list[str] = []

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)

    @property
    def sender(self) -> str:
        """The first address of ``From:``, empty where there is none."""
        return self.from_[0].address if self.from_ else ""

    @property
    def authentication(self) -> dict[str, str]:
        """What the receiving server found, by method: ``{"spf": "pass", "dmarc": "fail"}``.

        Only the topmost header counts: those below came with the mail, and anybody may have written them. Where one's
        own server writes none, the topmost is the sender's too. Of several signatures (``dkim``) one that passes will
        do, of any other method the first result counts.
        """
        found: dict[str, str] = {}
        topmost = self.authentication_results[0] if self.authentication_results else ""
        for finding in _without_free_text(topmost).lower().split(";"):
            method, _, result = (part.strip() for part in finding.partition("="))
            method = method.partition("/")[0]
            word = re.match(r"[a-z]+", result)
            counts = method not in found or (method == "dkim" and result.startswith("pass"))
            if word and method in _METHODS and counts:
                found[method] = word[0]
        return found


class Email(BaseModel):
    """A parsed e-mail. ``retrieval_limits`` are the operator's caps on what its analysis may fetch.

    ``body_text`` is what a reader is shown: the HTML part as text, and the plain part where that says something else.
    ``repairs`` lists what was wrong with the mail and how it was read all the same.
    """

    headers: EmailHeaders = EmailHeaders()
    body_text: str = ""
    attachments: list[Attachment] = []
    repairs: list[str] = []
    retrieval_limits: RetrievalLimits | None = None

    @classmethod
    def from_bytes(cls, raw: bytes, *, retrieval_limits: RetrievalLimits | None = None) -> Self:
        """The mail in the bytes of an ``.eml`` file. Never raises: whatever is broken is read as well as it can be.

        Time and memory are bounded: at most 25 MB are read, and of each part of the result what the limits (MAX_…) in
        ``spot_sdk.email.parsing``, ``.parts`` and ``.addresses`` say.
        """
        from spot_sdk.email.parsing import parse

        return cls(**parse(raw)._asdict(), retrieval_limits=retrieval_limits)

    @computed_field
    @property
    def subject(self) -> str:
        return self.headers.subject


def _shown(label: str) -> str:
    if not label.startswith("xn--") or len(label) > _MAX_LABEL:
        return label
    try:
        shown = label[4:].encode("ascii").decode("punycode")
    except (UnicodeError, ValueError, OverflowError):
        return label
    return shown if shown.isprintable() and not any(c.isspace() or c in "@." for c in shown) else label


def _without_free_text(header: str) -> str:
    """A header without comments and quoted strings, where senders may have words of their own."""
    depth = 0
    kept: list[str] = []
    for piece in _FREE_TEXT.findall(header):
        if piece == "(":
            depth += 1
        elif piece == ")":
            depth = max(0, depth - 1)
        elif depth == 0 and not piece.startswith('"'):
            kept.append(piece)
    return "".join(kept)


_MAX_LABEL = 63
_METHODS = ("spf", "dkim", "dmarc", "arc", "compauth")
_FREE_TEXT = re.compile(r'"(?:[^"\\]|\\.){0,1000}+"?|[()]|[^"()]++')
