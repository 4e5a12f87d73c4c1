"""Compartments: each item is in exactly one, and no link crosses the edge of one that has a firewall."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from knowledge.db.statements import load_statements
from knowledge.items.model import CompartmentId
from knowledge.items.session import Session
from knowledge.items.transactions import ItemTransactions, Role
from spot_sdk.errors import InvalidRequest

_SQL = load_statements(Path(__file__).with_name("compartments.sql"))
_ID: TypeAdapter[str] = TypeAdapter(CompartmentId)


class Compartment(NamedTuple):
    """A compartment, and how many items are in it."""

    id: str
    is_firewall: bool
    items: int


class Compartments:
    """Lists and adds compartments."""

    def __init__(self, transactions: ItemTransactions) -> None:
        self._transactions = transactions

    def list(self, session: Session) -> list[Compartment]:
        """Those that the session sees, by name."""
        return self._transactions.read(
            session,
            lambda transaction: [
                Compartment(**row) for row in transaction.execute(_SQL["list"], {"scope": session.compartments})
            ],
        )

    def add(self, compartment: str, session: Session, *, is_firewall: bool = False) -> None:
        """Add one, for stewards. Raises InvalidRequest for what is no name, Conflict when there is one already."""
        try:
            _ID.validate_python(compartment, strict=True)
        except ValidationError:
            raise InvalidRequest(
                "a compartment is named by small letters, digits, - and _, 63 at most, the first no sign"
            ) from None
        self._transactions.write(
            session,
            lambda transaction: transaction.execute(_SQL["add"], {"id": compartment, "is_firewall": is_firewall}),
            role=Role.STEWARD,
        )
