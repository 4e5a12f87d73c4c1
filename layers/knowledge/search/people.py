"""People in a text, and how surely one of them is somebody we know.

``mentions`` finds addresses and names in a question or a whole mail; the database looks them up, exactly, after folding
characters that look alike, and by trigrams (``knowledge_compare`` and ``knowledge_fold_lookalikes`` in migration 0005,
which fold what is stored and what is asked by the same rule); ``judge`` says what a pair is worth.

| what fits        | exact | looks alike | near            |
|------------------|-------|-------------|-----------------|
| address          | 1.00  | .97         | .95 x similarity |
| name             | .90   | .88         | .85 x similarity |
| local part alone | .80   | .78         | .75 x similarity |
| domain alone     | -     | .58         | .55 x similarity |

A near thing has a similarity of at least .8: of five letters, four are right. From ``PERSON_SCORE`` up, a score speaks
of a person; below, only of a domain that resembles a known one, or of somebody whom the document merely mentions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from typing import Literal, NamedTuple

from spot_sdk.checks import storable
from spot_sdk.documents import Evidence

PERSON_SCORE = 0.6
NEAR = 0.8

MAX_ADDRESSES = 20
MAX_NAMES = 100
MAX_NEAR_LOOKUPS = 24
_MAX_SIGNS = 500  # "@" looked at: a mail of a hundred thousand of them is read in milliseconds all the same
_SHORT_TEXT_WORDS = 8
_NAME_WORDS = (2, 3, 4)
_MAX_NAME_LENGTH = 100
_MAX_BEFORE_ANGLES = 160

_MENTIONED = 0.9  # of what it would be worth if the document were about this person
_SECOND = 0.02

Field = Literal["address", "name"]
Match = Literal["exact", "lookalike", "near"]

_WORTH: dict[str, dict[Match, float]] = {
    "address": {"exact": 1.0, "lookalike": 0.97, "near": 0.95},
    "name": {"exact": 0.9, "lookalike": 0.88, "near": 0.85},
    "local_part": {"exact": 0.8, "lookalike": 0.78, "near": 0.75},
    "domain": {"lookalike": 0.58, "near": 0.55},
}


class Mentions(NamedTuple):
    """The addresses and names that a text holds, each once, those of headers first; true when there are any."""

    addresses: tuple[str, ...]
    names: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.addresses or self.names)


class Compared(NamedTuple):
    """A name, or an address in its parts, as ``knowledge_compare`` gives it; a name has no domain."""

    text: str
    plain: str
    folded: str
    plain_domain: str
    folded_domain: str


class Judged(NamedTuple):
    score: float
    evidence: Evidence


# ------------------------------------------------------------------------------------------------------- finding

_NOT_IN_DOMAIN = r"""\s<>()\[\]{}"“”„‘’`',;:@＠﹫\\/#?=&|._．。!*%$"""
_SIGN = re.compile("[@＠﹫]")
_LOCAL = re.compile(r'"(?P<quoted>[^"\r\n]{1,64})"$|(?P<bare>[^\s<>()\[\]{}"“”„‘’`,;:\\/#?=&|@＠﹫]{1,64})$')
_DOMAIN = re.compile(rf"(?:[^{_NOT_IN_DOMAIN}]{{1,63}}[.．。]){{1,8}}[^{_NOT_IN_DOMAIN}]{{2,63}}")
_IN_ANGLES = re.compile(r"<[^<>\s]{3,320}>")
_LINE_END_OR_ANGLE = re.compile(r"[<>\r\n]")
_FIELD_NAME = re.compile(r"^[A-Za-z-]{2,30}:\s*")
_BETWEEN_NAMES = re.compile(r"[,;]")
_ENCODED_WORDS = re.compile(
    r"=\?[^?\s]{1,40}\?[bBqQ]\?[^?\s]{0,400}\?=(?:\s+=\?[^?\s]{1,40}\?[bBqQ]\?[^?\s]{0,400}\?=)*"
)
_WORD = re.compile(r"[^\W\d_]+(?:['’.-][^\W\d_]+)*\.?")
_BETWEEN_WORDS = re.compile(r"[ \t\u00a0]{1,3}")
_PARTICLES = frozenset(
    [
        "af",
        "al",
        "bin",
        "da",
        "de",
        "del",
        "della",
        "den",
        "der",
        "di",
        "do",
        "dos",
        "du",
        "el",
        "ibn",
        "la",
        "le",
        "ten",
        "ter",
        "van",
        "von",
        "y",
        "zu",
    ]
)
_NO_NAMES = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "best",
        "but",
        "by",
        "can",
        "dear",
        "did",
        "do",
        "does",
        "for",
        "from",
        "hello",
        "hey",
        "hi",
        "how",
        "i",
        "if",
        "in",
        "is",
        "it",
        "its",
        "kind",
        "me",
        "my",
        "no",
        "not",
        "of",
        "on",
        "or",
        "our",
        "please",
        "re",
        "regards",
        "she",
        "he",
        "sincerely",
        "so",
        "subject",
        "thank",
        "thanks",
        "that",
        "the",
        "their",
        "they",
        "this",
        "to",
        "was",
        "we",
        "were",
        "what",
        "when",
        "where",
        "which",
        "who",
        "whom",
        "whose",
        "why",
        "will",
        "with",
        "would",
        "you",
        "your",
        "yours",
    ]
)


def mentions(text: str) -> Mentions:
    """Addresses anywhere in ``text``, display names before them, and words that may be somebody's name.

    In running text those are two to four words in a row that begin with capitals, in a text of up to eight words any
    two to four in a row. Linear in the text, bounded in what it returns.
    """
    text = _ENCODED_WORDS.sub(_decoded, text)
    addresses = _each_once(_addresses(text), MAX_ADDRESSES)
    without = text
    for address in addresses:
        without = without.replace(address, " . ")
    named = [*_display_names(text), *_spelled_in_local_parts(addresses), *_names(without)]
    return Mentions(addresses, _each_once(named, MAX_NAMES))


def _decoded(words: re.Match[str]) -> str:
    try:
        return storable(str(make_header(decode_header(words[0]))))  # a sender may have encoded what is no text
    except (HeaderParseError, LookupError, UnicodeError, ValueError):
        return words[0]


def _addresses(text: str) -> Iterator[str]:
    for _, sign in zip(range(_MAX_SIGNS), _SIGN.finditer(text), strict=False):
        start = max(0, sign.start() - 66)
        local = _LOCAL.search(text[start : sign.start()])
        domain = _DOMAIN.match(text, sign.end())
        if local and domain:
            found = (local["quoted"] or local["bare"]).lstrip("'.*")
            if found:
                yield f"{found}{sign[0]}{domain[0]}"


def _display_names(text: str) -> Iterator[str]:
    for found in _IN_ANGLES.finditer(text):
        before = text[max(0, found.start() - _MAX_BEFORE_ANGLES) : found.start()]
        written = _FIELD_NAME.sub("", _LINE_END_OR_ANGLE.split(before)[-1].strip(" \t"))
        after_others = _BETWEEN_NAMES.split(written)[-1]
        family_first = [written] if written.strip(" \t,").count(",") == 1 else []  # Doe, Jane <...>
        for name in (part.strip(" \t\"',;") for part in (*family_first, after_others)):
            if 2 <= len(name) <= _MAX_NAME_LENGTH and not _SIGN.search(name):
                yield name


def _spelled_in_local_parts(addresses: Iterable[str]) -> Iterator[str]:
    """ "jane.doe.ceo" spells a name, whatever the domain."""
    for address in addresses:
        words = re.findall(r"[^\W\d_]+", _SIGN.split(address)[0])
        yield from _windows(words)


def _names(text: str) -> Iterator[str]:
    tokens = list(_WORD.finditer(text))
    anything = len(tokens) <= _SHORT_TEXT_WORDS
    runs: list[list[str]] = [[]]
    end = 0
    for token in tokens:
        word = token[0].rstrip(".") if len(token[0]) > 2 else token[0]
        if runs[-1] and not _BETWEEN_WORDS.fullmatch(text, end, token.start()):
            runs.append([])
        if word.lower() in _NO_NAMES:
            runs.append([])
        elif anything or not word[0].islower() or (runs[-1] and word in _PARTICLES):
            runs[-1].append(word)
        else:
            runs.append([])
        end = token.start() + len(word)
    for run in runs:
        while run and run[-1] in _PARTICLES:
            run.pop()
        yield from _windows(run)
        yield from (word for word in run if _has_no_case(word))


def _windows(words: list[str]) -> Iterator[str]:
    for size in _NAME_WORDS:
        for start in range(len(words) - size + 1):
            window = words[start : start + size]
            if sum(map(len, window)) > size and window[-1] not in _PARTICLES:  # more than initials
                yield " ".join(window)


def _has_no_case(word: str) -> bool:
    """Chinese, Japanese, Arabic, ...: one word may be a whole name."""
    return 2 <= len(word) <= 8 and word.lower() == word.upper()


def _each_once(texts: Iterable[str], at_most: int) -> tuple[str, ...]:
    found: dict[str, str] = {}
    for text in texts:
        found.setdefault(text.casefold(), text)
        if len(found) == at_most:
            break
    return tuple(found.values())


# ------------------------------------------------------------------------------------------------------- judging


def judge(field: Field, asked: Compared, stored: Compared, *, own: bool) -> Judged | None:
    """What it is worth that ``asked`` and ``stored``, two names or addresses, resemble each other; None if little."""
    found = _name(asked, stored) if field == "name" else _address(asked, stored)
    if found is None:
        return None
    evidence_field, match, similarity = found
    return _worth(evidence_field, match, similarity, asked.text, stored.text, own=own)


def judge_domain(asked: Compared, plain_domain: str, folded_domain: str) -> Judged | None:
    """What it is worth that the domain of an address resembles a known one. None if it is that one, or little alike."""
    if asked.plain_domain == plain_domain:
        return None
    if asked.folded_domain == folded_domain:
        match, similarity = "lookalike", 1.0
    else:
        match, similarity = "near", _domain_similarity(asked.folded_domain, folded_domain)
    if similarity < NEAR:
        return None
    return _worth("domain", match, similarity, _SIGN.split(asked.text)[-1], plain_domain, own=True)


def best(judged: Iterable[Judged]) -> Judged:
    """The strongest of what speaks for one document; something of another kind adds a fiftieth of its own worth."""
    ordered = sorted(judged, key=lambda one: -one.score)
    first = ordered[0]
    others = [one.score for one in ordered if one.evidence.field != first.evidence.field]
    return first._replace(score=min(1.0, first.score + _SECOND * max(others, default=0.0)))


def _worth(
    field: Literal["address", "local_part", "domain", "name"],
    match: Match,
    similarity: float,
    asked: str,
    stored: str,
    *,
    own: bool,
) -> Judged:
    score = _WORTH[field][match] * similarity * (1.0 if own else _MENTIONED)
    return Judged(score, Evidence(field=field, stored=stored, asked=asked, match=match, similarity=similarity))


_Found = tuple[Literal["address", "local_part", "name"], Match, float]


def _name(asked: Compared, stored: Compared) -> _Found | None:
    if asked.plain == stored.plain:
        return "name", "exact", 1.0
    if asked.folded == stored.folded:
        return "name", "lookalike", 1.0
    near = max(_likeness(asked, stored), similarity(_sorted(asked.folded), _sorted(stored.folded)))
    return ("name", "near", near) if near >= NEAR and " " in stored.folded else None


def _address(asked: Compared, stored: Compared) -> _Found | None:
    same_domain = asked.plain_domain == stored.plain_domain
    if same_domain and asked.plain == stored.plain:
        return "address", "exact", 1.0
    local = _likeness(asked, stored)
    domain = _domain_similarity(asked.folded_domain, stored.folded_domain)
    if local == 1.0 and asked.folded_domain == stored.folded_domain:
        return "address", "lookalike", 1.0
    if local < NEAR:
        return None
    if domain >= NEAR:
        return "address", "near", (local + domain) / 2
    if " " not in stored.folded:  # "info" is everywhere
        return None
    match: Match = "exact" if asked.plain == stored.plain else "lookalike" if local == 1.0 else "near"
    return "local_part", match, local


def _likeness(asked: Compared, stored: Compared) -> float:
    """Of the local parts or names, as they are and folded: of "eirn" for "erin", folding makes two slips ("elm")."""
    return max(similarity(asked.folded, stored.folded), similarity(asked.plain, stored.plain))


def _domain_similarity(first: str, second: str) -> float:
    """Of two folded domains ("example com"): nine tenths for what stands before the last label, one for that."""
    stem, _, top = first.rpartition(" ")
    other_stem, _, other_top = second.rpartition(" ")
    return 0.9 * similarity(stem, other_stem) + 0.1 * (top == other_top)


def _sorted(text: str) -> str:
    return " ".join(sorted(text.split()))


def similarity(first: str, second: str) -> float:
    """1 for equal texts, less by each letter inserted, left out, replaced, or swapped with its neighbour.

    One minus the optimal string alignment distance over the longer length; 0 where it is below ``NEAR``, which needs
    no counting to the end.
    """
    if first == second:
        return 1.0
    longer = max(len(first), len(second))
    allowed = int(longer * (1 - NEAR) + 1e-9)
    if abs(len(first) - len(second)) > allowed:
        return 0.0
    before_last: list[int] = []
    last = list(range(len(second) + 1))
    for row, letter in enumerate(first, 1):
        current = [row]
        for column, other in enumerate(second, 1):
            cost = min(last[column] + 1, current[-1] + 1, last[column - 1] + (letter != other))
            if row > 1 and column > 1 and letter == second[column - 2] and first[row - 2] == other:
                cost = min(cost, before_last[column - 2] + 1)
            current.append(cost)
        if min(current) > allowed and min(last) > allowed:
            return 0.0
        before_last, last = last, current
    return 1 - last[-1] / longer if last[-1] <= allowed else 0.0
