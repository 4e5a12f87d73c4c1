"""Items of the Knowledge Layer, read only, in the compartments that operators see."""

from __future__ import annotations

from console.rendering import page
from console.visit import Answer, Visit
from spot_sdk.errors import NotFound


def show(visit: Visit) -> Answer:
    """What a text finds, or the working set; where operators see no items, how that is changed."""
    text, compartment = visit.query.get("text", ""), visit.query.get("compartment", "")
    try:
        found = visit.ask(lambda store: store.operators.items(text, compartment))
    except NotFound:
        if compartment:
            raise
        found = None
    return page("items.html", visit=visit, found=found, text=text, compartment=compartment)


def show_one(visit: Visit) -> Answer:
    """One item in full. That it was read is recorded."""
    item = visit.ask(lambda store: store.operators.item(visit.query.get("id", "")))
    return page("item.html", visit=visit, item=item)
