"""How a domain relates to one of ours: the same, an imitation of it, or nothing of the kind."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Literal, NamedTuple

Trick = Literal["homoglyph", "letter", "ending", "subdomain", "word"]

MIN_STEM = 4
"""Of a shorter name, half of all short names are imitations."""

MIN_STEM_INSIDE = 6
"""A name this long is no accident inside a longer word; a shorter one counts only between hyphens."""

_CONFUSABLE = str.maketrans(
    {
        **dict(zip("аеорсухіјѕԁһӏкмтвнԛԝ", "aeopcyxijsdhlkmtbhqw", strict=True)),  # Cyrillic
        **dict(zip("αενοικρτυχω", "aevoikptuxw", strict=True)),  # Greek
        **dict(zip("օսոհ", "ounh", strict=True)),  # Armenian
        **dict(zip("ıɡɑ0135", "igaoles", strict=True)),
        "ł": "l",
        "ø": "o",
        "đ": "d",
        "ß": "ss",
    }
)
_ALIKE_TOGETHER = (("rn", "m"), ("vv", "w"), ("cl", "d"), ("i", "l"))


class Imitation(NamedTuple):
    """``domain`` imitates ``ours``, and how."""

    domain: str
    ours: str
    trick: Trick


def domain_of(address: str) -> str:
    """The domain of an address in lower case and Unicode, "" where it has none."""
    return readable(address.rpartition("@")[2]) if "@" in address else ""


def readable(domain: str) -> str:
    """``domain`` in lower case, punycode decoded where it can be."""
    return ".".join(map(_decoded, domain.strip().rstrip(".").lower().split(".")))


def belongs_to(domain: str, ours: Iterable[str]) -> bool:
    """Whether ``domain`` is one of ours, lies below one, or above one."""
    return any(domain == own or domain.endswith(f".{own}") or own.endswith(f".{domain}") for own in ours)


def imitation(domain: str, ours: Iterable[str]) -> Imitation | None:
    """The domain of ours that ``domain`` is made to be taken for; None for ours themselves and for others."""
    own_domains = sorted(ours)
    if not domain or belongs_to(domain, own_domains):
        return None
    found = [Imitation(domain, own, trick) for own in own_domains if (trick := _trick(domain, own)) is not None]
    return min(found, key=lambda one: _ORDER.index(one.trick), default=None)


_ORDER: tuple[Trick, ...] = ("homoglyph", "subdomain", "letter", "ending", "word")


def _trick(domain: str, own: str) -> Trick | None:
    if skeleton(domain) == skeleton(own):
        return "homoglyph"
    if f".{own}." in f".{domain}.":
        return "subdomain"
    stem = _stem(own)
    if len(stem) < MIN_STEM:
        return None
    place = own.split(".").index(stem)
    labels = domain.split(".")[:-1]
    for label in labels:
        if skeleton(label) == skeleton(stem):
            is_registered = label == labels[-1] or (len(labels) > 1 and label == labels[-2] and len(labels[-1]) <= 3)
            return "ending" if is_registered else "word"
    same_ending = domain.split(".")[-1] == own.split(".")[-1]
    head = labels[place] if place < len(labels) else labels[-1]
    if _one_slip(skeleton(head), skeleton(stem)) or _one_slip(head, stem):
        return "letter" if same_ending or len(stem) >= MIN_STEM_INSIDE else None
    return "word" if any(_has_inside(label, stem) for label in labels) else None


def _stem(own: str) -> str:
    """What a domain is known by: the longest of its labels but the last."""
    return max(own.split(".")[:-1], key=len, default="")


def _has_inside(label: str, stem: str) -> bool:
    wanted = skeleton(stem)
    if wanted in map(skeleton, re.split(r"[-_\d]+", label)):
        return True
    whole = skeleton(label)
    return len(stem) >= MIN_STEM_INSIDE and (whole.startswith(wanted) or whole.endswith(wanted))


def skeleton(text: str) -> str:
    """``text`` with characters that look alike made the same; two texts that look alike have one skeleton."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", text.lower()) if not unicodedata.combining(c))
    folded = plain.translate(_CONFUSABLE)
    for pair, single in _ALIKE_TOGETHER:
        folded = folded.replace(pair, single)
    return folded


def _one_slip(first: str, second: str) -> bool:
    """Whether one letter inserted, left out, replaced, or swapped with its neighbour makes one of the other."""
    if first == second or abs(len(first) - len(second)) > 1:
        return False
    start = next(
        (n for n, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second))
    )
    rest, other = first[start:], second[start:]
    return (
        rest[1:] == other[1:]
        or rest[1:] == other
        or rest == other[1:]
        or (rest[:2] == other[1::-1] and rest[2:] == other[2:])
    )


def _decoded(label: str) -> str:
    if not label.startswith("xn--"):
        return label
    try:
        return label[4:].encode("ascii").decode("punycode").lower()
    except UnicodeError:
        return label
