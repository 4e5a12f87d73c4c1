"""``FakeKnowledgeClient``: a KnowledgeClient with a small store of its own, for the unit tests of plugins."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from spot_sdk.batching import BatchLimits, split
from spot_sdk.checks import AnalysedEmail, Asker, build, check_documents, check_ids
from spot_sdk.documents import (
    KnowledgeDocument,
    Query,
    QueryDebug,
    QueryResult,
    RetrievalLimits,
    Stats,
    SyncRunRef,
    UpsertOutcome,
    UpsertResult,
    Version,
)
from spot_sdk.errors import KnowledgeError
from spot_sdk.sync import RemovalLimits, StartSyncRun, SyncRunRecord, SyncRunStarted
from spot_sdk.sync_run import SyncRun
from spot_sdk.testing.fake_store import FakeStore
from spot_sdk.writing import Progress, refuse_failures, replacement

_LEASE_S = 3600


def _utc_now() -> datetime:
    return datetime.now(UTC)


class FakeKnowledgeClient:
    """Behaves as KnowledgeClient does against a real store (one suite of tests holds both to it), without a network.

    Meaning is played by shared words: good enough for "the document about payments is found by a question about
    payments", and always the same::

        kb = FakeKnowledgeClient([KnowledgeDocument(id="policy:1", content="Payments need two people.")])
        monkeypatch.setattr(plugin, "KnowledgeClient", kb)  # KnowledgeClient.for_analysis(email) is then kb's
        ...
        assert kb.queries[-1].tags == "policy"

    ``now`` is the clock by which documents expire.
    """

    def __init__(
        self,
        documents: Iterable[KnowledgeDocument] = (),
        retrieval_limits: RetrievalLimits | None = None,
        *,
        batch_limits: BatchLimits | None = None,
        now: Callable[[], datetime] = _utc_now,
    ) -> None:
        self._store = FakeStore(now)
        self._asker = Asker(retrieval_limits)
        self._batch_limits = batch_limits or BatchLimits()
        self._store.upsert(check_documents(documents))

    # --- for the test ----------------------------------------------------------------------------------------------

    @property
    def documents(self) -> list[KnowledgeDocument]:
        """What the store holds and has not expired, by id."""
        return [document.model_copy(deep=True) for document in self._store.live_documents()]

    @property
    def queries(self) -> list[Query]:
        """Every query that was answered, as it was after the limits."""
        return self._store.queries

    def fail_with(self, error: KnowledgeError | None) -> None:
        """From now on let every call raise ``error``; with None, work again."""
        self._store.failure = error

    def refuse_to_embed(self, *ids: str) -> None:
        """From now on play a model that refuses the texts of these documents."""
        self._store.refused_ids.update(ids)

    # --- what KnowledgeClient has ----------------------------------------------------------------------------------

    def from_environment(
        self, retrieval_limits: RetrievalLimits | None = None, *, cache: object = None, transport: object = None
    ) -> Self:
        """Another client of the same store; environment, cache and transport are not looked at."""
        return self._sibling(Asker(retrieval_limits))

    def for_analysis(
        self, email: AnalysedEmail, *, cache: object = None, timeout_s: object = None, transport: object = None
    ) -> Self:
        """A client of the same store for the analysis of one e-mail."""
        return self._sibling(Asker.of_email(email))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close_shared(self) -> None:
        """There is nothing to close."""

    async def close(self) -> None:
        """There is nothing to close; what was stored stays."""

    async def upsert(self, document: KnowledgeDocument) -> UpsertOutcome:
        return (await self.bulk_upsert([document])).results[0]

    async def bulk_upsert(
        self, documents: Iterable[KnowledgeDocument], progress: Progress | None = None
    ) -> UpsertResult:
        result = self._write(documents, progress, self._store.upsert)
        refuse_failures(result)
        return result

    async def replace_children(
        self, parent_id: str, documents: Iterable[KnowledgeDocument], *, source: str | None = None
    ) -> UpsertResult:
        request = replacement(parent_id, documents, source, self._batch_limits)
        return self._store.replace_children(request.parent_id, request.documents, request.source)

    def sync_run(self, source: str, *, limits: RemovalLimits | None = None, wait_s: float = 0) -> SyncRun:
        return SyncRun(_FakeRunCalls(self._store, self._write), source, limits or RemovalLimits(), wait_s)

    async def delete(self, doc_id: str) -> bool:
        return await self.delete_many([doc_id]) > 0

    async def delete_many(self, ids: Iterable[str]) -> int:
        return self._store.delete(check_ids(ids))

    async def fetch(
        self,
        tags: str | None = None,
        text: str | None = None,
        top_k: int = 5,
        min_score: float = 0.0,
        strategy: str = "similarity",
    ) -> list[KnowledgeDocument]:
        query = self._asker.query(tags, text, top_k, min_score, strategy)
        return [] if query is None else self._store.answer(query)

    async def ask(self, query: Query) -> QueryResult:
        debug = QueryDebug(strategy=query.strategy) if query.debug else None
        return QueryResult(documents=self._store.answer(query), debug=debug)

    async def version(self) -> Version:
        return self._store.version()

    async def stats(self) -> Stats:
        return self._store.stats()

    def _sibling(self, asker: Asker) -> Self:
        sibling = type(self)(batch_limits=self._batch_limits)
        sibling._store = self._store
        sibling._asker = asker
        return sibling

    def _write(
        self,
        documents: Iterable[KnowledgeDocument],
        progress: Progress | None,
        store: Callable[[list[KnowledgeDocument]], UpsertResult],
    ) -> UpsertResult:
        batches = split(check_documents(documents), self._batch_limits)
        answers: list[UpsertResult] = []
        for batch in batches:
            try:
                answers.append(store(batch))
            except KnowledgeError as error:
                error.result = UpsertResult.merged(answers)
                raise
            if progress:
                progress(sum(len(answer.results) for answer in answers), sum(map(len, batches)))
        return UpsertResult.merged(answers)


class _FakeRunCalls:
    """What a SyncRun asks for, of a store in memory; a run there is alive until it ends."""

    def __init__(
        self,
        store: FakeStore,
        write: Callable[
            [Iterable[KnowledgeDocument], Progress | None, Callable[[list[KnowledgeDocument]], UpsertResult]],
            UpsertResult,
        ],
    ) -> None:
        self._store = store
        self._write = write

    async def start(self, source: str) -> SyncRunStarted:
        return SyncRunStarted(
            run=self._store.start_run(build(StartSyncRun, {"source": source}).source), lease_s=_LEASE_S
        )

    async def send(
        self, run: SyncRunRef, documents: Iterable[KnowledgeDocument], progress: Progress | None
    ) -> UpsertResult:
        return self._write(documents, progress, lambda batch: self._store.upsert_in_run(run, batch))

    async def heartbeat(self, run: SyncRunRef) -> None:
        self._store.heartbeat(run)

    async def complete(self, run: SyncRunRef, limits: RemovalLimits) -> SyncRunRecord:
        return self._store.complete_run(run, limits)

    async def fail(self, run: SyncRunRef, reason: str) -> SyncRunRecord:
        return self._store.fail_run(run, reason)
