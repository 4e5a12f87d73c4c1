"""A small estate to try the tools on: somebody's home, work and a little beyond a firewall. All of it is made up."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from knowledge.items.layer import KnowledgeLayer
from knowledge.items.model import ItemDraft
from knowledge.items.session import AgentClass, Session

IDENTITY = "demo"
COMPARTMENTS = ("home", "work")
SESSION = Session(IDENTITY, AgentClass.OWNER, frozenset({*COMPARTMENTS, "divorce"}))

_OWNER = Session(IDENTITY, AgentClass.OWNER)


def fill(layer: KnowledgeLayer, now: datetime | None = None) -> int:
    """Make compartments and items where there are none of the demonstration's yet; returns how many items were made."""
    there = {compartment.id: compartment.items for compartment in layer.compartments.list(_OWNER)}
    for name in COMPARTMENTS:
        if name not in there:
            layer.compartments.add(name, _OWNER)
    if any(there.get(name) for name in COMPARTMENTS):
        return 0
    drafts = [ItemDraft.parse(fields) for fields in _items(now or datetime.now(UTC))]
    for draft in drafts:
        layer.store.store(draft, _OWNER)
    return len(drafts)


def _items(now: datetime) -> list[dict[str, Any]]:
    def day(offset: int) -> datetime:
        return (now + timedelta(days=offset)).replace(hour=12, minute=0, second=0, microsecond=0)

    def item(type_: str, compartment: str, title: str, text: str, **more: Any) -> dict[str, Any]:
        return {"type": type_, "compartment": compartment, "title": title, "body": {"text": text}} | more

    return [
        item(
            "fact",
            "home",
            "Where the water is turned off",
            "The stopcock is behind the washing machine. A quarter turn to the right shuts the whole house.",
            id="demo:stopcock",
            tags=["house"],
        ),
        item(
            "commitment",
            "home",
            "Boiler service",
            "The engineer of Northgate Heating comes between nine and twelve; somebody has to be in.",
            domain_at=day(1),
            tags=["house"],
        ),
        item(
            "preference",
            "home",
            "How birthdays are kept",
            "No surprise parties. Dinner for four is the upper limit, and the cake is carrot.",
        ),
        item(
            "person",
            "home",
            "Ilse, next door",
            "Has a key of ours, waters the plants, is allergic to walnuts.",
            tags=["neighbours"],
        ),
        item(
            "episode",
            "home",
            "The cellar was flooded",
            "A storm brought eleven centimetres of water. The pump was lent by Ilse; the insurance paid in six weeks.",
            domain_at=day(-200),
            tags=["house"],
            links=[{"to": "demo:stopcock", "relation": "mentions"}],
        ),
        item(
            "project",
            "work",
            "Moving the archive",
            "Two hundred boxes go to the depot in Marsh Lane. Sorting is done, labels are printed, the van is booked.",
            id="demo:archive",
            domain_at=day(-9),
        ),
        item(
            "decision",
            "work",
            "The archive keeps ten years",
            "Older boxes are destroyed after the finance lead has signed for each.",
            links=[{"to": "demo:archive", "relation": "decided_in"}],
        ),
        item(
            "commitment",
            "work",
            "Send the label list to the depot",
            "As a table, box number first. Promised to Oumar on the phone.",
            domain_at=day(2),
            links=[{"to": "demo:archive", "relation": "part_of"}],
        ),
        item(
            "document",
            "work",
            "Depot price list",
            "0.40 a box and month, 12.00 a retrieval, free above fifty retrievals a year.",
            tags=["prices"],
        ),
        item(
            "preference",
            "work",
            "When meetings may be",
            "Never before ten, never on Friday afternoons; by phone rather than by video.",
        ),
        item(
            "fact",
            "divorce",
            "Counsel",
            "The lawyer's office answers letters within three days, and calls never.",
        ),
    ]
