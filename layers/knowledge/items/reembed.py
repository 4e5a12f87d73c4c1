"""Another embedding model for the items, while agents read and write (``reembed.sql``, beside it).

    begin ──► fill, batch by batch ──► switch ──► drop the old vectors

The next model's vectors grow beside today's, which searches go on to read until the switch: one transaction, alone
with the writers, that changes the record of the model. A search reads one model's vectors or the other's, never both.
Killed at any point it is simply run again; ``abort`` before the switch leaves all as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from knowledge.db.connection import Transaction
from knowledge.db.statements import load_statements
from knowledge.items.embeddings import BATCH, embed, write_vectors
from knowledge.items.models import ItemModel, model_of
from knowledge.items.session import Session
from knowledge.items.transactions import ItemTransactions, Role
from spot_sdk.errors import Conflict, Forbidden

EMBEDDED_UNDER_LOCK = BATCH
"""So many items may be left for the switch, during which writers wait."""

_SQL = load_statements(Path(__file__).with_name("reembed.sql"))

Progress = Callable[[int, int], None]
"""Hears how many items have the next model's vectors, and how many there are."""


class ModelState(NamedTuple):
    """The model that items are searched by, and the one that they are being moved to (None: no change)."""

    current: ItemModel
    next: ItemModel | None


class ItemReembedding:
    """Changes of the items' model, for stewards that see everything (others get Forbidden)."""

    def __init__(self, transactions: ItemTransactions) -> None:
        self._transactions = transactions

    def state(self, session: Session) -> ModelState:
        """Where the items stand."""
        return self._transactions.read(session, lambda transaction: _state(transaction, "models"))

    def run(self, backend: str, session: Session, progress: Progress) -> bool:
        """Move the items to a backend's model, or go on with that; False when they have it already.

        Raises Conflict while a change to another model is under way, InvalidRequest for a backend that is not local.
        """
        _require_full_sight(session)
        model = model_of(backend)
        if not self._begin(model, session):
            return False
        self._fill(model, session, progress)
        while not self._switch(model, session):
            self._fill(model, session, progress)
        return True

    def abort(self, session: Session) -> None:
        """Give a change up that is not finished; raises Conflict when there is none."""
        _require_full_sight(session)

        def work(transaction: Transaction) -> None:
            if transaction.execute(_SQL["give_up"]).rowcount == 0:
                raise Conflict("no change of the items' model is under way")
            transaction.execute(_SQL["drop_old"])

        self._transactions.write(session, work, role=Role.STEWARD)

    def drop_old(self, session: Session) -> int:
        """Remove the vectors of models that items are neither searched by nor moved to; returns how many."""
        _require_full_sight(session)
        return self._transactions.read(session, lambda transaction: transaction.execute(_SQL["drop_old"]).rowcount)

    def _begin(self, model: ItemModel, session: Session) -> bool:
        def work(transaction: Transaction) -> bool:
            state = _state(transaction, "hold_models")
            if state.next is None and state.current == model:
                return False
            if state.next not in (None, model):
                raise Conflict(
                    f"a change to {state.next} is under way; finish it, or give it up with "
                    "`knowledge items reembed --abort`"
                )
            if state.next is None:
                transaction.execute(_SQL["begin"], model._asdict())
                transaction.execute(_SQL["make_index"], model._asdict())
            return True

        return self._transactions.write(session, work, role=Role.STEWARD)

    def _fill(self, model: ItemModel, session: Session, progress: Progress) -> None:
        counted = self._transactions.read(session, lambda transaction: _count(transaction, model))
        items, done = counted["items"], counted["done"]
        after = ""
        progress(done, items)
        while rows := self._transactions.read(session, lambda t, after=after: _pending(t, model, after, BATCH)):
            embedded = embed(model, rows)
            self._transactions.read(session, lambda t, e=embedded: write_vectors(t, model, e))
            done += len(rows)
            after = rows[-1]["id"]
            progress(done, max(items, done))

    def _switch(self, model: ItemModel, session: Session) -> bool:
        """False when too much was written meanwhile to be embedded while writers wait."""

        def work(transaction: Transaction) -> bool:
            state = _state(transaction, "hold_models")
            if state.next != model:
                raise Conflict("the change of model was aborted, or done by somebody else")
            rows = _pending(transaction, model, "", EMBEDDED_UNDER_LOCK + 1)
            if len(rows) > EMBEDDED_UNDER_LOCK:
                return False
            write_vectors(transaction, model, embed(model, rows))
            transaction.execute(_SQL["retire"])
            transaction.execute(_SQL["switch"])
            transaction.execute(_SQL["settle"], model._asdict())
            transaction.execute(_SQL["note"], {"before": str(state.current), "after": str(model)})
            return True

        return self._transactions.write(session, work, role=Role.STEWARD)


def _state(transaction: Transaction, statement: str) -> ModelState:
    rows = {row.pop("state"): ItemModel(**row) for row in transaction.execute(_SQL[statement])}
    return ModelState(rows["current"], rows.get("next"))


def _count(transaction: Transaction, model: ItemModel) -> dict[str, int]:
    return transaction.execute(_SQL["count"], model._asdict()).fetchone() or {"items": 0, "done": 0}


def _pending(transaction: Transaction, model: ItemModel, after: str, limit: int) -> list[dict[str, Any]]:
    parameters = model._asdict() | {"after": after, "limit": limit}
    return transaction.execute(_SQL["pending"], parameters).fetchall()


def _require_full_sight(session: Session) -> None:
    if session.scope is not None:
        raise Forbidden("the items' model is that of every compartment, and this session sees only some")
