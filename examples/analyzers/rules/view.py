"""What the rules read of a mail."""

from __future__ import annotations

from typing import Literal, NamedTuple

Authentication = Literal["pass", "fail", "unknown"]


class MailView(NamedTuple):
    """Addresses are in lower case and bare; "" or empty where the mail has none.

    ``name`` is the display name of ``From:``, ``envelope`` the address of ``Return-Path:``, ``text`` subject and body.
    """

    name: str
    address: str
    reply_to: tuple[str, ...]
    envelope: str
    recipients: tuple[str, ...]
    text: str
    authentication: Authentication
