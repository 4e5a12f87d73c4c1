"""Searching the documents in PostgreSQL: what ``retrieval`` ranks by (``search.sql``, beside it)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, LiteralString

from pgvector import Vector as PgVector
from psycopg import sql

from knowledge.db.connection import Database, Transaction, set_local
from knowledge.db.statements import load_statements
from knowledge.documents.model_hold import hold_model
from knowledge.search.knn import Neighbours, nearest
from knowledge.tags.sql import TagFilter, tag_filter
from spot_sdk.documents import EmbeddingModel, KnowledgeDocument
from spot_sdk.tag_expression import TagExpression

if TYPE_CHECKING:
    from knowledge.embedding.base import Vector

_SQL = load_statements(Path(__file__).with_name("search.sql"))

_INDEX_SETTINGS = {
    "hnsw__ef_search": 100,
    "hnsw__iterative_scan": "relaxed_order",
    "hnsw__scan_mem_multiplier": 4,
}


class DocumentSearch:
    """Finds live documents; each method is one transaction and raises as ``DocumentStore`` does."""

    def __init__(self, database: Database, model: EmbeddingModel) -> None:
        self._database = database
        self._model = model

    def nearest(self, vector: Vector, expression: TagExpression | None, top_k: int) -> Neighbours[KnowledgeDocument]:
        """The ``top_k`` live documents that ``expression`` admits and whose vectors are closest, best first.

        ``score`` is the cosine similarity clamped to [0, 1]; equal scores are in id order.
        """

        def work(transaction: Transaction) -> Neighbours[KnowledgeDocument]:
            hold_model(transaction, self._model, "reading")
            return nearest(_BoundSearch(transaction, PgVector(vector), tag_filter(expression)), top_k)

        return self._database.run(work)


class _BoundSearch:
    """``FilteredVectors`` over the documents, inside one transaction."""

    def __init__(self, transaction: Transaction, vector: PgVector, tags: TagFilter) -> None:
        self._transaction = transaction
        self._vector = vector
        self._tags = tags

    def estimate_matches(self) -> int:
        row = self._execute(_SQL["estimate_matches"]).fetchone() or {}
        return round(row["QUERY PLAN"][0]["Plan"]["Plan Rows"])

    def scan(self, limit: int) -> list[KnowledgeDocument]:
        return [_as_document(row) for row in self._execute(_SQL["scan"], limit=limit)]

    def search_index(self, limit: int) -> list[KnowledgeDocument]:
        set_local(self._transaction, **_INDEX_SETTINGS)
        return [_as_document(row) for row in self._execute(_SQL["search_index"], limit=limit)]

    def _execute(self, statement: LiteralString, **parameters: Any) -> Transaction:
        query = sql.SQL(statement).format(tags=sql.SQL(self._tags.condition))
        return self._transaction.execute(query, {"vector": self._vector, **self._tags.parameters, **parameters})


def _as_document(row: dict[str, Any]) -> KnowledgeDocument:
    score = min(1.0, max(0.0, row.pop("similarity")))
    # Validated when it was stored: building it again without a second look saves most of a millisecond a document.
    return KnowledgeDocument.model_construct(**row, score=score)
