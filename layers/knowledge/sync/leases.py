"""Leases with fencing tokens: of many that want to run one thing, one may, and a former holder can do no harm.

A lease is claimed in one statement, by the database's clock, for a time to live. Each claim gets a larger token, the
fence. A holder that was frozen past its lease and wakes up still carries the old fence, and ``renew`` - which every
fenced write calls first, in its own transaction - refuses it. See M. Kleppmann, "How to do distributed locking" (2016).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from knowledge import metrics
from knowledge.db.connection import Transaction
from knowledge.db.statements import load_statements
from knowledge.telemetry import record
from spot_sdk.errors import StaleRun, SyncRunning

_SQL = load_statements(Path(__file__).with_name("queries.sql"))


@dataclass(frozen=True, slots=True)
class Lease:
    """A claim: ``fence`` is what proves it; ``taken_over`` says that the holder before did not give it back."""

    name: str
    fence: int
    taken_over: bool = False


class DuplicateSlot(Exception):
    """The scheduled minute was claimed already: the event was delivered twice."""


def claim(transaction: Transaction, name: str, ttl: timedelta, slot: datetime | None = None) -> Lease:
    """Take the lease, or raise SyncRunning when another holds it, DuplicateSlot when ``slot`` was claimed before."""
    while True:
        row = transaction.execute(_SQL["claim_lease"], {"name": name, "ttl": ttl, "slot": slot}).fetchone()
        if row is not None:
            return Lease(name, row["fence"], row["taken_over"])
        state = transaction.execute(_SQL["lease_state"], {"name": name}).fetchone()
        if state is not None and slot is not None and state["slot"] is not None and state["slot"] >= slot:
            raise DuplicateSlot(f"{name} was run for {slot.isoformat()} already")
        if state is not None and state["held"]:
            raise SyncRunning(f"{name} is being synced now")
        # It was given back between the two statements: claim again.


def tell(claimed: Lease) -> None:
    """Record as a metric what a claim shows of the holder before, once it is committed."""
    if claimed.taken_over:
        record(metrics.LEASE_TAKEOVERS)


def renew(transaction: Transaction, lease: Lease, ttl: timedelta) -> None:
    """Prolong the lease, keeping it until this transaction ends; raises StaleRun when it is another's by now."""
    if not transaction.execute(_SQL["renew_lease"], {"name": lease.name, "fence": lease.fence, "ttl": ttl}).rowcount:
        raise StaleRun(f"{lease.name} was taken over, or this run has ended; nothing was written")


def is_latest(transaction: Transaction, lease: Lease) -> bool:
    """True when nobody has claimed the lease since, and nobody will before this transaction ends."""
    row = transaction.execute(_SQL["hold_lease"], {"name": lease.name}).fetchone()
    return row is not None and row["fence"] == lease.fence


def advance(transaction: Transaction, lease: Lease, ttl: timedelta) -> Lease:
    """Prolong the lease under a new fence: of two that carry the old one, the first goes on and the other is stale."""
    parameters = {"name": lease.name, "fence": lease.fence, "ttl": ttl}
    row = transaction.execute(_SQL["advance_lease"], parameters).fetchone()
    if row is None:
        raise StaleRun(f"{lease.name} was taken over, or goes on elsewhere")
    return Lease(lease.name, row["fence"])


def release(transaction: Transaction, lease: Lease) -> None:
    """Give the lease back; nothing happens when it is another's by now."""
    transaction.execute(_SQL["release_lease"], {"name": lease.name, "fence": lease.fence})
