"""A sync run over one source: what it sends is written, and at its end what it did not send is removed, guarded.

    start ──► upsert, upsert, … ──► complete      removes what the source no longer has, if the guard allows
                                └─► fail          removes nothing

Only one run of a source lives at a time (``knowledge.sync.leases``); each batch proves that it still is that run, in
the transaction that writes. A run that ends, fails, is abandoned or taken over removes nothing afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from knowledge.db.connection import Database, Transaction
from knowledge.documents.ingest import Ingestion
from knowledge.documents.store import DocumentStore
from knowledge.documents.writer import ANY_WRITER, Writer
from knowledge.sync import leases, runs
from knowledge.sync.leases import Lease
from spot_sdk.documents import KnowledgeDocument, SyncRunRef, UpsertResult
from spot_sdk.errors import Conflict, InvalidDocument, NotFound, Problem, StaleRun
from spot_sdk.sync import RemovalLimits, SyncRunRecord, SyncRunStarted

LEASE = timedelta(seconds=60)
_PREFIX = "source:"


class SourceSync:
    """Sync runs of sources. Whatever is written is one transaction; methods raise what ``Database.run`` raises."""

    def __init__(self, database: Database, store: DocumentStore, ingestion: Ingestion) -> None:
        self._database = database
        self._store = store
        self._ingestion = ingestion

    def start(self, source: str, *, writer: Writer = ANY_WRITER) -> SyncRunStarted:
        """Open a run. Raises SyncRunning while another run of this source is alive."""
        writer.refuse_source(source)

        def work(transaction: Transaction) -> tuple[Lease, int]:
            lease = leases.claim(transaction, _PREFIX + source, LEASE)
            return lease, runs.start(transaction, lease, "client")

        lease, run_id = self._database.run(work, repeat_after_loss=False)
        leases.tell(lease)
        return SyncRunStarted(run=SyncRunRef(id=run_id, fence=lease.fence), lease_s=int(LEASE.total_seconds()))

    def upsert(
        self, run: SyncRunRef, documents: Sequence[KnowledgeDocument], *, writer: Writer = ANY_WRITER
    ) -> UpsertResult:
        """Write a batch in a run and note that the source has these documents.

        Raises StaleRun when the run is over, InvalidDocument when a document names another source, and what
        ``Ingestion.upsert`` raises. A document that cannot be embedded is seen all the same: it is not gone.
        """
        lease = self._lease_of(run, writer)
        self._refuse_other_sources(_source_of(lease), documents)
        prepared = self._ingestion.prepare(documents, writer)

        def before(transaction: Transaction) -> None:
            leases.renew(transaction, lease, LEASE)
            runs.mark_seen(transaction, run.id, prepared.ids)

        def after(transaction: Transaction, written: dict[str, bool]) -> None:
            result = prepared.result(written)
            runs.add_counts(
                transaction, run.id, created=result.created, updated=result.updated, unchanged=result.unchanged
            )

        return prepared.result(self._store.upsert(prepared.entries, writer=writer, before=before, after=after))

    def heartbeat(self, run: SyncRunRef, *, writer: Writer = ANY_WRITER) -> None:
        """Keep a run alive that has nothing to send. Raises StaleRun when it is over."""
        lease = self._lease_of(run, writer)
        self._database.run(lambda transaction: leases.renew(transaction, lease, LEASE))

    def complete(self, run: SyncRunRef, limits: RemovalLimits, *, writer: Writer = ANY_WRITER) -> SyncRunRecord:
        """End a run that sent everything, and remove what it did not send.

        When the run saw nothing, or more would go than ``limits`` allow, nothing is removed, the run is ``partial`` and
        its record names the count and the command that confirms it. Completing a completed run again gives its record.
        Raises StaleRun when the run is over otherwise.
        """

        def work(transaction: Transaction) -> tuple[SyncRunRecord, bool]:
            done = _ended(transaction, run, writer)
            if done is not None and done.status in ("succeeded", "partial"):
                return done, False
            record, lease = self._live_run(transaction, run, writer)
            source = _source_of(lease)
            missing = self._store.count_unseen(transaction, run.id, source, record.started_at)
            there_before = missing.total - record.created  # a guard must not be outweighed by what the run brought
            why_held = limits.why_held(missing.unseen, total=there_before, seen=missing.seen, run_id=run.id)
            leases.release(transaction, lease)
            if why_held:
                return runs.finish(transaction, run.id, "partial", held=missing.unseen, error=why_held), True
            removed = self._store.delete_unseen(transaction, run.id, source, record.started_at)
            return runs.finish(transaction, run.id, "succeeded", removed=removed), True

        record, ends_now = self._database.run(work)
        return runs.tell(record) if ends_now else record

    def confirm(self, run_id: int) -> SyncRunRecord:
        """Carry out the removals that the guard held. Raises NotFound, or Conflict when a later run has begun."""

        def work(transaction: Transaction) -> SyncRunRecord:
            record, lease = runs.get(transaction, run_id)
            if not record.held or not record.name.startswith(_PREFIX):
                raise NotFound(f"sync run {run_id} is none of a source that holds removals back")
            if not leases.is_latest(transaction, lease):
                raise Conflict(f"a later run of {record.name} came after run {run_id}; confirm that one if it asks")
            source = _source_of(lease)
            removed = self._store.delete_unseen(transaction, run_id, source, record.started_at)
            return runs.finish(transaction, run_id, "succeeded", from_status="partial", removed=removed)

        return runs.tell(self._database.run(work))

    def fail(self, run: SyncRunRef, reason: str, *, writer: Writer = ANY_WRITER) -> SyncRunRecord:
        """End a run that could not send everything; nothing is removed. Raises StaleRun when the run is over."""

        def work(transaction: Transaction) -> SyncRunRecord:
            _, lease = self._live_run(transaction, run, writer)
            leases.release(transaction, lease)
            return runs.finish(transaction, run.id, "failed", error=reason)

        return runs.tell(self._database.run(work))

    def latest(self, source: str | None, limit: int) -> list[SyncRunRecord]:
        """The last runs of one source, or of everything, newest first."""
        name = None if source is None else _PREFIX + source
        return self._database.run(lambda transaction: runs.latest(transaction, name, limit))

    def _lease_of(self, run: SyncRunRef, writer: Writer) -> Lease:
        """The lease that the run's token claims; whether it holds is for ``renew`` to say."""
        return self._database.run(lambda transaction: _get(transaction, run, writer))[1]

    def _live_run(self, transaction: Transaction, run: SyncRunRef, writer: Writer) -> tuple[SyncRunRecord, Lease]:
        record, lease = _get(transaction, run, writer)
        leases.renew(transaction, lease, LEASE)
        return record, lease

    @staticmethod
    def _refuse_other_sources(source: str, documents: Sequence[KnowledgeDocument]) -> None:
        strangers = [document for document in documents if document.source != source]
        if strangers:
            raise InvalidDocument(
                f"this run is about source {source!r}; nothing was stored",
                problems=[
                    Problem(document=document.id, field="source", message=f"is {document.source!r}")
                    for document in strangers
                ],
            )


def _get(transaction: Transaction, run: SyncRunRef, writer: Writer) -> tuple[SyncRunRecord, Lease]:
    try:
        record, lease = runs.get(transaction, run.id)
    except NotFound as error:
        raise StaleRun(error.message) from error
    if record.status != "running" or lease.fence != run.fence or not record.name.startswith(_PREFIX):
        raise StaleRun(f"sync run {run.id} has ended, or was taken over; nothing was written")
    writer.refuse_source(_source_of(lease))
    return record, lease


def _ended(transaction: Transaction, run: SyncRunRef, writer: Writer) -> SyncRunRecord | None:
    """The record of this very run if it has ended."""
    try:
        record, lease = runs.get(transaction, run.id)
    except NotFound:
        return None
    writer.refuse_source(_source_of(lease))
    return record if record.status != "running" and lease.fence == run.fence else None


def _source_of(lease: Lease) -> str:
    return lease.name.removeprefix(_PREFIX)
