"""Deletion by the owner: items with all that is of them, what is left to decide, and what is left at all.

(``deletion.sql``, beside it; the deleting itself is the database's function ``erase_item``.)
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from psycopg import sql

from knowledge.db.connection import Database, Transaction
from knowledge.db.statements import load_statements
from knowledge.items.fragments import not_found
from knowledge.items.model import require_item_id
from knowledge.items.session import Session
from knowledge.items.transactions import ItemTransactions, Role
from spot_sdk.errors import Conflict, NotFound

_SQL = load_statements(Path(__file__).with_name("deletion.sql"))


class Erased(NamedTuple):
    """Ids of the items that are gone, the one that was named first, and of those that are flagged for a decision."""

    deleted: list[str]
    flagged: list[str]


class Flag(NamedTuple):
    """An item that was made from a deleted source and from others too; undecided while ``kept_at`` is None."""

    item_id: str
    source_id: str
    flagged_at: datetime
    kept_at: datetime | None
    kept_by: str | None


class Tombstone(NamedTuple):
    """All that is left of a deleted item."""

    item_id: str
    type: str
    deleted_at: datetime
    deleted_by: str


class Deletion:
    """Deletes items, and keeps what is flagged; for sessions whose login is a steward (others get Forbidden)."""

    def __init__(self, transactions: ItemTransactions, database: Database) -> None:
        self._transactions = transactions
        self._database = database

    def erase(self, item_id: str, session: Session) -> Erased:
        """Delete an item, its versions, vectors, links, accesses and provenance; a content-free tombstone is left.

        What was made from it alone (``derived_from``) goes too; what has other sources, or is out of the session's
        sight, is flagged instead. Raises NotFound for what the session does not see.
        """
        parameters = {"id": require_item_id(item_id), "scope": session.compartments}

        def work(transaction: Transaction) -> Erased:
            row = transaction.execute(_SQL["erase"], parameters).fetchone()
            if row is None or row["erased"] is None:
                raise not_found()
            return Erased(**row["erased"])

        return self._transactions.write(session, work, role=Role.STEWARD)

    def flags(self, session: Session, *, undecided: bool = True) -> list[Flag]:
        """Flagged items that the session sees, oldest flag first; without ``undecided`` also those that were kept."""
        parameters = {"undecided": undecided, "scope": session.compartments}
        return self._transactions.read(
            session, lambda transaction: [Flag(**row) for row in transaction.execute(_SQL["flags"], parameters)]
        )

    def keep(self, item_id: str, session: Session) -> None:
        """Decide that a flagged item stays, also when another of its sources is deleted. (Else ``erase`` it.)

        Raises NotFound when the session sees no such item, or it is not flagged.
        """
        parameters = {"id": require_item_id(item_id), "scope": session.compartments, "who": session.identity}

        def work(transaction: Transaction) -> None:
            if transaction.execute(_SQL["keep"], parameters).rowcount == 0:
                raise NotFound("no decision about this item is open")

        self._transactions.write(session, work, role=Role.STEWARD)

    def tombstones(self, session: Session) -> list[Tombstone]:
        """What was deleted, oldest first. A tombstone has no compartment, so every session may know of it."""
        return self._transactions.read(
            session, lambda transaction: [Tombstone(**row) for row in transaction.execute(_SQL["tombstones"])]
        )

    def scrub(self, session: Session) -> None:
        """Rewrite the tables, so that their files hold nothing of what was deleted either.

        PostgreSQL marks rows as gone and leaves their bytes until the space is used again. Locks the layer's tables
        meanwhile. A transaction that began before a deletion still sees the rows and keeps them: end it first. What
        the write-ahead log and backups hold goes when these do.

        Raises Conflict on PostgreSQL before 17, where only the tables' owner may do this.
        """
        row = self._transactions.read(session, lambda transaction: transaction.execute(_SQL["may_scrub"]).fetchone())
        if row is None or not row["may"]:
            raise Conflict("PostgreSQL before 17 lets only knowledge_layer_owner rewrite these tables")
        self._database.run_outside_transaction(sql.SQL(_SQL["scrub"]), role=Role.STEWARD)
