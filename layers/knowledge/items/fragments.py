"""What several statements about items say alike: the columns of an item, its links, and what a session sees."""

from __future__ import annotations

from typing import Any

from psycopg import sql

from knowledge.items.model import Item

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


def as_item(row: dict[str, Any]) -> Item:
    """The item that a row of ``COLUMNS`` and ``links`` is; other columns are left alone."""
    return Item.model_validate(row)
