"""What several statements about items say alike: the columns of an item, its links, and that there is none."""

from __future__ import annotations

from typing import Any

from psycopg import sql

from knowledge.db.connection import Transaction
from knowledge.items.model import Item
from knowledge.items.session import Session
from spot_sdk.errors import NotFound

COLUMNS = sql.SQL(
    "id, type, title, summary, body, body_ref, compartment, tier, gate_state, tags, version, created_at, updated_at, "
    "last_accessed_at, domain_at"
)
"""Every column of an ``Item`` but its links."""

LINKS = sql.SQL("""(
    SELECT coalesce(jsonb_agg(jsonb_build_object('to', link.to_id, 'relation', link.relation,
                                                 'to_version', link.to_version)
                              ORDER BY link.relation, link.to_id, link.to_version), '[]')
    FROM knowledge_layer.item_links AS link JOIN knowledge_layer.items AS target ON target.id = link.to_id
    WHERE link.from_id = item.id AND (%(scope)s::text[] IS NULL OR target.compartment = ANY (%(scope)s)))""")
"""The links of ``item`` whose other end the session sees, as JSON; needs the parameter ``scope``."""


_FIND = sql.SQL("""
    SELECT {columns}, {links} AS links FROM knowledge_layer.items AS item
    WHERE id = %(id)s AND (%(scope)s::text[] IS NULL OR compartment = ANY (%(scope)s))
""").format(columns=COLUMNS, links=LINKS)


def as_item(row: dict[str, Any]) -> Item:
    """The item that a row of ``COLUMNS`` and ``links`` is; other columns are left alone."""
    return Item.model_validate(row)


def find_item(transaction: Transaction, item_id: str, session: Session) -> Item:
    """An item that the session sees; no access. Raises NotFound as ``not_found`` gives it."""
    row = transaction.execute(_FIND, {"id": item_id, "scope": session.compartments}).fetchone()
    if row is None:
        raise not_found()
    return as_item(row)


def not_found() -> NotFound:
    """The one answer for what is absent and what is hidden: the same text, whatever was asked for."""
    return NotFound("there is no such item")
