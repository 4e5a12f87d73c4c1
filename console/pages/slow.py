"""Queries that took long, and where their time went."""

from __future__ import annotations

from console.rendering import page
from console.visit import Answer, Visit


def show(visit: Visit) -> Answer:
    slow = visit.ask(lambda store: store.operators.slow_queries())
    return page("slow.html", visit=visit, slow=slow)
