"""The words of the documents in PostgreSQL: ranking by BM25, and their upkeep (``words.sql``, beside it)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, LiteralString, NamedTuple

from psycopg import sql

from knowledge.db.connection import Database, Transaction
from knowledge.db.statements import load_statements
from knowledge.search import bm25
from knowledge.tags.sql import TagFilter, tag_filter
from spot_sdk.errors import InvalidInput
from spot_sdk.tag_expression import TagExpression

_SQL = load_statements(Path(__file__).with_name("words.sql"))

FEW_EXPIRED = 200
"""Up to so many documents that expired and are not removed yet are read for each word of a question (ADR 8)."""

_ENTRIES_OF_A_ROW = 7
"""A row read in vain takes as long as so many entries of the index of tags: 1.9 and .27 microseconds (ADR 8)."""


class ByWords(NamedTuple):
    """Documents by BM25, as shares of what the question's words weigh together: from 0 to 1, best first.

    ``scores`` are those of the best, ``further`` those of the documents that were asked for besides; what has none of
    the words, or has gone, is missing there.
    """

    scores: dict[str, float]
    further: dict[str, float]
    plan: str
    matching: int


def rank_by_words(
    transaction: Transaction, text: str, expression: TagExpression | None, limit: int, also: Iterable[str] = ()
) -> ByWords:
    """The ``limit`` live documents that ``expression`` admits and whose words match those of ``text`` best."""
    index = _BoundWords(transaction, text, tag_filter(expression))
    found = bm25.best(index, limit)
    scores = dict(found.rows)
    others = [id_ for id_ in also if id_ not in scores]
    further = index.score(found.words, found.mean_length, others) if others and found.words else []
    return ByWords(
        scores={id_: score / found.weight for id_, score in found.rows},
        further={id_: score / found.weight for id_, score in further if score > 0},
        plan=found.plan,
        matching=found.matching,
    )


class WordIndex:
    """The upkeep of what ``rank_by_words`` reads. Triggers do the writing; see migration 0004."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def fold(self) -> int:
        """Add the changes of the words' counts up to their totals; returns how many changes there were.

        Questions are answered right before and after, and faster after. Zero when another does it now.
        """
        row = self._database.run(lambda transaction: transaction.execute(_SQL["fold"]).fetchone()) or {}
        return row["folded"]

    def use_language(self, language: str) -> bool:
        """Take words by a text search configuration of PostgreSQL (``simple``, ``english``, …); True where that is new.

        All words are made anew then, in one transaction: writers wait for it, questions do not. Raises InvalidInput
        where PostgreSQL has no such configuration.
        """

        def work(transaction: Transaction) -> bool:
            if transaction.execute(_SQL["has_language"], {"language": language}).fetchone() is None:
                raise InvalidInput(f"PostgreSQL has no text search configuration {language!r}")
            transaction.execute(_SQL["hold_writers"])
            changed = transaction.execute(_SQL["set_language"], {"language": language}).rowcount == 1
            if changed:
                transaction.execute(_SQL["rewrite"])
                transaction.execute(_SQL["count_change"])
            return changed

        return self._database.run(work)

    def language(self) -> str:
        """The text search configuration in use."""
        row = self._database.run(lambda transaction: transaction.execute(_SQL["language"]).fetchone()) or {}
        return row["language"]


class _BoundWords:
    """``bm25.WordIndex`` over the documents, inside one transaction."""

    def __init__(self, transaction: Transaction, text: str, tags: TagFilter) -> None:
        self._transaction = transaction
        self._text = text
        self._tags = tags
        self._has_broad_tags = False

    def statistics(self) -> bm25.Statistics:
        rows = self._transaction.execute(_SQL["statistics"], {"text": self._text, "few": FEW_EXPIRED}).fetchall()
        counted = {row["word"]: row for row in rows}
        total = counted.pop("")
        documents, occurrences = int(total["documents"]), int(total["occurrences"])
        matching = self._estimate_matches() if self._tags.parameters else documents
        self._has_broad_tags = is_broad(matching, documents)
        return bm25.Statistics(
            documents=documents,
            mean_length=max(1.0, occurrences / documents) if documents > 0 else 1.0,
            holding={word: int(row["documents"]) for word, row in counted.items()},
            asked={word: int(row["times"]) for word, row in counted.items()},
            matching=matching,
        )

    def rank(
        self, words: Sequence[bm25.Word], mean_length: float, condition: str, limit: int
    ) -> list[tuple[str, float]]:
        score = bm25.score_expression(words)
        parameters = {**score.parameters, **_lengths(mean_length), "condition": condition, "limit": limit}
        rows = self._execute(_SQL["rank"], score=score.expression, **parameters)
        return [(row["id"], row["score"]) for row in rows]

    def score(self, words: Sequence[bm25.Word], mean_length: float, ids: Sequence[str]) -> list[tuple[str, float]]:
        """What the live ones among these documents score."""
        score = bm25.score_expression(words)
        parameters = {**score.parameters, **_lengths(mean_length), "ids": list(ids)}
        rows = self._execute(_SQL["score"], score=score.expression, **parameters)
        return [(row["id"], row["score"]) for row in rows]

    def _estimate_matches(self) -> int:
        row = self._execute(_SQL["estimate_matches"]).fetchone() or {}
        return round(row["QUERY PLAN"][0]["Plan"]["Plan Rows"])

    def _execute(self, statement: LiteralString, score: LiteralString = "", **parameters: Any) -> Transaction:
        tags, anything = sql.SQL(self._tags.condition), sql.SQL("true")
        by_index, by_row = (anything, tags) if self._has_broad_tags else (tags, anything)
        query = sql.SQL(statement).format(tags=tags, tags_by_index=by_index, tags_by_row=by_row, score=sql.SQL(score))
        return self._transaction.execute(query, {**self._tags.parameters, **parameters})


def is_broad(matching: int, documents: int) -> bool:
    """Whether reading candidates that a tag filter does not admit is faster than the index of tags."""
    return _ENTRIES_OF_A_ROW * bm25.CANDIDATES * (documents - matching) < matching * matching


def _lengths(mean_length: float) -> dict[str, float]:
    return {"mean_length": mean_length, "k1": bm25.K1, "b": bm25.B}
