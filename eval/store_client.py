"""The store in this process, asked as an analyzer asks it: what a ``KnowledgeClient`` answers, without HTTP."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from knowledge.db.connection import Database
from knowledge.documents.ingest import Ingestion
from knowledge.documents.retrieval import Retrieval
from knowledge.documents.search import DocumentSearch
from knowledge.documents.store import DocumentStore
from knowledge.embedding.base import Embedder
from spot_sdk.checks import AnalysedEmail, Asker
from spot_sdk.documents import KnowledgeDocument

_BATCH = 500


class StoreInProcess:
    """Documents in a database that is empty and migrated, and ``fetch`` with the limits of the e-mail."""

    def __init__(self, database: Database, embedder: Embedder, documents: Iterable[KnowledgeDocument]) -> None:
        self._retrieval = Retrieval(DocumentSearch(database, embedder.model), embedder)
        self._asker = Asker()
        ingestion = Ingestion(DocumentStore(database, embedder.model), embedder)
        waiting = list(documents)
        for start in range(0, len(waiting), _BATCH):
            ingestion.upsert(waiting[start : start + _BATCH])
        database.run(lambda transaction: transaction.execute("ANALYZE"))

    def for_analysis(self, email: AnalysedEmail, **_: Any) -> Self:
        """The same store, asked for one e-mail."""
        sibling = type(self).__new__(type(self))
        sibling._retrieval = self._retrieval
        sibling._asker = Asker.of_email(email)
        return sibling

    async def fetch(
        self,
        tags: str | None = None,
        text: str | None = None,
        top_k: int = 5,
        min_score: float = 0.0,
        strategy: str = "similarity",
    ) -> list[KnowledgeDocument]:
        query = self._asker.query(tags, text, top_k, min_score, strategy)
        return [] if query is None else self._retrieval.answer(query).documents
