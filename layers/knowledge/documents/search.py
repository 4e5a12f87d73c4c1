"""Searching the documents in PostgreSQL: what ``retrieval`` ranks by (``search.sql``, beside it)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, LiteralString

from pgvector import Vector as PgVector
from psycopg import sql

from knowledge import metrics
from knowledge.db.connection import Database, Transaction, set_local
from knowledge.db.statements import load_statements
from knowledge.documents.model_hold import Moment, hold_for_reading
from knowledge.documents.people import PeopleLookup
from knowledge.documents.vector_indexes import VECTOR_INDEX, tag_index_name
from knowledge.documents.words import ByWords, rank_by_words
from knowledge.search.knn import Group, Neighbours, TagIndex, VectorIndexes, exact_up_to_rows, nearest
from knowledge.tags.sql import tag_filter
from knowledge.telemetry import record
from spot_sdk.documents import EmbeddingModel, KnowledgeDocument
from spot_sdk.tag_expression import TagExpression

if TYPE_CHECKING:
    from knowledge.embedding.base import Vector

_SQL = load_statements(Path(__file__).with_name("search.sql"))

_INDEX_ONLY = dict.fromkeys(("enable_seqscan", "enable_bitmapscan", "enable_sort"), "off")
_NO_LONGER_INDEX_ONLY = dict.fromkeys(_INDEX_ONLY, "on")


class DocumentSearch:
    """Finds live documents; each method is one transaction and raises as ``DocumentStore`` does."""

    def __init__(self, database: Database, model: EmbeddingModel) -> None:
        self._database = database
        self._model = model

    def moment(self) -> Moment:
        """The state of the documents now. What is searched after this is of this state, or of a later one."""

        return self._database.run(lambda cursor: hold_for_reading(cursor, self._model), is_one_statement=True)

    def nearest(self, vector: Vector, expression: TagExpression | None, top_k: int) -> Neighbours[KnowledgeDocument]:
        """The ``top_k`` live documents that ``expression`` admits and whose vectors are closest, best first.

        ``score`` is the cosine similarity clamped to [0, 1]; equal scores are in id order.
        """

        def work(transaction: Transaction) -> Neighbours[KnowledgeDocument]:
            hold_for_reading(transaction, self._model)
            bound = _BoundSearch(transaction, PgVector(vector), expression, self._model.dimensions)
            return nearest(bound, top_k, exact_up_to=exact_up_to_rows(self._model.dimensions), order=_best_first)

        found = self._database.run(work)
        record(metrics.QUERY_PLANS, plan=found.plan.path)
        if found.plan.fell_short:
            record(metrics.SHORT_RESULTS_AVOIDED)
        return found

    def people(self, text: str, expression: TagExpression | None, top_k: int) -> list[KnowledgeDocument]:
        """The ``top_k`` live documents that ``expression`` admits and that fit a name or an address in ``text`` best.

        Best first, equal scores in id order; ``evidence`` says what fits, and ``knowledge.search.people`` what a score
        means. Fewer, or none, where nothing is at least near.
        """

        def work(transaction: Transaction) -> list[KnowledgeDocument]:
            return PeopleLookup(transaction, tag_filter(expression)).find(text, top_k)

        return self._database.run(work)

    def by_words(self, text: str, expression: TagExpression | None, limit: int, also: Iterable[str] = ()) -> ByWords:
        """The ``limit`` live documents that ``expression`` admits and that have the words of ``text``, by BM25.

        ``also`` are documents whose scores are wanted besides.
        """
        return self._database.run(lambda transaction: rank_by_words(transaction, text, expression, limit, also))

    def similarities(self, vector: Vector, ids: Sequence[str]) -> dict[str, float]:
        """The similarity of each of these documents that is still there, from 0 to 1."""

        def work(transaction: Transaction) -> dict[str, float]:
            hold_for_reading(transaction, self._model)
            rows = transaction.execute(_SQL["similarities"], {"vector": PgVector(vector), "ids": list(ids)})
            return {row["id"]: _in_range(row["similarity"]) for row in rows}

        return self._database.run(work) if ids else {}

    def likeness(self, ids: Sequence[str]) -> dict[str, list[float]]:
        """Of each of these documents that is still there, in order, its similarity to all of them, in order."""

        def work(transaction: Transaction) -> dict[str, list[float]]:
            hold_for_reading(transaction, self._model)
            rows = transaction.execute(_SQL["likeness"], {"ids": list(ids)})
            return {row["id"]: [_in_range(value) for value in row["likeness"]] for row in rows}

        return self._database.run(work) if ids else {}

    def documents(self, ids: Sequence[str]) -> dict[str, KnowledgeDocument]:
        """These documents, without a score, by id; those that have gone are missing."""

        def work(transaction: Transaction) -> dict[str, KnowledgeDocument]:
            rows = transaction.execute(_SQL["documents"], {"ids": list(ids)})
            return {row["id"]: KnowledgeDocument.model_construct(**row) for row in rows}

        return self._database.run(work) if ids else {}


class _BoundSearch:
    """``FilteredVectors`` over the documents, inside one transaction."""

    def __init__(
        self, transaction: Transaction, vector: PgVector, expression: TagExpression | None, dimensions: int
    ) -> None:
        self._transaction = transaction
        self._vector = vector
        self._expression = expression
        self._dimensions = dimensions
        self._is_index_only = False

    @property
    def groups(self) -> Sequence[Group] | None:
        return None if self._expression is None else self._expression.groups

    def estimate_matches(self, groups: Sequence[Group] | None) -> int:
        row = self._execute(_SQL["estimate_matches"], groups).fetchone() or {}
        return round(row["QUERY PLAN"][0]["Plan"]["Plan Rows"])

    def indexes(self) -> VectorIndexes:
        tags = {tag_index_name(tag): tag for group in self.groups or () for tag in group}
        rows = self._transaction.execute(_SQL["indexes"], {"names": [VECTOR_INDEX, *tags]}).fetchall()
        return VectorIndexes(
            rows=max((row["documents"] for row in rows), default=0),
            has_index=any(row["name"] == VECTOR_INDEX for row in rows),
            by_tag={
                tag: TagIndex(tag, row["rows"], row["lists"])
                for row in rows
                if (tag := tags.get(row["name"])) is not None
            },
        )

    def scan(self, groups: Sequence[Group] | None, limit: int) -> list[KnowledgeDocument]:
        if self._is_index_only:
            set_local(self._transaction, **_NO_LONGER_INDEX_ONLY)
            self._is_index_only = False
        return self._documents(_SQL["scan"], groups, limit=limit)

    def search_index(self, reach: int, ef: int, limit: int) -> list[KnowledgeDocument]:
        self._use_index(hnsw__ef_search=ef)
        return self._documents(_SQL["search_index"], self.groups, reach=reach, limit=limit)

    def search_tag_index(
        self, index: TagIndex, groups: Sequence[Group], *, probes: int, reach: int, limit: int
    ) -> list[KnowledgeDocument]:
        self._use_index(ivfflat__probes=probes)
        return self._documents(_SQL["search_tag_index"], groups, tag=index.tag, reach=reach, limit=limit)

    def _use_index(self, **settings: int) -> None:
        set_local(self._transaction, **_INDEX_ONLY, **settings)
        self._is_index_only = True

    def _documents(
        self, statement: LiteralString, groups: Sequence[Group] | None, *, tag: str = "", **parameters: int
    ) -> list[KnowledgeDocument]:
        return [_as_document(row) for row in self._execute(statement, groups, tag=tag, **parameters)]

    def _execute(
        self, statement: LiteralString, groups: Sequence[Group] | None, *, tag: str = "", **parameters: int
    ) -> Transaction:
        tags = tag_filter(None if groups is None else TagExpression(tuple(groups)))
        query = sql.SQL(statement).format(
            tags=sql.SQL(tags.condition), tag=sql.Literal([tag]), dimensions=sql.Literal(self._dimensions)
        )
        return self._transaction.execute(query, {"vector": self._vector, **tags.parameters, **parameters})


def _best_first(document: KnowledgeDocument) -> tuple[float, str]:
    return -(document.score or 0.0), document.id


def _as_document(row: dict[str, Any]) -> KnowledgeDocument:
    score = _in_range(row.pop("similarity"))
    # Validated when it was stored: building it again without a second look saves most of a millisecond a document.
    return KnowledgeDocument.model_construct(**row, score=score)


def _in_range(similarity: float) -> float:
    return min(1.0, max(0.0, similarity))
