"""Ingestion: what providers send becomes documents with vectors, and only what changed costs anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from knowledge.documents.fingerprint import Fingerprinted
from knowledge.documents.store import DocumentStore, Stored
from spot_sdk.documents import KnowledgeDocument, UpsertOutcome, UpsertResult, UpsertStatus
from spot_sdk.errors import DuplicateDocument, EmbeddingFailed, Problem

if TYPE_CHECKING:
    from pgvector import Vector as PgVector

    from knowledge.embedding.base import Embedder, Vector


class Ingestion:
    """Writes batches of documents, embedding what the store does not know yet."""

    def __init__(self, store: DocumentStore, embedder: Embedder) -> None:
        self._store = store
        self._embedder = embedder

    def upsert(self, documents: Sequence[KnowledgeDocument]) -> UpsertResult:
        """Store a batch and say for each document what became of it, in order.

        One transaction holds all that is stored. A document whose text the model refuses is reported as failed and
        costs its neighbours nothing. Embedding happens before the transaction, so that no lock waits for a model.

        Raises DuplicateDocument when an id stands twice; EmbedderUnavailable, ModelMismatch and the store's errors
        leave nothing stored.
        """
        _refuse_duplicates(documents)
        offered = [Fingerprinted.of(document) for document in documents]
        stored = self._store.compare(offered)
        changed = [entry for entry in offered if not _is_same(stored.get(entry.document.id))]
        new_texts = [entry for entry in changed if _vector_of(stored.get(entry.document.id)) is None]

        embedded = dict(
            zip(
                (entry.document.id for entry in new_texts),
                self._embedder.embed_batch([entry.text for entry in new_texts]) if new_texts else [],
                strict=True,
            )
        )
        refused = {id_: failure for id_, failure in embedded.items() if isinstance(failure, EmbeddingFailed)}
        ready: list[tuple[Fingerprinted, Vector | PgVector]] = []
        for entry in changed:
            vector = _vector_of(stored.get(entry.document.id))
            if vector is None:
                vector = embedded[entry.document.id]
            if not isinstance(vector, EmbeddingFailed):
                ready.append((entry, vector))
        written = self._store.upsert(ready)
        return UpsertResult(
            results=[_outcome(document.id, written, refused) for document in documents],
            embedded=len(embedded) - len(refused),
            over_window=sum(self._embedder.over_window(entry.text) for entry in new_texts),
        )


def _refuse_duplicates(documents: Sequence[KnowledgeDocument]) -> None:
    counts = Counter(document.id for document in documents)
    twice = [id_ for id_, count in counts.items() if count > 1]
    if twice:
        raise DuplicateDocument(
            f"{len(twice)} ids stand more than once in this batch; nothing was stored",
            problems=[Problem(document=id_, field="id", message="stands more than once in this batch") for id_ in twice],
        )


def _is_same(stored: Stored | None) -> bool:
    return stored is not None and stored.same_row


def _vector_of(stored: Stored | None) -> PgVector | None:
    return None if stored is None else stored.embedding


def _outcome(id_: str, written: dict[str, bool], refused: dict[str, EmbeddingFailed]) -> UpsertOutcome:
    if id_ in refused:
        return UpsertOutcome(
            id=id_, status="failed", problem=Problem(document=id_, field="content", message=refused[id_].message)
        )
    status: UpsertStatus = "unchanged"
    if id_ in written:
        status = "created" if written[id_] else "updated"
    return UpsertOutcome(id=id_, status=status)
