"""An e-mail as analyzers get it: who it says it is from, what it says, and what had to be mended to read it."""

from __future__ import annotations

import re
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, computed_field

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
        """The domain with punycode labels (``xn--…``) in the characters that a reader is shown."""
        return ".".join(_shown(label) for label in self.domain.split("."))

    def __str__(self) -> str:
        return f"{self.display_name} <{self.address}>" if self.display_name else self.address


class Attachment(BaseModel):
    """An attached file, by name alone: its content is not kept."""

    model_config = ConfigDict(frozen=True)

    name: str
    media_type: str
    size: int


class EmailHeaders(BaseModel):
    """The headers that say whom a mail is from and how it came. Decoded; those that repeat keep their order."""

    from_: Annotated[list[Mailbox], Field(alias="from")] = []
    reply_to: list[Mailbox] = []
    return_path: str = ""
    to: list[Mailbox] = []
    cc: list[Mailbox] = []
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

        Only the topmost header counts: those below came with the mail, and anybody may have written them.
        """
        topmost = self.authentication_results[0] if self.authentication_results else ""
        return {method.lower(): result.lower() for method, result in _AUTHENTICATION.findall(topmost)}


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

        Time and memory are bounded: at most 25 MB are read, and of each part of the result what MAX_… in
        ``spot_sdk.email_parsing`` says.
        """
        from spot_sdk.email_parsing import parse

        return cls.model_validate({**parse(raw), "retrieval_limits": retrieval_limits})

    @computed_field
    @property
    def subject(self) -> str:
        return self.headers.subject


def _shown(label: str) -> str:
    if not label.startswith("xn--"):
        return label
    try:
        return label[4:].encode("ascii").decode("punycode")
    except (UnicodeError, ValueError, OverflowError):
        return label


_AUTHENTICATION = re.compile(r"(?:^|[;\s])(spf|dkim|dmarc|arc|compauth)\s*=\s*([a-zA-Z]+)", re.IGNORECASE)

ParsedEmail = dict[str, Any]
"""The fields of an Email, but for its limits."""
