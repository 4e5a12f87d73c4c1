"""Where text may be cut: the borders of grapheme clusters (Unicode UAX #29), on the safe side.

The standard library lacks some of the properties that UAX #29 names, so they are covered by wider ones: every border
found here is a border by the standard, while a few of its borders (inside odd sequences that no keyboard makes) are
passed over. The tests hold it against the ``regex`` package.
"""

from __future__ import annotations

import unicodedata
from enum import Enum, auto
from functools import cache


class _Kind(Enum):
    CONTROL = auto()  # never joined to anything
    EXTEND = auto()  # joins what stands before it
    LINKER = auto()  # an EXTEND that also joins the consonant after it, as in क्ष
    JOINER = auto()  # ZWJ: an EXTEND that also joins the pictograph after it, as in 👩‍💻
    PREPEND = auto()  # joins what stands after it
    REGIONAL = auto()  # two make a flag
    HANGUL_L = auto()
    HANGUL_V = auto()
    HANGUL_T = auto()
    HANGUL_LV = auto()
    HANGUL_LVT = auto()
    SYMBOL = auto()  # whatever may be a pictograph
    LETTER = auto()  # whatever may be a consonant that a linker joins
    OTHER = auto()


_ZWJ = "\u200d"
_REGIONALS = "".join(map(chr, range(0x1F1E6, 0x1F200)))
_EXTENDING = (_Kind.EXTEND, _Kind.LINKER, _Kind.JOINER)

# Joined to what stands before them though no marks: ZWNJ, Thai and Lao AM, half-width Katakana sound marks.
_EXTEND_NO_MARK = "\u200c\u0e33\u0eb3\uff9e\uff9f"
# Indic_Conjunct_Break=Linker
_LINKERS = (
    "\u094d\u09cd\u0acd\u0b4d\u0c4d\u0d4d\u1039\u17d2\u1a60\u1b44\u1bab\ua9c0\uaaf6\U00010a3f\U00011133"
    "\U000113d0\U0001193e\U00011a47\U00011a99\U00011f42"
)
# Grapheme_Cluster_Break=Prepend, as ranges
_PREPENDED = [
    "\u0600\u0605",
    "\u06dd\u06dd",
    "\u070f\u070f",
    "\u0890\u0891",
    "\u08e2\u08e2",
    "\u0d4e\u0d4e",
    "\u1cf5\u1cf6",
    "\U000110bd\U000110bd",
    "\U000110cd\U000110cd",
    "\U000111c2\U000111c3",
    "\U000113d1\U000113d1",
    "\U0001193f\U0001193f",
    "\U00011941\U00011941",
    "\U00011a3a\U00011a3a",
    "\U00011a84\U00011a89",
    "\U00011d46\U00011d46",
    "\U00011f02\U00011f02",
]
# Kirat Rai vowels, which Unicode 16 gave the class of Hangul's.
_HANGUL_V_ELSEWHERE = "\U00016d63\U00016d67\U00016d68\U00016d69\U00016d6a"
# Pictographs that are no symbols by category: ‼ ⁉ 〰 〽
_SYMBOL_BY_NAME = "\u203c\u2049\u3030\u303d"

_HANGUL_JOINS = {
    _Kind.HANGUL_L: (_Kind.HANGUL_L, _Kind.HANGUL_V, _Kind.HANGUL_LV, _Kind.HANGUL_LVT),
    _Kind.HANGUL_V: (_Kind.HANGUL_V, _Kind.HANGUL_T),
    _Kind.HANGUL_LV: (_Kind.HANGUL_V, _Kind.HANGUL_T),
    _Kind.HANGUL_T: (_Kind.HANGUL_T,),
    _Kind.HANGUL_LVT: (_Kind.HANGUL_T,),
}


def is_border(text: str, at: int, since: int = 0) -> bool:
    """True when a cut before ``text[at]`` splits no grapheme cluster.

    ``since`` is a border at or before ``at``, beyond which nobody need look back.
    """
    if at <= since or at >= len(text):
        return True
    return not _joined(text, at, since, _kind(text[at - 1]), _kind(text[at]))


def next_border(text: str, at: int) -> int:
    """The first border after ``at``, which is one itself; at most ``len(text)``."""
    before = _kind(text[at]) if at < len(text) else _Kind.OTHER
    for end in range(at + 1, len(text)):
        after = _kind(text[end])
        is_plain_mark = after in _EXTENDING and before is not _Kind.CONTROL
        if not is_plain_mark and not _joined(text, end, at, before, after):
            return end
        before = after
    return len(text)


def previous_border(text: str, at: int, since: int) -> int:
    """The last border at or before ``at`` and at or after ``since``, which is one itself."""
    while at > since and not is_border(text, at, since):
        at -= 1
    return max(at, since)


def _joined(text: str, at: int, since: int, before: _Kind, after: _Kind) -> bool:
    """The rules GB3 to GB13 for the two characters around ``at``."""
    if before is _Kind.CONTROL or after is _Kind.CONTROL:
        return text[at] == "\n" and text[at - 1] == "\r"
    if after in _EXTENDING or before is _Kind.PREPEND:
        return True
    if after is _Kind.SYMBOL:
        return before is _Kind.JOINER
    if after is _Kind.LETTER:
        return before in _EXTENDING and _is_linked(text, at, since)
    if after is _Kind.REGIONAL:
        return before is _Kind.REGIONAL and _is_second_of_pair(text, at, since)
    return after in _HANGUL_JOINS.get(before, ())


def _is_linked(text: str, at: int, since: int) -> bool:
    """True when a linker stands among the marks before ``at``."""
    while at > since:
        at -= 1
        kind = _kind(text[at])
        if kind is _Kind.LINKER:
            return True
        if kind not in _EXTENDING:
            return False
    return False


def _is_second_of_pair(text: str, at: int, since: int) -> bool:
    run = at - since - len(text[since:at].rstrip(_REGIONALS))
    return run % 2 == 1


@cache
def _kind(character: str) -> _Kind:
    if character in _LINKERS:
        return _Kind.LINKER
    if character == _ZWJ:
        return _Kind.JOINER
    if (
        character in _EXTEND_NO_MARK
        or "\U0001f3fb" <= character <= "\U0001f3ff"
        or "\U000e0020" <= character <= "\U000e007f"
    ):
        return _Kind.EXTEND
    if any(first <= character <= last for first, last in _PREPENDED):
        return _Kind.PREPEND
    if character in _REGIONALS:
        return _Kind.REGIONAL
    if character in _SYMBOL_BY_NAME or "\U0001f000" <= character <= "\U0001faff":
        return _Kind.SYMBOL
    hangul = _hangul_kind(character)
    return hangul or _kind_by_category(unicodedata.category(character))


def _kind_by_category(category: str) -> _Kind:
    if category[0] == "M" or category == "Cn":  # what this Python does not know may be a mark of a newer Unicode
        return _Kind.EXTEND
    if category in ("Cc", "Cf", "Zl", "Zp"):
        return _Kind.CONTROL
    if category[0] == "S":
        return _Kind.SYMBOL
    return _Kind.LETTER if category == "Lo" else _Kind.OTHER


def _hangul_kind(character: str) -> _Kind | None:
    if "\uac00" <= character <= "\ud7a3":
        return _Kind.HANGUL_LVT if (ord(character) - 0xAC00) % 28 else _Kind.HANGUL_LV
    if "\u1100" <= character <= "\u115f" or "\ua960" <= character <= "\ua97c":
        return _Kind.HANGUL_L
    if "\u1160" <= character <= "\u11a7" or "\ud7b0" <= character <= "\ud7c6" or character in _HANGUL_V_ELSEWHERE:
        return _Kind.HANGUL_V
    if "\u11a8" <= character <= "\u11ff" or "\ud7cb" <= character <= "\ud7fb":
        return _Kind.HANGUL_T
    return None
