"""What the rules read of a mail."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from spot_sdk.email import Email

Authentication = Literal["pass", "fail", "unknown"]

_INITIAL = re.compile(r"(?<![\w'’-])\w\.?(?=\s)")


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

    @classmethod
    def of(cls, email: Email) -> MailView:
        """Of several senders the first counts, and the others are part of whom it pretends to be."""
        headers = email.headers
        claims = [headers.from_[0].display_name if headers.from_ else "", *map(str, headers.from_[1:])]
        return cls(
            name="; ".join(claim for claim in claims if claim.strip()),
            address=headers.sender.lower(),
            reply_to=tuple(dict.fromkeys(one.address.lower() for one in headers.reply_to if one.address)),
            envelope=headers.return_path.strip("<> \t").lower(),
            recipients=tuple(one.address.lower() for one in (*headers.to, *headers.cc) if one.address),
            text=f"{headers.subject}.\n\n{email.body_text}",
            authentication=_authentication(headers.authentication),
        )

    @property
    def names(self) -> list[str]:
        """The display name as it is, and as the directory may have it: without initials, and the given name first."""
        plain = " ".join(_INITIAL.sub("", self.name).split())
        family, comma, given = plain.partition(",")
        turned = f"{given.strip()} {family.strip()}" if comma and given.count(",") == 0 else ""
        return [one for one in dict.fromkeys((self.name, plain, turned)) if one.strip()]


def _authentication(results: dict[str, str]) -> Authentication:
    """Of the domain in ``From:``. SPF alone may pass for another one, so only DMARC says that a mail is genuine."""
    if results.get("dmarc") == "pass":
        return "pass"
    is_refused = results.get("dmarc") == "fail" or results.get("compauth") == "fail"
    is_forged = "dmarc" not in results and results.get("spf") == "fail" and results.get("dkim") != "pass"
    return "fail" if is_refused or is_forged else "unknown"
