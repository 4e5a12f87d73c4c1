"""Ingestion: what providers send becomes documents with vectors, and only what changed costs anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING

from knowledge.documents.fingerprint import Fingerprinted
from knowledge.documents.store import DocumentStore, Stored
from knowledge.documents.writer import ANY_WRITER, Writer
from spot_sdk.documents import KnowledgeDocument, UpsertOutcome, UpsertResult, UpsertStatus
from spot_sdk.errors import DuplicateDocument, EmbeddingFailed, InvalidDocument, Problem

if TYPE_CHECKING:
    from pgvector import Vector as PgVector

    from knowledge.embedding.base import Embedder, Vector


@dataclass(frozen=True, slots=True)
class Prepared:
    """A batch that is ready to be written: what changed with its vectors, and what could not be embedded."""

    documents: Sequence[KnowledgeDocument]
    entries: list[tuple[Fingerprinted, Vector | PgVector]]
    refused: dict[str, EmbeddingFailed]
    embedded: int
    over_window: int

    @property
    def ids(self) -> list[str]:
        return [document.id for document in self.documents]

    def result(self, written: dict[str, bool]) -> UpsertResult:
        """What became of each document, in order, when the store has ``written`` these (id -> created)."""
        return UpsertResult(
            results=[_outcome(id_, written, self.refused) for id_ in self.ids],
            embedded=self.embedded,
            over_window=self.over_window,
        )


@dataclass(frozen=True, slots=True)
class Restored:
    """A document from an archive: when it is from and, if it came with a vector, the hash of the text that it is of."""

    document: KnowledgeDocument
    updated_at: datetime
    content_hash: bytes = b""
    embedding: Vector | None = None


_NO_VECTORS: Mapping[bytes, Vector] = MappingProxyType({})


class Ingestion:
    """Writes batches of documents, embedding what the store does not know yet."""

    def __init__(self, store: DocumentStore, embedder: Embedder) -> None:
        self._store = store
        self._embedder = embedder

    def upsert(self, documents: Sequence[KnowledgeDocument], *, writer: Writer = ANY_WRITER) -> UpsertResult:
        """Store a batch and say for each document what became of it, in order.

        One transaction holds all that is stored. A document whose text the model refuses is reported as failed and
        costs its neighbours nothing.

        Raises DuplicateDocument when an id stands twice, Forbidden when the writer may not write one; these,
        EmbedderUnavailable, ModelMismatch and the store's errors leave nothing stored.
        """
        prepared = self.prepare(documents, writer)
        written = self._store.upsert(prepared.entries, writer=writer) if prepared.entries else {}
        return prepared.result(written)

    def replace_children(
        self, parent_id: str, documents: Sequence[KnowledgeDocument], *, writer: Writer = ANY_WRITER
    ) -> UpsertResult:
        """Make ``documents`` the only ones with this parent, in one transaction.

        Raises InvalidDocument when one has another parent, EmbeddingFailed when one cannot be embedded (nothing is
        changed then: a page is whole or as it was), and what ``upsert`` raises.
        """
        _refuse_other_parents(parent_id, documents)
        prepared = self.prepare(documents, writer)
        for failure in prepared.refused.values():
            raise failure
        written = self._store.upsert(
            prepared.entries,
            writer=writer,
            after=lambda transaction, _: self._store.delete_other_children(
                transaction, parent_id, prepared.ids, writer
            ),
        )
        return prepared.result(written)

    def restore(self, archived: Sequence[Restored]) -> UpsertResult:
        """Store a batch from an archive, as ``upsert`` does; documents keep their moments.

        A vector spares the embedding where it is of the text that its document has now; it must be this model's.
        """
        vectors = {entry.content_hash: entry.embedding for entry in archived if entry.embedding is not None}
        prepared = self.prepare([entry.document for entry in archived], vectors=vectors)
        if not prepared.entries:
            return prepared.result({})
        moments = {entry.document.id: entry.updated_at for entry in archived}
        return prepared.result(self._store.upsert(prepared.entries, moments=moments))

    def prepare(
        self,
        documents: Sequence[KnowledgeDocument],
        writer: Writer = ANY_WRITER,
        *,
        vectors: Mapping[bytes, Vector] = _NO_VECTORS,
    ) -> Prepared:
        """Find out what changed and embed it; before any transaction, so that no lock waits for a model.

        ``vectors`` are known already, by content hash.
        """
        writer.refuse_foreign(documents)
        _refuse_duplicates(documents)
        offered = [Fingerprinted.of(document) for document in documents]
        stored = self._store.compare(offered) if offered else {}
        changed = [entry for entry in offered if not _is_same(stored.get(entry.document.id))]
        found: dict[str, Vector | PgVector | EmbeddingFailed] = {
            entry.document.id: vectors[entry.content_hash] for entry in changed if entry.content_hash in vectors
        }
        found.update({id_: known.embedding for id_, known in stored.items() if known.embedding is not None})
        new = [entry for entry in changed if entry.document.id not in found]
        if new:
            embedded = self._embedder.embed_batch([entry.text for entry in new])
            found.update(zip((entry.document.id for entry in new), embedded, strict=True))
        entries = [
            (entry, vector) for entry in changed if not isinstance(vector := found[entry.document.id], EmbeddingFailed)
        ]
        refused = {id_: vector for id_, vector in found.items() if isinstance(vector, EmbeddingFailed)}
        return Prepared(
            documents,
            entries,
            refused,
            embedded=len(new) - len(refused),
            over_window=sum(self._embedder.over_window(entry.text) for entry in new),
        )


def _refuse_duplicates(documents: Sequence[KnowledgeDocument]) -> None:
    counts = Counter(document.id for document in documents)
    twice = [id_ for id_, count in counts.items() if count > 1]
    if twice:
        raise DuplicateDocument(
            f"{len(twice)} ids stand more than once in this batch; nothing was stored",
            problems=[Problem(document=id_, field="id", message="stands more than once") for id_ in twice],
        )


def _refuse_other_parents(parent_id: str, documents: Sequence[KnowledgeDocument]) -> None:
    strangers = [document for document in documents if document.metadata.get("parent_id") != parent_id]
    if strangers:
        raise InvalidDocument(
            f"{len(strangers)} documents are not children of {parent_id!r}; nothing was changed",
            problems=[
                Problem(document=document.id, field="metadata.parent_id", message=f"must be {parent_id!r}")
                for document in strangers
            ],
        )


def _is_same(stored: Stored | None) -> bool:
    return stored is not None and stored.same_row


def _outcome(id_: str, written: dict[str, bool], refused: dict[str, EmbeddingFailed]) -> UpsertOutcome:
    if id_ in refused:
        return UpsertOutcome(
            id=id_, status="failed", problem=Problem(document=id_, field="content", message=refused[id_].message)
        )
    status: UpsertStatus = "unchanged"
    if id_ in written:
        status = "created" if written[id_] else "updated"
    return UpsertOutcome(id=id_, status=status)
