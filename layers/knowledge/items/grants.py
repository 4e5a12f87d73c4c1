"""Grants: which compartments an agent was given, by whom and from when to when. Given and taken back, never rewritten.

The table is the record; a session's scope is what enforces (``session.Session``), and whoever opens the session
decides on it.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from knowledge.db.connection import Transaction
from knowledge.db.statements import load_statements
from knowledge.items.session import Session
from knowledge.items.transactions import ItemTransactions, Role
from spot_sdk.errors import InvalidRequest, NotFound

_SQL = load_statements(Path(__file__).with_name("grants.sql"))


class Grant(NamedTuple):
    """A grant; in force while ``revoked_at`` is None."""

    agent: str
    compartment: str
    may_write: bool
    granted_at: datetime
    granted_by: str
    revoked_at: datetime | None
    revoked_by: str | None


class Grants:
    """Gives, takes back and lists grants; the first two are for stewards, and recorded in provenance."""

    def __init__(self, transactions: ItemTransactions) -> None:
        self._transactions = transactions

    def grant(self, agent: str, compartment: str, session: Session, *, may_write: bool = False) -> Grant:
        """Give an agent a compartment. Raises NotFound when there is none, Conflict when the agent has it already."""
        if not agent.strip() or "\0" in agent:
            raise InvalidRequest("an agent has a name")
        return self._change("grant", agent, compartment, session, may_write=may_write)

    def revoke(self, agent: str, compartment: str, session: Session) -> Grant:
        """Take a compartment back. Raises NotFound when the agent does not have it."""
        return self._change("revoke", agent, compartment, session)

    def list(self, session: Session, *, agent: str | None = None, in_force: bool = True) -> list[Grant]:
        """Grants of compartments that the session sees, of one agent or of all; with the past unless ``in_force``."""
        parameters = {"agent": agent, "in_force": in_force, "scope": session.compartments}
        return self._transactions.read(
            session, lambda transaction: [Grant(**row) for row in transaction.execute(_SQL["list"], parameters)]
        )

    def _change(self, name: str, agent: str, compartment: str, session: Session, *, may_write: bool = False) -> Grant:
        parameters = {"agent": agent, "compartment": compartment, "may_write": may_write}

        def work(transaction: Transaction) -> Grant:
            row = transaction.execute(_SQL[name], parameters).fetchone()
            if row is None:
                raise NotFound(f"{agent} has no grant for {compartment}")
            return Grant(**row)

        return self._transactions.write(session, work, role=Role.STEWARD)
