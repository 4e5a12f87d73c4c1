"""Indexes of frequent tags: what lets a query for a broad tag be right and fast wherever its vector lies.

Queries find these indexes by themselves and are right without them, only slower. An operator makes them (``plan`` says
what is due, ``apply`` does it): PostgreSQL builds and drops them beside readers and writers, and an ``apply`` that was
killed is simply done again; what it left unfinished is dropped and built anew.

Each is an inverted file (IVFFlat) over vectors of half precision; docs/adr/0007 has the figures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, LiteralString

from psycopg import sql

from knowledge.db.connection import Database, Transaction
from knowledge.db.statements import load_statements
from knowledge.documents.model_hold import hold_for_reading
from knowledge.documents.vector_indexes import TAG_INDEX_PREFIX, tag_index_name
from knowledge.search.knn import exact_up_to_rows
from spot_sdk.documents import EmbeddingModel
from spot_sdk.errors import Conflict

MAX_TAG_INDEXES = 16
"""Each stores its rows' vectors once more, and costs every write of such a row a little."""
_ROWS_PER_LIST = 100
_LISTS_UP_TO = 500  # more cells find no better, and take longer to make; above 250,000 rows the square root counts
_OUTGROWN = 3  # cells three times too few or too many are slow, or find less
_KEPT_ABOVE = 0.8  # of the size that is worth an index, so that a tag on the border does not come and go
_BUILD_MEMORY = "512MB"
_ANALYZE_AFTER_SHARE, _ANALYZE_AFTER_ROWS = 0.2, 1_000

_SQL = load_statements(Path(__file__).with_name("tag_indexes.sql"))


@dataclass(frozen=True, slots=True)
class Change:
    """One step that is due: on the index ``name``, of ``tag`` as far as it is known, and why."""

    action: Literal["create", "rebuild", "drop"]
    name: str
    tag: str
    documents: int
    reason: str


@dataclass(frozen=True, slots=True)
class Existing:
    """An index of a tag as it is. ``condition`` is PostgreSQL's text of which rows it holds."""

    name: str
    is_valid: bool
    condition: str
    lists: int
    is_being_built: bool


def lists_for(documents: int) -> int:
    """Into how many cells the vectors of so many documents are sorted."""
    return max(1, min(documents // _ROWS_PER_LIST, max(_LISTS_UP_TO, math.isqrt(documents))))


def changes(frequent: Sequence[tuple[str, int]], existing: Iterable[Existing], worth_it: int) -> list[Change]:
    """What is due, given the tags with their numbers of documents (most frequent first) and the indexes there are.

    Tags of at least ``worth_it`` documents get an index, the most frequent first; an index under construction is left
    to who builds it.
    """
    by_name = {index.name: index for index in existing}
    due: list[Change] = []
    for tag, documents in frequent[:MAX_TAG_INDEXES]:
        index = by_name.pop(tag_index_name(tag), None)
        if index is None:
            if documents >= worth_it:
                due.append(Change("create", tag_index_name(tag), tag, documents, "a frequent tag without an index"))
        elif index.is_being_built:
            continue
        elif not index.is_valid:
            due.append(Change("rebuild", index.name, tag, documents, "left unfinished"))
        elif not 1 / _OUTGROWN < index.lists / lists_for(documents) < _OUTGROWN:
            due.append(Change("rebuild", index.name, tag, documents, "made for another number of documents"))
    due.extend(
        Change("drop", index.name, index.condition, 0, "the tag is not frequent any more")
        for index in by_name.values()
        if not index.is_being_built
    )
    return due


class TagIndexes:
    """Says and does what is due. Needs a role that owns the table."""

    def __init__(self, database: Database, model: EmbeddingModel) -> None:
        self._database = database
        self._model = model

    def plan(self) -> list[Change]:
        """What is due now; nothing while a bulk load has the indexes put away. Counts the tags: seconds for a million.

        Raises ModelMismatch and the store's errors.
        """
        worth_it = round(exact_up_to_rows(self._model.dimensions) / _KEPT_ABOVE)

        def work(transaction: Transaction) -> list[Change]:
            hold_for_reading(transaction, self._model)
            if _row(transaction, "put_away")["put_away_at"] is not None:
                return []
            kept = round(worth_it * _KEPT_ABOVE)
            frequent = transaction.execute(_SQL["frequent_tags"], {"at_least": kept}).fetchall()
            existing = transaction.execute(_SQL["tag_indexes"], {"prefix": TAG_INDEX_PREFIX}).fetchall()
            return changes(
                [(row["tag"], row["documents"]) for row in frequent], [Existing(**row) for row in existing], worth_it
            )

        return self._database.run(work)

    def apply(self, tell: Callable[[Change], None]) -> list[Change]:
        """Do what is due, then let the planner look at the table; ``tell`` hears of each step before it is done.

        Raises Conflict while a bulk load is under way, and what ``plan`` raises.
        """
        if self._database.run(lambda t: _row(t, "put_away"))["put_away_at"] is not None:
            raise Conflict("a bulk load is under way; run `knowledge bulk-load finish` first")
        due = self.plan()
        for change in due:
            tell(change)
            if change.action != "create":
                self._outside("drop", change)
            if change.action != "drop":
                self._outside("create", change, maintenance_work_mem=_BUILD_MEMORY)
        if due or self.needs_analyze():
            self._database.run(lambda t: t.execute(_SQL["analyze"]))
        return due

    def needs_analyze(self) -> bool:
        """True when the planner's estimates rest on too old a look at the table, or on none."""
        seen = self._database.run(lambda t: _row(t, "statistics"))
        due_after = _ANALYZE_AFTER_ROWS + _ANALYZE_AFTER_SHARE * seen["rows"]
        return seen["changed"] > due_after or (seen["never_analyzed"] and seen["rows"] > _ANALYZE_AFTER_ROWS)

    def _outside(self, name: LiteralString, change: Change, **settings: str) -> None:
        statement = sql.SQL(_SQL[name]).format(
            name=sql.Identifier(change.name),
            tag=sql.Literal([change.tag]),
            dimensions=sql.Literal(self._model.dimensions),
            lists=sql.Literal(lists_for(change.documents)),
        )
        self._database.run_outside_transaction(statement, **settings)


def _row(transaction: Transaction, name: LiteralString) -> dict[str, Any]:
    row = transaction.execute(_SQL[name]).fetchone()
    assert row is not None
    return row
