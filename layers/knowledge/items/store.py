"""Items in PostgreSQL: stored, superseded, read, linked, promoted (``store.sql``, beside it)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from psycopg import sql

from knowledge.db.connection import Transaction
from knowledge.db.statements import load_statements
from knowledge.items.fragments import COLUMNS, LINKS, as_item, find_item, not_found
from knowledge.items.model import (
    SUPERSEDES,
    Item,
    ItemDraft,
    ItemVersion,
    LinkDraft,
    require_item_id,
    require_relation,
)
from knowledge.items.session import Session
from knowledge.items.transactions import ItemTransactions
from spot_sdk.errors import Conflict, InvalidItem, InvalidRequest, Problem

_SQL = {
    name: sql.SQL(text).format(columns=COLUMNS, links=LINKS) if "{columns}" in text else sql.SQL(text)
    for name, text in load_statements(Path(__file__).with_name("store.sql")).items()
}


class WorkingItem(NamedTuple):
    """An item of the working set; in the ring when it was accessed or written within seven days."""

    item: Item
    freshness_ring: bool


def _new_id() -> str:
    return uuid.uuid4().hex


class ItemStore:
    """Reads and writes items for a session; each method is one transaction.

    What a session does not see is absent to it: every statement holds its scope. All raise what
    ``ItemTransactions`` says, NotFound as ``not_found`` gives it, and InvalidRequest for an argument that cannot be
    right; after any of them the store goes on as before.
    """

    def __init__(self, transactions: ItemTransactions, *, new_id: Callable[[], str] = _new_id) -> None:
        self._transactions = transactions
        self._new_id = new_id

    def store(
        self, draft: ItemDraft, session: Session, *, supersedes: str | None = None, expected_version: int | None = None
    ) -> Item:
        """Create an item, or supersede the one of the draft's id: the version before is kept, and linked to.

        An id that the session does not see is not found, so that creating tells nothing of what is hidden; only a
        session that sees everything creates under an id of its choice. ``supersedes`` names another item that this one
        takes the place of. Links are added; none is removed.

        Raises Forbidden for a compartment outside the scope, InvalidItem for one that is not there, FirewallCrossed,
        and Conflict when ``expected_version`` is not the present one, when the id was deleted, or when an item would
        come to long-term past the gate.
        """
        session.require(draft.compartment)
        links = [*draft.links]
        if supersedes is not None:
            links.append(LinkDraft(to=require_item_id(supersedes), relation=SUPERSEDES))
        item_id = self._new_id() if draft.id is None else draft.id
        if any(link.to == item_id for link in links):
            raise InvalidItem("an item cannot link to itself", problems=[Problem(field="links", message="to itself")])

        def work(transaction: Transaction) -> Item:
            self._require_compartment(transaction, draft.compartment)
            values = _values(draft) | {"id": item_id, "scope": session.compartments}
            held = None if draft.id is None else transaction.execute(_SQL["hold"], values).fetchone()
            if held is None and draft.id is not None and session.scope is not None:
                raise not_found()
            version = 0 if held is None else held["version"]
            if expected_version is not None and expected_version != version:
                raise Conflict(f"the item is at version {version}, not {expected_version}")
            transaction.execute(_SQL["create" if held is None else "supersede"], values)
            self._link(transaction, item_id, links, session)
            return find_item(transaction, item_id, session)

        return self._transactions.write(session, work)

    def get(self, item_id: str, session: Session) -> Item:
        """An item in full. This is an access: it is recorded, and moves ``last_accessed_at``."""
        parameters = {"id": require_item_id(item_id), "scope": session.compartments}

        def work(transaction: Transaction) -> Item:
            row = transaction.execute(_SQL["get"], parameters).fetchone()
            if row is None:
                raise not_found()
            return as_item(row)

        return self._transactions.read(session, work)

    def look(self, ids: Sequence[str], session: Session) -> list[Item]:
        """Those of these items that the session sees, in id order. No access: for machinery, not for agents."""
        parameters = {"ids": list(ids), "scope": session.compartments}
        return self._transactions.read(
            session, lambda transaction: [as_item(row) for row in transaction.execute(_SQL["look"], parameters)]
        )

    def link(self, from_id: str, to_id: str, relation: str, session: Session) -> Item:
        """Link two items that the session sees; returns the first. Again is no change. Raises FirewallCrossed."""
        link = LinkDraft(to=require_item_id(to_id), relation=require_relation(relation))
        if require_item_id(from_id) == to_id:
            raise InvalidRequest("an item cannot link to itself")

        def work(transaction: Transaction) -> Item:
            item = find_item(transaction, from_id, session)
            self._link(transaction, item.id, [link], session)
            return find_item(transaction, from_id, session)

        return self._transactions.write(session, work)

    def promote(self, item_id: str, session: Session) -> Item:
        """Bring an item north to working, its access clock reset to now; it has the gate before it again."""
        parameters = {"id": require_item_id(item_id), "scope": session.compartments}

        def work(transaction: Transaction) -> Item:
            if transaction.execute(_SQL["promote"], parameters).rowcount == 0:
                raise not_found()
            return find_item(transaction, item_id, session)

        return self._transactions.write(session, work)

    def working(self, session: Session) -> list[WorkingItem]:
        """The working set in the session's scope, most recently accessed or written first. No access."""

        def work(transaction: Transaction) -> list[WorkingItem]:
            rows = transaction.execute(_SQL["working"], {"scope": session.compartments}).fetchall()
            return [WorkingItem(as_item(row), row["freshness_ring"]) for row in rows]

        return self._transactions.read(session, work)

    def versions(self, item_id: str, session: Session) -> list[ItemVersion]:
        """What an item was before each update, oldest first, as far as the session sees where it was then."""
        parameters = {"id": require_item_id(item_id), "scope": session.compartments}

        def work(transaction: Transaction) -> list[ItemVersion]:
            find_item(transaction, item_id, session)
            return [ItemVersion(**row) for row in transaction.execute(_SQL["versions"], parameters)]

        return self._transactions.read(session, work)

    def _require_compartment(self, transaction: Transaction, compartment: str) -> None:
        row = transaction.execute(_SQL["has_compartment"], {"compartment": compartment}).fetchone()
        if row is None or not row["found"]:
            message = f"there is no compartment {compartment}"
            raise InvalidItem(message, problems=[Problem(field="compartment", message=message)])

    def _link(self, transaction: Transaction, item_id: str, links: Sequence[LinkDraft], session: Session) -> None:
        targets = {link.to for link in links}
        if not targets:
            return
        seen = transaction.execute(_SQL["visible"], {"ids": list(targets), "scope": session.compartments}).fetchall()
        if len(seen) != len(targets):
            raise not_found()
        transaction.execute(
            _SQL["link"],
            {"id": item_id, "to_ids": [link.to for link in links], "relations": [link.relation for link in links]},
        )


def _values(draft: ItemDraft) -> dict[str, Any]:
    body = None if draft.body is None else json.dumps(draft.body, ensure_ascii=False)
    return draft.model_dump(exclude={"id", "links"}) | {"body": body}
