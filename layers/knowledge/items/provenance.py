"""The provenance log: read, and held against the chain and against the items (``provenance.sql``, beside it)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from psycopg import sql

from knowledge.db.connection import Snapshot, Transaction
from knowledge.db.statements import load_statements
from knowledge.items.chain import ChainReport, Event, Head, Removed, check_chain
from knowledge.items.session import Session
from knowledge.items.transactions import ItemTransactions
from spot_sdk.errors import Forbidden

_SQL = load_statements(Path(__file__).with_name("provenance.sql"))

_STATES = (
    ("unguarded", "{what}"),
    ("vanished_items", "item {what} is gone, and no deletion tells of it"),
    ("unrecorded_items", "item {what} is there, and no event tells of its creation"),
    ("changed_contents", "item {what} is not what was stored"),
    ("changed_states", "item {what} is in another tier or gate state than the log says"),
    ("changed_links", "link {what} is there and not in the log, or the other way round"),
    ("changed_deletions", "item {what} has a tombstone and no event of its deletion, or the other way round"),
    ("outlived_deletions", "item {what} was deleted, and there is something of it"),
    ("foreign_removals", "event {what} removes events of items that it does not delete"),
    ("changed_grants", "the grant {what} is not what the log says"),
)
"""Statements that find where the tables and the log differ, and what each of their rows means."""


class ProvenanceEvent(NamedTuple):
    """Something that happened: what, to which item, when, by whom (the session's word, and the database's own)."""

    seq: int
    recorded_at: datetime
    event: str
    item_id: str | None
    actor: str
    actor_class: str
    db_user: str
    detail: dict[str, Any]


class Provenance:
    """Reads the log, for sessions that see everything: it tells of every compartment. Others get Forbidden."""

    def __init__(self, transactions: ItemTransactions) -> None:
        self._transactions = transactions

    def events(self, session: Session, *, item_id: str | None = None, after: int = 0) -> list[ProvenanceEvent]:
        """What happened, oldest first: all that is after a place, or of one item."""
        _require_full_sight(session)

        def work(transaction: Transaction) -> list[ProvenanceEvent]:
            rows = transaction.execute(_SQL["events"], {"item_id": item_id, "after": after})
            return [ProvenanceEvent(**row) for row in rows]

        return self._transactions.read(session, work)

    def verify(self, session: Session, heads: Sequence[Head] = ()) -> ChainReport:
        """Compute the chain again, and hold the items, links, deletions and grants against it.

        All at one moment, beside readers and writers. ``heads`` are ends of the chain that were noted earlier; without
        one, a log whose end was cut off, or that was written anew as a whole, looks like any other.
        """
        _require_full_sight(session)
        with self._transactions.snapshot(session) as snapshot:
            with snapshot.transaction() as transaction:
                removed = {
                    row["seq"]: Removed(row["item_id"], bytes.fromhex(row["digest"]), row["told_at"])
                    for row in transaction.execute(_SQL["removed"])
                }
            report = check_chain(_stream(snapshot), removed, heads)
            with snapshot.transaction() as transaction:
                for name, meaning in _STATES:
                    rows = transaction.execute(_SQL[name]).fetchall()
                    report.findings.extend(meaning.format(what=row["what"]) for row in rows)
            return report


def _stream(snapshot: Snapshot) -> Iterator[Event]:
    return (Event(**row) for row in snapshot.stream(sql.SQL(_SQL["chain"]).format(), {}))


def _require_full_sight(session: Session) -> None:
    if session.scope is not None:
        raise Forbidden("the provenance log tells of every compartment, and this session sees only some")
