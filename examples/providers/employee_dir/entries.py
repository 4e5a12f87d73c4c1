"""Entries of a directory, whichever way they came."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from examples.providers.listing import SourceFailed

PERSON_CLASSES = frozenset({"person", "organizationalperson", "inetorgperson", "user"})
MAX_VALUE_LENGTH = 256
MAX_VALUES = 16
"""Of each attribute; with MAX_VALUE_LENGTH, what keeps the facts about one entry within what a document may hold."""

_ESCAPED_BYTES = re.compile(r"(?:\\[0-9a-fA-F]{2})+")


class DirectoryListingFailed(SourceFailed):
    """The directory could not be listed to its end."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry: its DN, and its values by lower-case attribute name without options (``cn;lang-fr`` is ``cn``)."""

    dn: str
    attributes: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, dn: str, attributes: Iterable[tuple[str, Iterable[bytes]]]) -> Entry:
        """An entry from values as they travel; what is not text (a photograph) is left out."""
        read: dict[str, list[str]] = {}
        for description, values in attributes:
            name, *options = description.lower().split(";")
            if "binary" not in options:
                read.setdefault(name, []).extend(text for value in values if (text := _text(value)))
        return cls(dn, {name: tuple(dict.fromkeys(values)) for name, values in read.items() if values})

    def values(self, *names: str, limit: int = MAX_VALUES) -> list[str]:
        """The values of these attributes, in the order of the names, each once, as clean single lines."""
        found = (line(value) for name in names for value in self.attributes.get(name.lower(), ()))
        return list(dict.fromkeys(value for value in found if value))[:limit]

    @property
    def is_person(self) -> bool:
        classes = {value.lower() for value in self.attributes.get("objectclass", ())}
        return not classes.isdisjoint(PERSON_CLASSES) and "computer" not in classes

    @property
    def places(self) -> set[str]:
        """The parts of its DN above the entry itself, as ``dn_key`` spells them."""
        return set(dn_key(self.dn)[1:])


def line(text: str) -> str:
    """``text`` on one line: control characters and runs of blanks become one blank; very long ones are cut."""
    printable = "".join(" " if unicodedata.category(c) in ("Cc", "Cs") else c for c in text)
    return " ".join(unicodedata.normalize("NFC", printable).split())[:MAX_VALUE_LENGTH].rstrip()


def dn_key(dn: str) -> tuple[str, ...]:
    """What two spellings of one DN (RFC 4514) have in common: case, blanks and ways of escaping do not count."""
    return tuple(_rdn_key(rdn) for rdn in _split(dn, ","))


def _rdn_key(rdn: str) -> str:
    kind, _, value = rdn.partition("=")
    plain = re.sub(r"\\(.)", r"\1", _ESCAPED_BYTES.sub(_unescape, value.strip()))
    return f"{kind.strip()}={' '.join(plain.split())}".casefold()


def _unescape(escaped: re.Match[str]) -> str:
    return bytes.fromhex(escaped[0].replace("\\", "")).decode("utf-8", "replace")


def _split(text: str, separator: str) -> list[str]:
    """Cut at the separators that no backslash escapes."""
    parts, start, at = list[str](), 0, 0
    while at < len(text):
        if text[at] == "\\":
            at += 1
        elif text[at] == separator:
            parts.append(text[start:at])
            start = at + 1
        at += 1
    return [*parts, text[start:]]


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
