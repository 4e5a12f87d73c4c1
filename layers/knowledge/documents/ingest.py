"""Ingestion: what providers send becomes documents with vectors, and only what changed costs anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING

from knowledge.db.connection import Transaction
from knowledge.documents.fingerprint import Fingerprinted
from knowledge.documents.store import NO_MOMENTS, DocumentStore, Stored
from knowledge.documents.writer import ANY_WRITER, Writer
from spot_sdk.documents import KnowledgeDocument, UpsertOutcome, UpsertResult, UpsertStatus
from spot_sdk.errors import DuplicateDocument, EmbeddingFailed, InvalidDocument, Problem
from spot_sdk.problems import summary

if TYPE_CHECKING:
    from pgvector import Vector as PgVector

    from knowledge.embedding.base import Embedder, Vector


@dataclass(frozen=True, slots=True)
class Prepared:
    """A batch that is ready to be written: what changed with its vectors, and what could not be embedded."""

    offered: Sequence[Fingerprinted]
    entries: list[tuple[Fingerprinted, Vector | PgVector]]
    refused: dict[str, EmbeddingFailed]
    embedded: int
    over_window: int

    @property
    def unchanged(self) -> list[Fingerprinted]:
        """Those that are stored already just as offered."""
        others = {entry.document.id for entry, _ in self.entries} | self.refused.keys()
        return [entry for entry in self.offered if entry.document.id not in others]

    @property
    def ids(self) -> list[str]:
        return [entry.document.id for entry in self.offered]

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


class _Overtaken(Exception):
    """What was unchanged when it was compared has changed before it could be kept; the transaction is rolled back."""


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
        while True:
            try:
                return self._write(self.prepare(documents, writer), writer)
            except _Overtaken:
                continue

    def _write(
        self, prepared: Prepared, writer: Writer = ANY_WRITER, moments: Mapping[str, datetime] = NO_MOMENTS
    ) -> UpsertResult:
        """Outside a sync run: whatever is offered counts as written now, what is unchanged too."""

        def after(transaction: Transaction, _: dict[str, bool]) -> None:
            if not self._store.refresh(transaction, prepared.unchanged):
                raise _Overtaken

        return prepared.result(self._store.upsert(prepared.entries, writer=writer, moments=moments, after=after))

    def replace_children(
        self,
        parent_id: str,
        documents: Sequence[KnowledgeDocument],
        source: str | None = None,
        *,
        writer: Writer = ANY_WRITER,
    ) -> UpsertResult:
        """Make ``documents`` the only ones that their source has with this parent, in one transaction.

        ``source`` says whose children go when there are no documents ("" unless given). Replacements of one parent wait
        for each other, and one that was overtaken while it embedded begins anew.

        Raises InvalidDocument when one has another parent or another source than the rest, EmbeddingFailed when one
        cannot be embedded (nothing is changed then: a page is whole or as it was), and what ``upsert`` raises.
        """
        _refuse_other_parents(parent_id, documents)
        source = _one_source(documents, source if source is not None else writer.source)
        writer.refuse_source(source)
        while True:
            try:
                return self._replace_children(parent_id, documents, source, writer)
            except _Overtaken:
                continue

    def _replace_children(
        self, parent_id: str, documents: Sequence[KnowledgeDocument], source: str, writer: Writer
    ) -> UpsertResult:
        prepared = self.prepare(documents, writer)
        for failure in prepared.refused.values():
            raise failure

        def before(transaction: Transaction) -> None:
            self._store.hold_parent(transaction, source, parent_id)

        def after(transaction: Transaction, _: dict[str, bool]) -> None:
            self._store.delete_other_children(transaction, parent_id, source, keep=prepared.ids)
            self._store.refresh(transaction, prepared.unchanged)
            if not self._store.holds(transaction, prepared.offered):
                raise _Overtaken

        return prepared.result(self._store.upsert(prepared.entries, writer=writer, before=before, after=after))

    def restore(self, archived: Sequence[Restored]) -> UpsertResult:
        """Store a batch from an archive, as ``upsert`` does; documents keep their moments.

        A vector spares the embedding where it is of the text that its document has now; it must be this model's.
        """
        vectors = {entry.content_hash: entry.embedding for entry in archived if entry.embedding is not None}
        moments = {entry.document.id: entry.updated_at for entry in archived}
        while True:
            prepared = self.prepare([entry.document for entry in archived], vectors=vectors)
            try:
                return self._write(prepared, moments=moments)
            except _Overtaken:
                continue

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
            offered,
            entries,
            refused,
            embedded=len(new) - len(refused),
            over_window=sum(self._embedder.over_window(entry.text) for entry in new),
        )


def _refuse_duplicates(documents: Sequence[KnowledgeDocument]) -> None:
    counts = Counter(document.id for document in documents)
    twice = [id_ for id_, count in counts.items() if count > 1]
    if twice:
        problems = [Problem(document=id_, field="id", message=f"stands {counts[id_]} times") for id_ in twice]
        raise DuplicateDocument(f"{summary(problems[0], len(twice))}; nothing was stored", problems=problems)


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


def _one_source(documents: Sequence[KnowledgeDocument], otherwise: str | None) -> str:
    """The source of all the documents, or the one given when there is none."""
    sources = {document.source for document in documents}
    if len(sources) > 1:
        raise InvalidDocument(f"a page's chunks have one source, and these have {len(sources)}; nothing was changed")
    return sources.pop() if sources else (otherwise or "")


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
