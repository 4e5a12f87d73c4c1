"""The mailboxes of an address header: by the standard library's modern policy, or else whatever looks like one."""

from __future__ import annotations

import re
from email.errors import HeaderParseError
from email.policy import default
from typing import Any

from spot_sdk.email.model import Mailbox
from spot_sdk.email.text import Repairs, clean, decode_words, names_unknown_charset

MAX_MAILBOXES = 100
MAX_ADDRESS = 1_000
MAX_NAME = 2_000

_MAX_VALUE = 20_000
# The library takes up to seconds for a few thousand characters.
_MAX_STRICT = 1_000
_MAX_STRICT_OF_A_MAIL = 3_000

_PIECE = re.compile(
    r'"(?P<quoted>(?:[^"\\]|\\.){0,250}+)"|<(?P<address>[^<>]*+)>?|(?P<end>[,;])|\([^()]{0,250}+\)|[^",;<(]++|[("]'
)
_BETWEEN_WORDS = re.compile(r"\?=\s+=\?")
_BARE = re.compile(r"""[^\s()<>"'@]++@[^\s()<>"']*+""")


class AddressReader:
    """Reads the address headers of one mail."""

    def __init__(self, repairs: Repairs) -> None:
        self._repairs = repairs
        self._strict_left = _MAX_STRICT_OF_A_MAIL

    def mailboxes(self, value: str) -> list[Mailbox]:
        """All that the header names, addresses without names and names without addresses too."""
        value = value[:_MAX_VALUE]
        boxes = self._by_policy(value)
        if boxes is None:
            boxes = read_loosely(value)
        named = (
            Mailbox(display_name=self._name(name), address=self.address(box)) for name, box in boxes[:MAX_MAILBOXES]
        )
        return [box for box in named if box.display_name or box.address]

    def address(self, address: str) -> str:
        """A bare address: encoded words decoded, no blanks, no brackets."""
        bare = "".join(decode_words(address.strip().removeprefix("<").removesuffix(">"), self._repairs).split())
        return clean(bare, MAX_ADDRESS, self._repairs)

    def _name(self, name: str) -> str:
        return clean(" ".join(decode_words(name, self._repairs).split()), MAX_NAME, self._repairs)

    def _by_policy(self, value: str) -> list[tuple[str, str]] | None:
        """Names and addresses; None for what the policy finds defects in, or would read too long."""
        self._strict_left -= len(value)
        if len(value) > _MAX_STRICT or self._strict_left < 0:
            self._repairs.note("an address header is very long, and was read loosely")
            return None
        # The policy would leave comments out, and readers show some of them; it puts a blank between encoded words
        # where readers put none, and would tear a name apart.
        if "(" in value or _BETWEEN_WORDS.search(value):
            return None
        if not names_unknown_charset(value):
            try:
                header: Any = default.header_factory("from", value)
                if not header.defects:
                    return [(str(box.display_name or ""), str(box.addr_spec)) for box in header.addresses]
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError, HeaderParseError):
                pass  # known of the library; what it cannot read is read below
        self._repairs.note("an address header is malformed, and was read loosely")
        return None


def read_loosely(value: str) -> list[tuple[str, str]]:
    """Names and addresses: of each part between commas what is in ``<>``, or else what has an ``@``.

    A part that has neither belongs to the name that follows: ``Doe, Jane <jane@corp.example>``.
    """
    found: list[tuple[str, str]] = []
    name = ""
    is_taken = False  # the name's address stood before the comma
    for piece in _PIECE.finditer(value):
        if piece["address"] is not None:
            found.append((name.strip(), piece["address"]))
            name, is_taken = "", True
        elif piece["quoted"] is not None:
            name += re.sub(r"\\(.)", r"\1", piece["quoted"])
        elif piece["end"] is None:
            name += piece[0].replace('"', "")
        else:
            found += _bare(name)
            name = "" if is_taken or _BARE.search(name) else f"{name.strip()}, " if name.strip() else ""
            is_taken = False
    rest = name.strip().removesuffix(",")
    return found + (_bare(rest) or ([] if is_taken or not rest else [(rest, "")]))


def _bare(text: str) -> list[tuple[str, str]]:
    """The address in ``jane@corp.example (Jane Doe)`` and its name, if there is one."""
    address = _BARE.search(text)
    if address is None:
        return []
    name = (text[: address.start()] + text[address.end() :]).strip(" ()<>")
    return [(name, address[0])]
