"""What operators see of the Knowledge Layer: where items lie, what they are, one of them whole. Nothing is written."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel


class CompartmentCount(BaseModel):
    """A compartment that operators see, and how many items are in it. No link crosses the edge of a firewall."""

    id: str
    is_firewall: bool
    items: int


class ItemSummary(BaseModel):
    """An item without its body. The scores are of a search, and None in a list of the working set."""

    id: str
    type: str
    title: str
    summary: str
    compartment: str
    tier: str
    tags: list[str]
    domain_at: datetime | None
    updated_at: datetime
    version: int
    lexical_score: float | None = None
    semantic_score: float | None = None


class ItemList(BaseModel):
    """Answer of ``GET /api/v1/knowledge-layer/items``: the compartments in sight, and items of them."""

    compartments: list[CompartmentCount]
    items: list[ItemSummary]


class ItemLink(BaseModel):
    to: str
    relation: str
    to_version: int | None = None


class WholeItem(ItemSummary):
    """Answer of ``GET /api/v1/knowledge-layer/item``, which is recorded as an access."""

    body: Any
    body_ref: str | None
    gate_state: str
    links: list[ItemLink]
    created_at: datetime
    last_accessed_at: datetime | None
