"""One provider's sync, from the event that asks for it to the record of how it went.

    schedule: claim the lease for the minute ─► run ─► record, release
    manual:   the admin function claims and answers 202; this carries the run on

The lease is renewed while the provider works. When it is lost - this process was frozen and another took over - nothing
more is recorded: the fence refuses it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from knowledge.db.connection import Database, Transaction
from knowledge.sync import leases, runs
from knowledge.sync.config import Provider, SpotConfig
from knowledge.sync.leases import DuplicateSlot, Lease
from knowledge.sync.provider import ProviderAnswer, ProviderFailed
from spot_sdk.errors import KnowledgeError, NotFound, StaleRun, SyncRunning
from spot_sdk.sync import SyncRunRecord, SyncTrigger

LEASE = timedelta(seconds=60)
_PREFIX = "provider:"
_NO_ANSWER = ProviderAnswer()

CallProvider = Callable[[Provider, int, float, Callable[[], bool]], ProviderAnswer]
"""Calls (provider, run id, time-out in seconds, stop)."""


@dataclass(frozen=True, slots=True)
class ProviderRun:
    """A run of a provider that may go on: its id, and the lease it holds."""

    provider_id: str
    run_id: int
    lease: Lease


class ProviderSync:
    """Runs providers' syncs."""

    def __init__(self, database: Database, config: Callable[[], SpotConfig], call: CallProvider) -> None:
        self._database = database
        self._config = config
        self._call = call

    def begin(self, provider_id: str, trigger: SyncTrigger, slot: datetime | None = None) -> ProviderRun:
        """Claim the right to sync a provider, and record that it begins.

        Raises NotFound for a provider that is not configured and enabled, SyncRunning while one is under way,
        DuplicateSlot when ``slot`` was run already.
        """
        self._provider(provider_id)

        def work(transaction: Transaction) -> ProviderRun:
            lease = leases.claim(transaction, _PREFIX + provider_id, LEASE, slot)
            return ProviderRun(provider_id, runs.start(transaction, lease, trigger, slot), lease)

        run = self._database.run(work, repeat_after_loss=False)
        leases.tell(run.lease)
        return run

    def run_scheduled(self, provider_id: str, slot: datetime, time_left_s: float) -> SyncRunRecord | None:
        """What a scheduled event asks for; None when the same event was delivered before.

        A run that is still going on makes this one ``skipped``.
        """
        try:
            run = self.begin(provider_id, "schedule", slot)
        except DuplicateSlot:
            return None
        except SyncRunning as error:
            reason = error.message
            name = _PREFIX + provider_id

            def record(transaction: Transaction) -> SyncRunRecord:
                return runs.get(transaction, runs.record_skip(transaction, name, "schedule", slot, reason))[0]

            return runs.tell(self._database.run(record))
        return self.carry_on(run, time_left_s)

    def carry_on(self, run: ProviderRun, time_left_s: float) -> SyncRunRecord:
        """Call the provider and record how it went.

        Raises StaleRun when the run goes on elsewhere, has ended or was taken over; the provider is not called then.
        Whatever else goes wrong is recorded as a failed run, and raised.
        """
        run = self._take_up(run)
        try:
            return self._call_and_record(run, time_left_s)
        except StaleRun:
            raise
        except Exception as error:
            self._finish(run, "failed", error=f"{run.provider_id}: broken off by {type(error).__name__}")
            raise

    def _take_up(self, run: ProviderRun) -> ProviderRun:
        def work(transaction: Transaction) -> ProviderRun:
            lease = leases.advance(transaction, run.lease, LEASE)
            runs.go_on_under(transaction, run.run_id, lease)
            return ProviderRun(run.provider_id, run.run_id, lease)

        return self._database.run(work, repeat_after_loss=False)

    def _call_and_record(self, run: ProviderRun, time_left_s: float) -> SyncRunRecord:
        provider = self._provider(run.provider_id)
        timeout_s = min(provider.sync_timeout_ms / 1000, time_left_s)
        with _Heartbeat(lambda: self._renew(run.lease), LEASE / 3) as heartbeat:
            try:
                answer = self._call(provider, run.run_id, timeout_s, heartbeat.has_failed)
            except ProviderFailed as failure:
                return self._finish(run, "failed", error=f"{run.provider_id}: {failure}")
        return self._finish(run, "partial" if answer.held else "succeeded", answer=answer)

    def latest(self, provider_id: str, limit: int = 10) -> list[SyncRunRecord]:
        """A provider's last runs, newest first. Raises NotFound for one that is not configured."""
        if provider_id not in self._config().providers:
            raise NotFound(f"there is no provider {provider_id!r}")
        return self._database.run(lambda transaction: runs.latest(transaction, _PREFIX + provider_id, limit))

    def give_up(self, run: ProviderRun, reason: str) -> SyncRunRecord:
        """Record a run that could not be carried on as failed, and release its lease."""
        return self._finish(run, "failed", error=reason)

    def _provider(self, provider_id: str) -> Provider:
        provider = self._config().providers.get(provider_id)
        if provider is None or not provider.enabled:
            raise NotFound(f"there is no enabled provider {provider_id!r}")
        return provider

    def _renew(self, lease: Lease) -> None:
        self._database.run(lambda transaction: leases.renew(transaction, lease, LEASE))

    def _finish(
        self, run: ProviderRun, status: runs.FinalStatus, *, error: str = "", answer: ProviderAnswer = _NO_ANSWER
    ) -> SyncRunRecord:
        def work(transaction: Transaction) -> tuple[SyncRunRecord, bool]:
            record, _ = runs.get(transaction, run.run_id)
            if record.status != "running":  # done already, by this work repeated or by whoever took over
                return record, False
            leases.renew(transaction, run.lease, LEASE)
            leases.release(transaction, run.lease)
            finished = runs.finish(
                transaction,
                run.run_id,
                status,
                error=error or answer.message,
                created=answer.created,
                updated=answer.updated + answer.upserted,
                unchanged=answer.unchanged,
                removed=answer.removed,
                held=answer.held,
            )
            return finished, True

        record, ends_now = self._database.run(work)
        return runs.tell(record) if ends_now else record


class _Heartbeat:
    """Renews a lease from a thread of its own until left; remembers when the lease was lost."""

    def __init__(self, renew: Callable[[], None], every: timedelta) -> None:
        self._renew = renew
        self._every_s = every.total_seconds()
        self._stop = threading.Event()
        self._lost = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def has_failed(self) -> bool:
        return self._lost.is_set()

    def __enter__(self) -> _Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._stop.wait(self._every_s):
            try:
                self._renew()
            except StaleRun:
                self._lost.set()
                return
            except KnowledgeError:
                continue  # the database is away for a moment; the next beat tries again, and the fence decides
