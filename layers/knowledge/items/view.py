"""What operators see of the items, over HTTP: some compartments, read only."""

from __future__ import annotations

from collections.abc import Iterable

from knowledge.items.layer import KnowledgeLayer
from knowledge.items.session import AgentClass, Session
from spot_sdk.errors import NotFound
from spot_sdk.items import CompartmentCount, ItemList, ItemSummary, WholeItem

IDENTITY = "operator"
"""Who is in the access events of what is read here."""

_LISTED = 50


class ItemsView:
    """The items of the compartments that operators were granted, to a session that cannot write."""

    def __init__(self, layer: KnowledgeLayer, compartments: Iterable[str]) -> None:
        self._layer = layer
        self._session = Session(IDENTITY, AgentClass.EXTERNAL, frozenset(compartments))

    def list(self, text: str = "", compartment: str = "") -> ItemList:
        """Up to fifty: what ``text`` finds, best first, or else the working set. No access.

        Raises NotFound where operators were granted no compartment, or not this one.
        """
        scope = self._scope(compartment)
        session = Session(IDENTITY, AgentClass.EXTERNAL, scope)
        if text.strip():
            hits = self._layer.search.search(text, sorted(scope), session, limit=_LISTED)
            items = [ItemSummary(**hit._asdict()) for hit in hits]
        else:
            working = self._layer.store.working(session)[:_LISTED]
            items = [ItemSummary(**each.item.model_dump(include=set(ItemSummary.model_fields))) for each in working]
        counts = [CompartmentCount(**each._asdict()) for each in self._layer.compartments.list(self._session)]
        return ItemList(compartments=counts, items=items)

    def read(self, item_id: str) -> WholeItem:
        """One item in full, which is an access. Raises NotFound, also for what is elsewhere."""
        self._scope("")
        return WholeItem(**self._layer.store.get(item_id, self._session).model_dump())

    def _scope(self, compartment: str) -> frozenset[str]:
        granted = self._session.scope or frozenset()
        if not granted:
            raise NotFound("operators see no items here: CONSOLE_GRANTS names no compartment")
        if compartment and compartment not in granted:
            raise NotFound("operators see no such compartment")
        return frozenset({compartment}) if compartment else granted
