"""Run records: what was synced when, by whom, and how it ended."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from knowledge import metrics
from knowledge.db.connection import Transaction
from knowledge.db.statements import load_statements
from knowledge.sync.leases import Lease
from knowledge.telemetry import one_of_few, record
from spot_sdk.errors import NotFound
from spot_sdk.sync import SyncRunRecord, SyncTrigger

KEEP_RUNS = 100
KEEP_RUNS_FOR = timedelta(days=90)

FinalStatus = Literal["succeeded", "partial", "failed"]

_SQL = load_statements(Path(__file__).with_name("queries.sql"))


def start(transaction: Transaction, lease: Lease, trigger: SyncTrigger, slot: datetime | None = None) -> int:
    """Record the run that ``lease`` allows, close those that its name left open, and return the new run's id."""
    transaction.execute(_SQL["fail_abandoned"], {"name": lease.name, "fence": lease.fence})
    row = transaction.execute(
        _SQL["start_run"], {"name": lease.name, "fence": lease.fence, "trigger": trigger, "slot": slot}
    ).fetchone()
    assert row is not None
    transaction.execute(_SQL["forget_seen"], {"name": lease.name, "keep": row["id"]})
    transaction.execute(_SQL["forget_old_runs"], {"name": lease.name, "keep": KEEP_RUNS, "keep_for": KEEP_RUNS_FOR})
    return row["id"]


def record_skip(transaction: Transaction, name: str, trigger: SyncTrigger, slot: datetime | None, error: str) -> int:
    """Record a run that did not begin."""
    row = transaction.execute(
        _SQL["record_skip"], {"name": name, "trigger": trigger, "slot": slot, "error": error}
    ).fetchone()
    assert row is not None
    return row["id"]


def go_on_under(transaction: Transaction, run_id: int, lease: Lease) -> None:
    """Note that a run goes on under this lease's fence."""
    transaction.execute(_SQL["set_fence"], {"run_id": run_id, "fence": lease.fence})


def add_counts(transaction: Transaction, run_id: int, *, created: int, updated: int, unchanged: int) -> None:
    """Add what one batch did to a live run."""
    transaction.execute(
        _SQL["add_counts"], {"run_id": run_id, "created": created, "updated": updated, "unchanged": unchanged}
    )


def finish(
    transaction: Transaction,
    run_id: int,
    status: FinalStatus,
    *,
    error: str = "",
    from_status: Literal["running", "partial"] = "running",
    **counts: int,
) -> SyncRunRecord:
    """Record how a run ended, adding ``created``, ``updated``, ``unchanged``, ``removed`` and setting ``held``.

    Raises NotFound when there is no such run in ``from_status``.
    """
    values = dict.fromkeys(("created", "updated", "unchanged", "removed", "held"), 0) | counts
    row = transaction.execute(
        _SQL["finish_run"], {"run_id": run_id, "status": status, "error": error, "from": [from_status], **values}
    ).fetchone()
    if row is None:
        raise NotFound(f"there is no {from_status} sync run {run_id}")
    return _as_record(row)


def tell(ended: SyncRunRecord) -> SyncRunRecord:
    """Record as metrics how a run ended, once that is committed; returns the record."""
    name = one_of_few(ended.name)
    record(metrics.SYNC_RUNS, name=name, status=ended.status)
    if ended.removed:
        record(metrics.SYNC_REMOVED, ended.removed, name=name)
    if ended.held:
        record(metrics.SYNC_GUARD_STOPS, name=name)
    return ended


def get(transaction: Transaction, run_id: int) -> tuple[SyncRunRecord, Lease]:
    """A run, and the lease that it was started under. Raises NotFound."""
    row = transaction.execute(_SQL["run"], {"run_id": run_id}).fetchone()
    if row is None:
        raise NotFound(f"there is no sync run {run_id}")
    return _as_record(row), Lease(row["name"], row["fence"])


def latest(transaction: Transaction, name: str | None, limit: int) -> list[SyncRunRecord]:
    """The last runs of one name, or of all, newest first."""
    return [_as_record(row) for row in transaction.execute(_SQL["runs"], {"name": name, "limit": limit})]


def mark_seen(transaction: Transaction, run_id: int, ids: list[str]) -> None:
    """Note that the source still has these documents."""
    transaction.execute(_SQL["mark_seen"], {"run_id": run_id, "ids": ids})


def _as_record(row: dict[str, Any]) -> SyncRunRecord:
    return SyncRunRecord.model_validate({key: value for key, value in row.items() if key != "fence"})
