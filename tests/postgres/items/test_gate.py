"""Short-term items that went cold stand before the gate; who is let through, and who is not, is in provenance."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from knowledge.items.layer import KnowledgeLayer
from knowledge.items.model import Decision, Item
from spot_sdk.errors import Conflict, InvalidRequest, NotFound
from tests.postgres.items.conftest import HOME, OWNER, WORK_ONLY, draft


def age(superuser: psycopg.Connection, item: Item, days: float) -> None:
    """Let an item be as if nobody had read or written it for some days more; that itself is not recorded."""
    with superuser.transaction():
        superuser.execute("ALTER TABLE knowledge_layer.items DISABLE TRIGGER follow_change")
        superuser.execute(
            """UPDATE knowledge_layer.items
               SET updated_at = updated_at - %(d)s, last_accessed_at = last_accessed_at - %(d)s,
                   gate_decided_at = gate_decided_at - %(d)s WHERE id = %(id)s""",
            {"d": timedelta(days=days), "id": item.id},
        )
        superuser.execute("ALTER TABLE knowledge_layer.items ENABLE ALWAYS TRIGGER follow_change")


def ids(items: list[Item]) -> list[str]:
    return [item.id for item in items]


def test_candidates_are_short_term_items_cold_for_28_days(layer: KnowledgeLayer, superuser: psycopg.Connection) -> None:
    items = {
        (tier, days): layer.store.store(draft(f"{tier} {days}", tier=tier), HOME)
        for tier in ("working", "short-term", "long-term", "archive")
        for days in (27.99, 28, 40)
    }
    for (_, days), item in items.items():
        age(superuser, item, days)
    assert ids(layer.gate.candidates(HOME)) == [items["short-term", 40].id, items["short-term", 28].id]
    assert ids(layer.gate.candidates(HOME, limit=1)) == [items["short-term", 40].id]
    assert layer.gate.candidates(WORK_ONLY) == []
    layer.store.get(items["short-term", 40].id, HOME)
    assert ids(layer.gate.candidates(HOME)) == [items["short-term", 28].id]


@pytest.mark.parametrize(
    ("decision", "tier", "state"), [("admit", "long-term", "admitted"), ("decline", "short-term", "declined")]
)
def test_a_decision_is_in_provenance(
    layer: KnowledgeLayer, superuser: psycopg.Connection, decision: Decision, tier: str, state: str
) -> None:
    item = layer.store.store(draft(tier="short-term"), HOME)
    age(superuser, item, 28)
    decided = layer.gate.decide(item.id, decision, HOME)
    assert (decided.tier, decided.gate_state, decided.last_accessed_at) == (tier, state, None)
    assert layer.gate.candidates(HOME) == []
    *_, event = layer.provenance.events(OWNER)
    assert (event.event, event.item_id, event.actor) == (f"gate_{state}", item.id, "muse")
    assert event.detail["before"] == {"tier": "short-term", "gate_state": "none"}
    assert (event.detail["tier"], event.detail["gate_state"]) == (tier, state)
    assert layer.provenance.verify(OWNER).findings == []


def test_what_was_declined_comes_again_once_it_was_used_and_went_cold(
    layer: KnowledgeLayer, superuser: psycopg.Connection
) -> None:
    item = layer.store.store(draft(tier="short-term"), HOME)
    age(superuser, item, 28)
    layer.gate.decide(item.id, "decline", HOME)
    age(superuser, item, 100)
    assert layer.gate.candidates(HOME) == []
    layer.store.get(item.id, HOME)
    age(superuser, item, 28)
    assert ids(layer.gate.candidates(HOME)) == [item.id]
    layer.gate.decide(item.id, "decline", HOME)
    events = [event.event for event in layer.provenance.events(OWNER)]
    assert events == ["created", "gate_declined", "gate_declined"]


@pytest.mark.parametrize("tier", ["working", "long-term", "archive", "short-term"])
def test_what_is_no_candidate_is_not_decided(layer: KnowledgeLayer, superuser: psycopg.Connection, tier: str) -> None:
    item = layer.store.store(draft(tier=tier), HOME)
    age(superuser, item, 0 if tier == "short-term" else 100)
    with pytest.raises(Conflict, match=f"the item is {tier}"):
        layer.gate.decide(item.id, "admit", HOME)
    assert layer.store.get(item.id, HOME).tier == tier


def test_hidden_and_absent_are_answered_alike(layer: KnowledgeLayer) -> None:
    item = layer.store.store(draft(tier="short-term"), HOME)
    answers = set[str]()
    for item_id in (item.id, "absent"):
        with pytest.raises(NotFound) as refused:
            layer.gate.decide(item_id, "admit", WORK_ONLY)
        answers.add(str(refused.value))
    assert len(answers) == 1


def test_there_are_two_decisions(layer: KnowledgeLayer) -> None:
    item = layer.store.store(draft(tier="short-term"), HOME)
    with pytest.raises(InvalidRequest, match="admit or decline"):
        layer.gate.decide(item.id, "create", HOME)  # type: ignore[arg-type]


def test_promotion_puts_the_gate_before_an_admitted_item_again(
    layer: KnowledgeLayer, superuser: psycopg.Connection
) -> None:
    item = layer.store.store(draft(tier="short-term"), HOME)
    age(superuser, item, 28)
    layer.gate.decide(item.id, "admit", HOME)
    assert layer.store.promote(item.id, HOME).gate_state == "none"
    with pytest.raises(Conflict, match="only the gate"):
        layer.store.store(draft(id=item.id, tier="long-term"), HOME)
    layer.store.promote(item.id, HOME)  # again: working already, and recorded all the same
    events = [event.event for event in layer.provenance.events(OWNER)]
    assert events == ["created", "gate_admitted", "promoted", "promoted"]
