"""Operators look at items of the compartments that they were granted, and at nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from knowledge import wiring
from knowledge.items.model import ItemDraft
from knowledge.items.session import AgentClass, Session
from spot_sdk.access import IssueKey
from spot_sdk.client import KnowledgeClient
from spot_sdk.errors import Forbidden, NotFound
from spot_sdk.operators import OperatorClient
from tests.contract.conftest import KEY
from tests.contract.lambda_transport import LambdaTransport

pytestmark = pytest.mark.anyio

OWNER = Session("justine", AgentClass.OWNER)


def operator(key: str = KEY) -> OperatorClient:
    return OperatorClient("http://store.test/api/v1/knowledge", key, transport=LambdaTransport())


@pytest.fixture
def ids(store_client: Callable[..., KnowledgeClient], monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An item in each of three compartments, of which operators see two."""
    store_client()
    monkeypatch.setenv("CONSOLE_GRANTS", "home, work")
    layer = wiring.items()
    for compartment in ("home", "work", "ledger"):
        layer.compartments.add(compartment, OWNER)
    return {
        compartment: layer.store.store(
            ItemDraft(type="fact", title=f"The {compartment} boiler", body={"text": "hot"}, compartment=compartment),
            OWNER,
        ).id
        for compartment in ("home", "work", "ledger")
    }


async def test_the_working_set_of_the_compartments_in_sight_is_listed(ids: dict[str, str]) -> None:
    async with operator() as http:
        found = await http.items()
        of_one = await http.items(compartment="work")
    assert {item.id for item in found.items} == {ids["home"], ids["work"]}
    assert [(each.id, each.items) for each in found.compartments] == [("home", 1), ("work", 1)]
    assert [item.id for item in of_one.items] == [ids["work"]]
    assert [each.id for each in of_one.compartments] == ["home", "work"]


async def test_a_text_finds_with_both_scores_and_is_no_access(ids: dict[str, str]) -> None:
    async with operator() as http:
        found = (await http.items("boiler")).items
    assert {item.id for item in found} == {ids["home"], ids["work"]}
    assert all(item.lexical_score and item.semantic_score for item in found)
    assert all(item.last_accessed_at is None for item in wiring.items().store.look(list(ids.values()), OWNER))


async def test_reading_an_item_is_an_access_in_the_operators_name(ids: dict[str, str]) -> None:
    async with operator() as http:
        item = await http.item(ids["home"])
    assert (item.body, item.compartment, item.tier) == ({"text": "hot"}, "home", "working")
    assert wiring.items().store.look([ids["home"]], OWNER)[0].last_accessed_at is not None
    with wiring.database().snapshot() as snapshot, snapshot.transaction() as transaction:
        events = transaction.execute("SELECT item_id, actor FROM knowledge_layer.access_events").fetchall()
    assert events == [{"item_id": ids["home"], "actor": "operator"}]


async def test_what_is_elsewhere_is_as_good_as_absent(ids: dict[str, str]) -> None:
    async with operator() as http:
        with pytest.raises(NotFound) as hidden:
            await http.item(ids["ledger"])
        with pytest.raises(NotFound) as absent:
            await http.item("00000000-0000-0000-0000-000000000000")
        with pytest.raises(NotFound) as hidden_compartment:
            await http.items(compartment="ledger")
        with pytest.raises(NotFound) as absent_compartment:
            await http.items(compartment="nowhere")
    assert str(hidden.value) == str(absent.value)
    assert str(hidden_compartment.value) == str(absent_compartment.value)


async def test_without_grants_operators_see_nothing(ids: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONSOLE_GRANTS")
    wiring.reset()
    async with operator() as http:
        with pytest.raises(NotFound, match="CONSOLE_GRANTS"):
            await http.items()
        with pytest.raises(NotFound, match="CONSOLE_GRANTS"):
            await http.item(ids["home"])


async def test_providers_and_readers_see_no_items(ids: dict[str, str]) -> None:
    async with operator() as http:
        reader = (await http.issue_key(IssueKey(name="reader", role="reader"))).key
    async with operator(reader) as http:
        with pytest.raises(Forbidden):
            await http.items()
        with pytest.raises(Forbidden):
            await http.item(ids["home"])
