"""BM25 over words that PostgreSQL keeps, exact in effect without reading the postings of common words.

The score is that of Lucene and of the bm25s library: for each word of the question

    idf * tf / (tf + K1 * (1 - B + B * length / mean length)),   idf = ln(1 + (n - df + 0.5) / (df + 0.5))

A document's words weigh at most the sum of their idf. So the documents worth scoring are those whose words of the
question weigh together at least some threshold, and the threshold is set so that about ``CANDIDATES`` of them are
expected: a rare word alone, two less rare ones together, or many common ones. The condition is one boolean expression,
whose required words - the rarer ones - are all that a GIN index reads in full (MaxScore, as search engines do it).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, LiteralString, NamedTuple, Protocol, TypeVar

K1 = 1.5
B = 0.5
"""How soon repetition stops to count, and how much length does; best of eight pairs on two collections (ADR 8)."""

CANDIDATES = 2_000
"""So many candidates give the full scan's first ten in 100,000 documents, 500 give 99 % of them (ADR 8)."""

MAX_WORDS = 32
"""A long mail asks with its most telling words; each costs about a microsecond per candidate."""

_DECIDING_WORDS = 10
"""The rarest words choose the candidates: all their 2^10 combinations are weighed."""

Row = TypeVar("Row")


class Statistics(NamedTuple):
    """What is known of live documents: how many there are, their mean length, and how many hold each word asked for.

    ``asked`` says how often the question has a word, ``matching`` how many documents the filter is expected to admit.
    """

    documents: int
    mean_length: float
    holding: Mapping[str, int]
    asked: Mapping[str, int]
    matching: int


@dataclass(frozen=True, slots=True)
class Word:
    """A word of the question: its share of live documents, from 0 to 1, and what it weighs in a score."""

    text: str
    share: float
    weight: float


class WordIndex(Protocol[Row]):
    """Live documents with their words, one question and one filter already bound."""

    def statistics(self) -> Statistics: ...

    def rank(self, words: Sequence[Word], mean_length: float, condition: str, limit: int) -> list[Row]:
        """The ``limit`` best of the documents for which ``condition``, a tsquery, holds; best first."""
        ...


@dataclass(frozen=True, slots=True)
class Found(Generic[Row]):
    """``weight`` is the sum of the words' weights: no document's score reaches it."""

    rows: list[Row]
    words: list[Word]
    mean_length: float
    weight: float
    plan: Literal["candidates", "all", "candidates_then_all", "no_words"]
    matching: int


def best(index: WordIndex[Row], limit: int) -> Found[Row]:
    """The ``limit`` documents that match the question's words best; fewer only when fewer have any of them."""
    statistics = index.statistics()
    words = weigh(statistics)
    mean_length = statistics.mean_length
    known = [word for word in words if word.share > 0]
    # Words that no document holds weigh as well: what a question asks for and nobody has lowers what it can find. But
    # not more than the others together: a mail has tracking ids and the like without end.
    held = sum(word.weight for word in known)
    weight = held + min(held, sum(word.weight for word in words) - held)

    def found(rows: list[Row], plan: Literal["candidates", "all", "candidates_then_all", "no_words"]) -> Found[Row]:
        return Found(rows, known, mean_length, weight, plan, statistics.matching)

    if not known:
        return found([], "no_words")
    condition = candidates(known, statistics.matching)
    everything = any_of(known)
    rows = index.rank(known, mean_length, condition, limit)
    if condition == everything:
        return found(rows, "all")
    if len(rows) == limit:
        return found(rows, "candidates")
    return found(index.rank(known, mean_length, everything, limit), "candidates_then_all")


def weigh(statistics: Statistics) -> list[Word]:
    """The words of the question that weigh most, the rarest first: of those that documents hold, and of the others."""
    documents = statistics.documents
    words = [
        Word(text, _share(held, documents), statistics.asked[text] * idf(held, documents))
        for text, held in statistics.holding.items()
    ]
    words.sort(key=lambda word: (-word.weight, word.text))
    held = [word for word in words if word.share > 0]
    others = [word for word in words if word.share == 0]
    heaviest = held[:MAX_WORDS] + others[:MAX_WORDS]
    return sorted(heaviest, key=lambda word: (word.share, word.text))


def idf(holding: int, documents: int) -> float:
    """What a word tells that ``holding`` of all documents hold; above zero whatever the numbers are."""
    holding = min(holding, documents)
    return math.log(1 + (documents - holding + 0.5) / (holding + 0.5))


def _share(holding: int, documents: int) -> float:
    return min(1.0, holding / documents) if documents else 0.0


def candidates(words: Sequence[Word], matching: int, wanted: int = CANDIDATES) -> str:
    """The tsquery of the documents worth scoring: about ``wanted`` of ``matching`` hold it, words taken as independent.

    ``words`` are not empty, the rarest first. Where no more than ``wanted`` hold any of them, it is ``any_of(words)``.
    """
    deciding = words[:_DECIDING_WORDS]
    sums = [(0.0, 1.0)]  # of each combination of words: its weight, and the share of documents with just these words
    for word in deciding:
        sums = [
            *((weight, share * (1 - word.share)) for weight, share in sums),
            *((weight + word.weight, share * word.share) for weight, share in sums),
        ]
    sums.sort(reverse=True)
    threshold = lightest = sums[0][0]
    expected = 0.0
    for weight, share in sums:
        if weight < lightest:  # all that weigh as much as the last one fit in
            threshold, lightest = lightest, weight
        expected += share * matching
        if expected > wanted:
            return _at_least(threshold, deciding)
    return any_of(words)


def any_of(words: Sequence[Word]) -> str:
    """The tsquery of documents with any of these words."""
    return " | ".join(quoted(word.text) for word in words)


def _at_least(threshold: float, words: Sequence[Word]) -> str:
    """The tsquery of the documents whose words weigh together at least ``threshold``, which all together do."""
    rest = [sum(word.weight for word in words[start:]) for start in range(len(words) + 1)]
    slack = 1e-9 * rest[0]

    def having(start: int, needed: float) -> str | None:
        """The condition on the words from ``start`` on; empty when it always holds, None when it never does."""
        if needed <= slack:
            return ""
        if rest[start] < needed - slack:
            return None
        word = words[start]
        without = having(start + 1, needed)
        further = having(start + 1, needed - word.weight)
        if further is None:
            return without
        held = f"{quoted(word.text)} & ({further})" if further else quoted(word.text)
        return f"{held} | {without}" if without else held

    return having(0, threshold) or any_of(words)


def quoted(lexeme: str) -> str:
    """A lexeme as a tsquery."""
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"


# ts_rank of one word with all labels at weight 1 is the sum of 1/i^2 for i from 1 to tf, over pi^2/6: it says tf, and
# reads it a hundred times faster than unnest() does. What is left of the series after tf terms is about 1/(tf + 1/2).
_SCORE_OF_WORD: LiteralString = (
    "%(weight_{n})s::float8 * (1 - norm / (norm + round(1 / (1.64493406685 * (1 - "
    "ts_rank('{{1,1,1,1}}', lexemes, %(word_{n})s::tsquery)::float8)) - 0.5)))"
)


class ScoreExpression(NamedTuple):
    """BM25 as an SQL expression on columns ``lexemes tsvector`` and ``norm float8``, and its parameters.

    ``norm`` is ``K1 * (1 - B + B * length / mean length)``.
    """

    expression: LiteralString
    parameters: dict[str, float | str]


def score_expression(words: Sequence[Word]) -> ScoreExpression:
    """The score by these words: constant text around parameters."""
    parameters: dict[str, float | str] = {}
    for n, word in enumerate(words):
        parameters[f"weight_{n}"] = word.weight
        parameters[f"word_{n}"] = quoted(word.text)
    parts = [_SCORE_OF_WORD.format(n=n) for n in range(len(words))]
    return ScoreExpression(" + ".join(parts) or "0", parameters)  # type: ignore[arg-type]
