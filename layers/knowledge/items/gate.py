"""The gate between short-term and long-term: who stands before it, and the decision (``gate.sql``, beside it)."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from psycopg import sql

from knowledge.db.connection import Transaction
from knowledge.db.statements import load_statements
from knowledge.items.fragments import COLUMNS, LINKS, as_item, find_item
from knowledge.items.model import Decision, Item, require_item_id
from knowledge.items.session import Session
from knowledge.items.transactions import ItemTransactions
from spot_sdk.errors import Conflict, InvalidRequest, Problem

COLD_DAYS = 28
"""An item that nobody read or wrote for so long may be put before the gate."""

_SQL = {
    name: sql.SQL(text).format(
        columns=COLUMNS,
        links=LINKS,
        candidate=sql.SQL(
            "tier = 'short-term' AND effective_access_at <= now() - make_interval(days => %(cold_days)s) "
            "AND (gate_state <> 'declined' OR effective_access_at > gate_decided_at)"
        ),
    )
    for name, text in load_statements(Path(__file__).with_name("gate.sql")).items()
}


class Gate:
    """Candidates are short-term items that are cold for 28 days, the declined ones once they were used again since."""

    def __init__(self, transactions: ItemTransactions) -> None:
        self._transactions = transactions

    def candidates(self, session: Session, limit: int = 100) -> list[Item]:
        """Up to ``limit`` items before the gate that the session sees, coldest first. No access."""
        parameters = {"scope": session.compartments, "cold_days": COLD_DAYS, "limit": limit}
        return self._transactions.read(
            session, lambda transaction: [as_item(row) for row in transaction.execute(_SQL["candidates"], parameters)]
        )

    def decide(self, item_id: str, decision: Decision, session: Session) -> Item:
        """Admit a candidate to long-term, or decline it: then it stays short-term. Either is in provenance.

        Raises NotFound for what the session does not see, Conflict for what is no candidate.
        """
        require_item_id(item_id)
        if decision not in get_args(Decision):
            message = "must be admit or decline"
            raise InvalidRequest(f"decision: {message}", problems=[Problem(field="decision", message=message)])
        parameters = {"id": item_id, "scope": session.compartments, "cold_days": COLD_DAYS}

        def work(transaction: Transaction) -> Item:
            item = find_item(transaction, item_id, session)
            if transaction.execute(_SQL[decision], parameters).rowcount == 0:
                raise Conflict(
                    f"the item is {item.tier}; candidates are short-term items that are cold for {COLD_DAYS} days"
                )
            return find_item(transaction, item_id, session)

        return self._transactions.write(session, work)
