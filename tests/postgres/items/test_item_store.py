"""Items are stored, superseded, read, linked and promoted; what is refused is refused typed and harms nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from knowledge.items.model import Link, LinkDraft
from knowledge.items.session import AgentClass, Session
from knowledge.items.store import ItemStore
from spot_sdk.errors import Conflict, FirewallCrossed, Forbidden, InvalidItem, InvalidRequest, NotFound
from tests.postgres.items.conftest import HOME, OWNER, WORK_ONLY, draft


def test_an_item_comes_back_as_it_was_stored(items: ItemStore) -> None:
    due = datetime(2027, 1, 5, 9, tzinfo=UTC)
    stored = items.store(
        draft(
            type="commitment",
            summary="of the shed",
            body={"with": ["Ann", {"n": 2.5, "ok": True}]},
            tags=["garden"],
            domain_at=due.isoformat(),
        ),
        HOME,
    )
    found = items.get(stored.id, HOME)
    assert (found.type, found.title, found.summary, found.compartment) == ("commitment", "Keys", "of the shed", "home")
    assert found.body == {"with": ["Ann", {"n": 2.5, "ok": True}]}
    assert (found.tags, found.links, found.version) == (["garden"], [], 1)
    assert (found.tier, found.gate_state, found.domain_at) == ("working", "none", due)


def test_a_get_is_an_access(items: ItemStore, database_url: str) -> None:
    stored = items.store(draft(), HOME)
    assert stored.last_accessed_at is None
    accessed_at = items.get(stored.id, HOME).last_accessed_at
    assert accessed_at is not None
    assert items.get(stored.id, HOME).last_accessed_at > accessed_at  # type: ignore[operator]
    with psycopg.connect(database_url) as connection:
        connection.execute("SET ROLE knowledge_layer_app")
        rows = connection.execute("SELECT item_id, actor, actor_class FROM knowledge_layer.access_events").fetchall()
    assert rows == [(stored.id, "muse", "fleet")] * 2


def test_an_update_supersedes_and_keeps_what_was(items: ItemStore) -> None:
    first = items.store(draft("Keys", tags=["old"]), HOME)
    second = items.store(draft("Keys moved", id=first.id, body="under the mat"), HOME)
    assert (second.id, second.version, second.title, second.tags) == (first.id, 2, "Keys moved", [])
    assert second.links == [Link(to=first.id, relation="supersedes", to_version=1)]
    assert second.created_at == first.created_at
    assert second.updated_at > first.updated_at
    (before,) = items.versions(first.id, HOME)
    assert (before.version, before.title, before.tags, before.body) == (1, "Keys", ["old"], {"text": "a body"})
    assert (before.written_at, before.superseded_at) == (first.updated_at, second.updated_at)


def test_a_new_item_may_supersede_another_one(items: ItemStore) -> None:
    old = items.store(draft("Plan A"), HOME)
    new = items.store(draft("Plan B"), HOME, supersedes=old.id)
    assert new.links == [Link(to=old.id, relation="supersedes")]
    assert items.get(old.id, HOME).title == "Plan A"


def test_of_two_updates_from_one_version_the_second_is_told(items: ItemStore) -> None:
    item = items.store(draft(), HOME)
    items.store(draft("mine", id=item.id), HOME, expected_version=1)
    with pytest.raises(Conflict, match="version 2, not 1"):
        items.store(draft("yours", id=item.id), HOME, expected_version=1)
    assert items.get(item.id, HOME).title == "mine"


def test_absent_and_hidden_are_answered_alike(items: ItemStore) -> None:
    hidden = items.store(draft(), HOME)
    visible = items.store(draft(compartment="work"), WORK_ONLY)

    def answers(item_id: str) -> list[tuple[type[BaseException], str]]:
        attempts = (
            lambda: items.get(item_id, WORK_ONLY),
            lambda: items.promote(item_id, WORK_ONLY),
            lambda: items.versions(item_id, WORK_ONLY),
            lambda: items.link(item_id, visible.id, "about", WORK_ONLY),
            lambda: items.link(visible.id, item_id, "about", WORK_ONLY),
            lambda: items.store(draft(id=item_id, compartment="work"), WORK_ONLY),
            lambda: items.store(draft(compartment="work", links=[{"to": item_id, "relation": "about"}]), WORK_ONLY),
            lambda: items.store(draft(compartment="work"), WORK_ONLY, supersedes=item_id),
        )
        found: list[tuple[type[BaseException], str]] = []
        for attempt in attempts:
            with pytest.raises(NotFound) as refused:
                attempt()
            found.append((type(refused.value), str(refused.value)))
        return found

    assert answers(hidden.id) == answers("f" * 32)
    assert items.look([hidden.id], WORK_ONLY) == []


def test_links_to_what_is_hidden_are_not_shown(items: ItemStore) -> None:
    hidden = items.store(draft(), HOME)
    item = items.store(draft(compartment="work", links=[{"to": hidden.id, "relation": "about"}]), HOME)
    assert items.get(item.id, WORK_ONLY).links == []
    assert items.get(item.id, HOME).links == [Link(to=hidden.id, relation="about")]


def test_versions_of_a_time_out_of_sight_are_not_shown(items: ItemStore) -> None:
    item = items.store(draft("private"), HOME)
    items.store(draft("public", id=item.id, compartment="work"), HOME)
    assert items.versions(item.id, WORK_ONLY) == []
    assert [version.title for version in items.versions(item.id, HOME)] == ["private"]


def test_storing_outside_the_scope_is_forbidden(items: ItemStore) -> None:
    for compartment in ("home", "never-made"):
        with pytest.raises(Forbidden, match="no grant for the compartment"):
            items.store(draft(compartment=compartment), WORK_ONLY)


def test_a_compartment_must_be_there(items: ItemStore) -> None:
    with pytest.raises(InvalidItem, match="no compartment attic") as refused:
        items.store(draft(compartment="attic"), OWNER)
    assert refused.value.problems[0].field == "compartment"


@pytest.mark.parametrize("other", ["home", "work"])
@pytest.mark.parametrize("outward", [True, False])
def test_no_link_crosses_the_divorce_boundary(items: ItemStore, other: str, outward: bool) -> None:
    inside = items.store(draft(compartment="divorce"), OWNER)
    outside = items.store(draft(compartment=other), OWNER)
    from_id, to_id = (inside.id, outside.id) if outward else (outside.id, inside.id)
    with pytest.raises(FirewallCrossed):
        items.link(from_id, to_id, "about", OWNER)
    with pytest.raises(FirewallCrossed):
        items.store(
            draft(compartment="divorce" if outward else other, links=[{"to": to_id, "relation": "about"}]), OWNER
        )
    assert items.get(from_id, OWNER).links == []


def test_within_the_firewall_items_are_linked(items: ItemStore) -> None:
    one, two = (items.store(draft(compartment="divorce"), OWNER) for _ in range(2))
    assert items.link(one.id, two.id, "about", OWNER).links == [Link(to=two.id, relation="about")]


def test_a_linked_item_does_not_move_across_the_firewall(items: ItemStore) -> None:
    target = items.store(draft(), OWNER)
    item = items.store(draft(links=[{"to": target.id, "relation": "about"}]), OWNER)
    for moved in (item, target):
        with pytest.raises(FirewallCrossed):
            items.store(draft(id=moved.id, compartment="divorce"), OWNER)
    alone = items.store(draft(), OWNER)
    assert items.store(draft(id=alone.id, compartment="divorce"), OWNER).compartment == "divorce"


def test_linking_again_changes_nothing(items: ItemStore) -> None:
    one, two = (items.store(draft(), HOME) for _ in range(2))
    once = items.link(one.id, two.id, "about", HOME)
    assert items.link(one.id, two.id, "about", HOME) == once
    assert items.store(draft(id=one.id, links=[{"to": two.id, "relation": "about"}]), HOME).links[0] == once.links[0]


def test_promotion_brings_to_working_and_resets_the_clock(items: ItemStore) -> None:
    item = items.store(draft(tier="archive"), HOME)
    promoted = items.promote(item.id, HOME)
    assert (promoted.tier, promoted.gate_state) == ("working", "none")
    assert promoted.last_accessed_at is not None
    assert promoted.last_accessed_at > item.updated_at
    assert promoted.updated_at == item.updated_at


def test_an_update_keeps_the_tier_unless_it_names_one(items: ItemStore) -> None:
    item = items.store(draft(tier="short-term"), HOME)
    assert items.store(draft("again", id=item.id), HOME).tier == "short-term"
    assert items.store(draft("again", id=item.id, tier="archive"), HOME).tier == "archive"


def test_an_update_does_not_go_past_the_gate(items: ItemStore) -> None:
    item = items.store(draft(tier="short-term"), HOME)
    with pytest.raises(Conflict, match="only the gate"):
        items.store(draft(id=item.id, tier="long-term"), HOME)


def test_the_working_set_tells_what_is_in_the_ring(items: ItemStore, superuser: psycopg.Connection) -> None:
    old, new = (items.store(draft(title), HOME) for title in ("old", "new"))
    items.store(draft(tier="archive"), HOME)
    items.store(draft(compartment="ledger"), OWNER)
    superuser.execute(
        "UPDATE knowledge_layer.items SET updated_at = updated_at - %s WHERE id = %s",
        (timedelta(days=7, seconds=1), old.id),
    )
    found = items.working(HOME)
    assert [(each.item.id, each.freshness_ring) for each in found] == [(new.id, True), (old.id, False)]
    assert found[0].item.last_accessed_at is None  # a brief is no access
    items.get(old.id, HOME)
    assert [each.freshness_ring for each in items.working(HOME)] == [True, True]


REFUSED: list[tuple[str, Any]] = [
    ("get a number", lambda items, item: items.get(7, HOME)),
    ("get a text that is no id", lambda items, item: items.get("'; DROP TABLE items; --", HOME)),
    ("get an id with a line break", lambda items, item: items.get("abc\n", HOME)),
    ("promote None", lambda items, item: items.promote(None, HOME)),
    ("link by something else", lambda items, item: items.link(item.id, item.id, "Über", HOME)),
    ("link to itself", lambda items, item: items.link(item.id, item.id, "about", HOME)),
    ("supersede a list", lambda items, item: items.store(draft(), HOME, supersedes=["x"])),
]


@pytest.mark.parametrize("attempt", [attempt for _, attempt in REFUSED], ids=[name for name, _ in REFUSED])
def test_a_mistyped_argument_is_refused_and_the_session_goes_on(items: ItemStore, attempt: Any) -> None:
    item = items.store(draft(), HOME)
    with pytest.raises(InvalidRequest):
        attempt(items, item)
    assert items.get(item.id, HOME).id == item.id


def test_after_every_refusal_of_the_database_the_session_goes_on(items: ItemStore) -> None:
    inside = items.store(draft(compartment="divorce"), OWNER)
    item = items.store(draft(tier="short-term"), OWNER)
    for attempt, refusal in (
        (lambda: items.link(item.id, inside.id, "about", OWNER), FirewallCrossed),
        (lambda: items.store(draft(id=item.id, tier="long-term"), OWNER), Conflict),
        (lambda: items.store(draft(compartment="attic"), OWNER), InvalidItem),
        (lambda: items.get("absent", OWNER), NotFound),
    ):
        with pytest.raises(refusal):
            attempt()
        assert items.get(item.id, OWNER).version == 1
    assert items.versions(item.id, OWNER) == []


def test_only_who_sees_everything_chooses_ids(items: ItemStore) -> None:
    assert items.store(draft(id="imported-1"), OWNER).id == "imported-1"
    with pytest.raises(NotFound):
        items.store(draft(id="imported-2"), HOME)
    link = LinkDraft(to="imported-1", relation="about")
    assert items.store(draft(links=[link.model_dump()]), HOME).links == [Link(to="imported-1", relation="about")]


def test_a_session_has_an_identity() -> None:
    with pytest.raises(InvalidRequest, match="identity"):
        Session(" ", AgentClass.FLEET)
