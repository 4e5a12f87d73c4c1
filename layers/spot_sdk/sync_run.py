"""A sync run as a provider sees it: everything that its source has, and then what it no longer has is removed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Protocol, Self, TypeVar

from pydantic import BaseModel

from spot_sdk.checks import build, storable
from spot_sdk.connection import StoreConnection
from spot_sdk.documents import KnowledgeDocument, SyncRunRef, UpsertResult
from spot_sdk.errors import Conflict, KnowledgeError, Problem, StaleRun, SyncRunning
from spot_sdk.sync import (
    CompleteSyncRun,
    FailSyncRun,
    HeartbeatSyncRun,
    RemovalLimits,
    StartSyncRun,
    SyncRunRecord,
    SyncRunStarted,
    SyncStatus,
)
from spot_sdk.writing import DocumentWriter, Progress

_HEARTBEATS_PER_LEASE = 3
_RETRY_S = 1.0
_MAX_REASON_LENGTH = 2_000

_log = logging.getLogger(__name__)

Answer = TypeVar("Answer", bound=BaseModel)


class SyncResult(BaseModel):
    """What a run did. ``partial``: removals were held back; ``error`` says why, and the command that confirms them.

    ``problems`` names the documents that the embedding model refused; they count as ``failed`` and were not removed.
    """

    run_id: int
    source: str
    status: SyncStatus = "running"
    created: int = 0
    updated: int = 0
    unchanged: int = 0
    failed: int = 0
    embedded: int = 0
    over_window: int = 0
    removed: int = 0
    held: int = 0
    error: str = ""
    problems: list[Problem] = []


class RunCalls(Protocol):
    """What a run asks of a store; each may raise KnowledgeError."""

    async def start(self, source: str) -> SyncRunStarted: ...

    async def send(
        self, run: SyncRunRef, documents: Iterable[KnowledgeDocument], progress: Progress | None
    ) -> UpsertResult: ...

    async def heartbeat(self, run: SyncRunRef) -> None: ...

    async def complete(self, run: SyncRunRef, limits: RemovalLimits) -> SyncRunRecord: ...

    async def fail(self, run: SyncRunRef, reason: str) -> SyncRunRecord: ...


class SyncRun:
    """One run over one source, open inside its ``async with`` block; made by ``KnowledgeClient.sync_run``.

    While the block runs, the run is kept alive. When it ends, the store removes the documents of the source that the
    run did not send. When it raises, the run has failed and nothing is removed; so let a listing that breaks off raise.

    Entering raises SyncRunning while another run of the source is alive, after waiting for it if asked to. ``upsert``
    and leaving raise StaleRun when the run lost its lease, for instance because this process stood still for too long.
    """

    def __init__(self, calls: RunCalls, source: str, limits: RemovalLimits, wait_s: float = 0) -> None:
        self._calls = calls
        self._source = source
        self._limits = limits
        self._wait_s = wait_s
        self._run: SyncRunRef | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._result: SyncResult | None = None

    @property
    def result(self) -> SyncResult:
        """What the run has done so far; final once the block was left. Raises Conflict before it was entered."""
        if self._result is None:
            raise Conflict("the sync run has not begun")
        return self._result

    async def upsert(self, documents: Iterable[KnowledgeDocument], progress: Progress | None = None) -> UpsertResult:
        """Store documents of this source, like ``bulk_upsert``; call it as often as is handy.

        A text that the model refuses is no error here: it is in ``result.problems``, and its document is not removed.
        """
        try:
            stored = await self._calls.send(self._open_run(), documents, progress)
        except KnowledgeError as error:
            if error.result is not None:
                self._count(error.result)
            raise
        self._count(stored)
        return stored

    async def _start(self) -> SyncRunStarted:
        """Open the run, waiting for the end of another one as long as may be."""
        until = time.monotonic() + self._wait_s
        while True:
            try:
                return await self._calls.start(self._source)
            except SyncRunning:
                if time.monotonic() >= until:
                    raise
            await asyncio.sleep(_RETRY_S)

    async def __aenter__(self) -> Self:
        if self._run is not None:
            raise Conflict("a sync run is entered once")
        started = await self._start()
        self._run = started.run
        self._result = SyncResult(run_id=started.run.id, source=self._source)
        self._keeper = asyncio.create_task(self._keep_alive(started.run, started.lease_s / _HEARTBEATS_PER_LEASE))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        run = self._open_run()
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        if error is None:
            self._end(await self._calls.complete(run, self._limits))
            return
        reason = storable(f"{type(error).__name__}: {error}"[:_MAX_REASON_LENGTH])
        try:
            self._end(await self._calls.fail(run, reason))
        except KnowledgeError as unheard:  # the run ends with its lease then; the caller's own error is the one to tell
            _log.warning("run %d failed, and the store could not be told: %s", run.id, unheard)
            self.result.status = "failed"
            self.result.error = reason

    def _open_run(self) -> SyncRunRef:
        if self._run is None:
            raise Conflict("the sync run has not begun; use it inside its `async with` block")
        if self.result.status != "running":
            raise StaleRun(f"sync run {self._run.id} has ended")
        return self._run

    async def _keep_alive(self, run: SyncRunRef, interval_s: float) -> None:
        while True:
            await asyncio.sleep(interval_s)
            try:
                await self._calls.heartbeat(run)
            except StaleRun:
                return  # what the run does next will raise it where it can be heard
            except KnowledgeError as error:
                _log.warning("heartbeat of run %d: %s", run.id, error)

    def _count(self, stored: UpsertResult) -> None:
        result = self.result
        for name in ("created", "updated", "unchanged", "failed", "embedded", "over_window"):
            setattr(result, name, getattr(result, name) + getattr(stored, name))
        result.problems += [outcome.problem for outcome in stored.results if outcome.problem is not None]

    def _end(self, record: SyncRunRecord) -> None:
        self.result.status = record.status
        self.result.removed = record.removed
        self.result.held = record.held
        self.result.error = record.error


class HttpRunCalls:
    """RunCalls over HTTP.

    A start is sent once: were only its answer lost, the run that it opened would refuse a second one. Everything else
    may be sent again; ending a run that has ended changes nothing.
    """

    def __init__(self, connection: StoreConnection, writer: DocumentWriter) -> None:
        self._connection = connection
        self._writer = writer

    async def start(self, source: str) -> SyncRunStarted:
        body = build(StartSyncRun, {"source": source})
        return await self._post(SyncRunStarted, "/sync-runs", body, is_repeatable=False)

    async def send(
        self, run: SyncRunRef, documents: Iterable[KnowledgeDocument], progress: Progress | None
    ) -> UpsertResult:
        return await self._writer.bulk_upsert(documents, progress, run)

    async def heartbeat(self, run: SyncRunRef) -> None:
        body = HeartbeatSyncRun(fence=run.fence)
        await self._post(SyncRunRef, f"/sync-runs/{run.id}/heartbeat", body)

    async def complete(self, run: SyncRunRef, limits: RemovalLimits) -> SyncRunRecord:
        body = CompleteSyncRun(fence=run.fence, limits=limits)
        with self._writer.writing():
            return await self._post(SyncRunRecord, f"/sync-runs/{run.id}/complete", body)

    async def fail(self, run: SyncRunRef, reason: str) -> SyncRunRecord:
        body = FailSyncRun(fence=run.fence, reason=reason)
        return await self._post(SyncRunRecord, f"/sync-runs/{run.id}/fail", body)

    async def _post(self, answer: type[Answer], path: str, body: BaseModel, *, is_repeatable: bool = True) -> Answer:
        content = body.model_dump_json().encode()
        return await self._connection.call(answer, "POST", path, body=content, is_repeatable=is_repeatable)
