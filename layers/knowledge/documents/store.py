"""Documents in PostgreSQL: what writes, counts and removes them (``queries.sql``, beside it)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from pgvector import Vector as PgVector
from psycopg import sql

from knowledge import metrics
from knowledge.db.connection import Database, Transaction
from knowledge.db.statements import load_statements
from knowledge.documents.fingerprint import Fingerprinted
from knowledge.documents.model_hold import hold_for_reading, hold_for_writing
from knowledge.documents.writer import ANY_WRITER, Writer
from knowledge.tags.sql import tag_filter
from knowledge.telemetry import one_of_few, record
from spot_sdk.documents import SET_BY_QUERIES, EmbeddingModel, KnowledgeDocument, SourceCount, Stats, TagCount
from spot_sdk.errors import Forbidden, Problem
from spot_sdk.tag_expression import TagExpression

if TYPE_CHECKING:
    from knowledge.embedding.base import Vector

_SQL = load_statements(Path(__file__).with_name("queries.sql"))


class Stored(NamedTuple):
    """What the store holds under an id that is offered again."""

    same_row: bool
    embedding: PgVector | None  # where the content is the same and the rest is not


class Exported(NamedTuple):
    """A document as it was given, with what the store knows of it: when it is from, and its vector (if asked for)."""

    document: KnowledgeDocument
    updated_at: datetime
    content_hash: bytes
    embedding: PgVector | None


class Export(NamedTuple):
    """Documents to be read once, one by one, and how many there are."""

    documents: int
    entries: Iterator[Exported]


class Unseen(NamedTuple):
    """How a source's documents stand towards a run: all, seen by it, and missing from it."""

    total: int
    unseen: int
    seen: int


Before = Callable[[Transaction], object]
"""What else a transaction does first, such as proving the right to write."""

After = Callable[[Transaction, dict[str, bool]], object]
"""What else a transaction does last, knowing what was written (id -> created)."""


def _nothing(*_: object) -> None:
    pass


NO_MOMENTS: Mapping[str, datetime] = MappingProxyType({})


class DocumentStore:
    """Reads and writes documents whose vectors are of one model.

    Every method is one transaction and raises the database's failures as ``Database.run`` says. Those that touch
    vectors raise ModelMismatch when the table holds another model's, also when it was switched a moment ago.
    """

    def __init__(self, database: Database, model: EmbeddingModel) -> None:
        self._database = database
        self._model = model

    def compare(self, offered: Sequence[Fingerprinted]) -> dict[str, Stored]:
        """What is stored already under the ids of ``offered``."""

        def work(transaction: Transaction) -> dict[str, Stored]:
            hold_for_reading(transaction, self._model)
            rows = transaction.execute(
                _SQL["compare"],
                _keys(offered),
            )
            return {row["id"]: Stored(row["same_row"], row["embedding"]) for row in rows}

        return self._database.run(work)

    def upsert(
        self,
        entries: Sequence[tuple[Fingerprinted, Vector | PgVector]],
        *,
        writer: Writer = ANY_WRITER,
        moments: Mapping[str, datetime] = NO_MOMENTS,
        before: Before = _nothing,
        after: After = _nothing,
    ) -> dict[str, bool]:
        """Write documents with their vectors; returns id -> True where it was created, False where it was updated.

        All or nothing, together with what ``before`` and ``after`` do in the same transaction. An id that is missing in
        the answer was the same already. A document without ``updated_at`` is from ``moments[id]``, or from now. Raises
        Forbidden when a document is stored under another source and the writer respects sources.
        """
        ordered = sorted(entries, key=lambda entry: entry[0].document.id)

        def work(transaction: Transaction) -> dict[str, bool]:
            hold_for_writing(transaction, self._model)
            before(transaction)
            written = self._write(transaction, ordered, writer, moments) if ordered else {}
            after(transaction, written)
            return written

        written = self._database.run(work)
        sources = Counter(entry.document.source for entry, _ in ordered if entry.document.id in written)
        for source, documents in sources.items():
            record(metrics.UPSERTS, documents, source=one_of_few(source))
        return written

    def _write(
        self,
        transaction: Transaction,
        ordered: Sequence[tuple[Fingerprinted, Vector | PgVector]],
        writer: Writer,
        moments: Mapping[str, datetime],
    ) -> dict[str, bool]:
        rows = transaction.execute(
            _SQL["upsert"],
            {
                "documents": json.dumps([_as_record(entry, moments) for entry, _ in ordered], ensure_ascii=False),
                "embeddings": [_as_pgvector(vector) for _, vector in ordered],
                "respects_sources": writer.respects_sources,
            },
        )
        written = {row["id"]: row["created"] for row in rows}
        if writer.respects_sources:
            documents = [entry.document for entry, _ in ordered]
            offered = {"ids": [document.id for document in documents], "sources": [d.source for d in documents]}
            _refuse_takeover(transaction.execute(_SQL["foreign"], offered).fetchall())
        return written

    def delete(self, ids: Sequence[str], *, writer: Writer = ANY_WRITER) -> int:
        """Remove documents; returns how many were there. Raises Forbidden when one is not the writer's to remove."""
        return self._change("delete", ids, writer)

    def _change(self, statement: str, ids: Sequence[str], writer: Writer) -> int:
        def work(transaction: Transaction) -> int:
            offered = {"ids": list(ids), "source": writer.source}
            changed = transaction.execute(_SQL[statement], offered).rowcount
            if writer.source is not None:
                _refuse_takeover(transaction.execute(_SQL["foreign_ids"], offered).fetchall())
            return changed

        return self._database.run(work)

    def expire(self, ids: Sequence[str], *, writer: Writer = ANY_WRITER) -> int:
        """Let no query find these documents until their provider offers them again; the clean-up removes them.

        Returns how many were live. Raises Forbidden when one is not the writer's.
        """
        return self._change("expire", ids, writer)

    def hold_parent(self, transaction: Transaction, source: str, parent_id: str) -> None:
        """Let no other replacement of this source's children of a parent begin before this transaction ends."""
        transaction.execute(_SQL["hold_parent"], {"source": source, "parent_id": parent_id})

    def delete_other_children(self, transaction: Transaction, parent_id: str, source: str, keep: Sequence[str]) -> int:
        """Remove a source's children of a parent except ``keep``; returns how many."""
        return transaction.execute(
            _SQL["delete_other_children"], {"parent_id": parent_id, "ids": list(keep), "source": source}
        ).rowcount

    def holds(self, transaction: Transaction, offered: Sequence[Fingerprinted]) -> bool:
        """True when every document is stored just as offered, and stays so to the end of the transaction."""
        rows = transaction.execute(_SQL["lock_same"], _keys(offered)).fetchall()
        return len(rows) == len(offered)

    def refresh(self, transaction: Transaction, offered: Sequence[Fingerprinted]) -> bool:
        """Keep documents that are stored just as offered from runs of their sources that began before.

        True when every one of them is there still.
        """
        if not offered:
            return True
        sources = list({entry.document.source for entry in offered})
        transaction.execute(_SQL["touch"], _keys(offered) | {"sources": sources})
        row = transaction.execute(_SQL["count_same"], _keys(offered)).fetchone()
        return row is not None and row["same"] == len(offered)

    def count_unseen(self, transaction: Transaction, run_id: int, source: str, since: datetime) -> Unseen:
        """Of one source's documents: all, those a run saw, and those it did not and nobody wrote since."""
        row = transaction.execute(_SQL["count_unseen"], {"run_id": run_id, "source": source, "since": since}).fetchone()
        assert row is not None
        return Unseen(**row)

    def delete_unseen(self, transaction: Transaction, run_id: int, source: str, since: datetime) -> int:
        """Remove what a run did not see of its source and nobody wrote since; returns how many."""
        return transaction.execute(_SQL["delete_unseen"], {"run_id": run_id, "source": source, "since": since}).rowcount

    def delete_expired(self, limit: int) -> int:
        """Remove up to ``limit`` expired documents that nobody is writing; returns how many."""
        return self._database.run(
            lambda transaction: transaction.execute(_SQL["delete_expired"], {"limit": limit}).rowcount
        )

    def stats(self, tags: Sequence[str]) -> Stats:
        """Counts over the live documents, with one line for each of ``tags`` and each source."""

        def work(transaction: Transaction) -> Stats:
            totals = transaction.execute(_SQL["count"]).fetchone() or {}
            by_tag = transaction.execute(_SQL["count_by_tag"], {"tags": list(tags)}).fetchall()
            by_source = transaction.execute(_SQL["count_by_source"]).fetchall()
            return Stats(
                **totals,
                tags=[TagCount(**row) for row in by_tag],
                sources=[SourceCount(**row) for row in by_source],
            )

        return self._database.run(work)

    @contextmanager
    def export(
        self, *, source: str | None = None, expression: TagExpression | None = None, with_vectors: bool = False
    ) -> Generator[Export]:
        """All live documents of one moment, in id order, or those of one source or with these tags."""
        tags = tag_filter(expression)
        parameters = {**tags.parameters, "source": source, "with_vectors": with_vectors}

        def statement(name: str) -> sql.Composed:
            return sql.SQL(_SQL[name]).format(tags=sql.SQL(tags.condition))

        with self._database.snapshot() as snapshot:
            with snapshot.transaction() as transaction:
                hold_for_reading(transaction, self._model)
                counted = transaction.execute(statement("count_export"), parameters).fetchone() or {}
            yield Export(counted["documents"], map(_as_exported, snapshot.stream(statement("export"), parameters)))

    def check(self) -> None:
        """Raise unless the database answers and holds this model's vectors."""
        self._database.run(lambda transaction: hold_for_reading(transaction, self._model))


def _keys(offered: Sequence[Fingerprinted]) -> dict[str, Any]:
    return {
        "ids": [entry.document.id for entry in offered],
        "content_hashes": [entry.content_hash for entry in offered],
        "row_hashes": [entry.row_hash for entry in offered],
    }


def _refuse_takeover(foreign: Sequence[dict[str, Any]]) -> None:
    """Raise Forbidden when documents are stored under another source; the transaction is rolled back with it."""
    if foreign:
        raise Forbidden(
            f"{len(foreign)} of these documents belong to another source; nothing was changed",
            problems=[
                Problem(document=row["id"], field="source", message="belongs to another source") for row in foreign
            ],
        )


def _as_record(entry: Fingerprinted, moments: Mapping[str, datetime]) -> dict[str, Any]:
    record = entry.document.model_dump(mode="json", exclude=SET_BY_QUERIES)
    if record["updated_at"] is None and entry.document.id in moments:
        record["updated_at"] = moments[entry.document.id].isoformat()
    return record | {"content_hash": entry.content_hash.hex(), "row_hash": entry.row_hash.hex()}


def _as_exported(row: dict[str, Any]) -> Exported:
    """``updated_at`` is the document's own only where its provider gave one, which the hash of what it gave tells."""
    row_hash, content_hash, embedding = row.pop("row_hash"), row.pop("content_hash"), row.pop("embedding")
    moment = row.pop("updated_at").astimezone(UTC)
    row["expires_at"] = row["expires_at"] and row["expires_at"].astimezone(UTC)
    document = KnowledgeDocument.model_construct(**row, updated_at=None)
    if Fingerprinted.of(document).row_hash != row_hash:
        document = KnowledgeDocument.model_construct(**row, updated_at=moment)
    return Exported(document, moment, content_hash, embedding)


def _as_pgvector(vector: Vector | PgVector) -> PgVector:
    return vector if isinstance(vector, PgVector) else PgVector(vector)
