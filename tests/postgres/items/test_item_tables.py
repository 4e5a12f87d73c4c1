"""What the tables themselves hold to, whoever writes: checks, firewall, versions, and two writers at once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import LiteralString

import psycopg
import pytest

from knowledge.db.connection import Database
from knowledge.items.layer import KnowledgeLayer
from knowledge.items.store import ItemStore
from tests.postgres.items.conftest import HOME, OWNER, Login, draft

INSERT: LiteralString = """
    INSERT INTO knowledge_layer.items (id, type, title, body, body_ref, compartment, tier, gate_state, version)
    VALUES (%(id)s, %(type)s, %(title)s, %(body)s, %(body_ref)s, %(compartment)s, %(tier)s, %(gate_state)s, %(version)s)
"""
GOOD = {
    "id": "a",
    "type": "fact",
    "title": "t",
    "body": "1",
    "body_ref": None,
    "compartment": "home",
    "tier": "working",
    "gate_state": "none",
    "version": 1,
}


@pytest.fixture
def agent(layer: KnowledgeLayer, login: Login) -> Iterator[psycopg.Connection]:
    """An agent's login, with statements of its own."""
    with psycopg.connect(login("knowledge_layer_app"), autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize(
    ("field", "value", "sqlstate"),
    [
        ("type", "note", "23514"),
        ("tier", "hot", "23514"),
        ("gate_state", "open", "23514"),
        ("title", "", "23514"),
        ("id", "a b", "23514"),
        ("version", 0, "23514"),
        ("body", None, "23514"),
        ("body_ref", "s3://x", "23514"),
        ("compartment", "attic", "23503"),
        ("compartment", None, "23502"),
    ],
)
def test_the_envelope_is_checked_by_the_database_too(
    agent: psycopg.Connection, field: str, value: object, sqlstate: str
) -> None:
    with pytest.raises(psycopg.Error) as refused:
        agent.execute(INSERT, GOOD | {field: value})
    assert refused.value.sqlstate == sqlstate
    agent.execute(INSERT, GOOD)


def test_content_does_not_change_without_a_version(agent: psycopg.Connection) -> None:
    agent.execute(INSERT, GOOD)
    for change in ("title = 'x'", "body = '2'", "tags = '{x}'", "version = 3", "version = 1, summary = 'x'"):
        with pytest.raises(psycopg.Error) as refused:
            agent.execute(f"UPDATE knowledge_layer.items SET {change}")  # type: ignore[arg-type]
        assert refused.value.sqlstate == "KL005"


def test_the_gate_is_the_databases_too(agent: psycopg.Connection) -> None:
    agent.execute(INSERT, GOOD | {"tier": "short-term"})
    with pytest.raises(psycopg.Error) as refused:
        agent.execute("UPDATE knowledge_layer.items SET tier = 'long-term'")
    assert refused.value.sqlstate == "KL003"


def test_a_firewall_is_not_put_up_across_links(items: ItemStore, superuser: psycopg.Connection) -> None:
    inside = items.store(draft(compartment="work"), OWNER)
    items.store(draft(links=[{"to": inside.id, "relation": "about"}]), OWNER)
    for name in ("home", "work"):
        with pytest.raises(psycopg.Error) as refused:
            superuser.execute("UPDATE knowledge_layer.compartments SET is_firewall = true WHERE id = %s", (name,))
        assert refused.value.sqlstate == "KL001"
    superuser.execute("UPDATE knowledge_layer.compartments SET is_firewall = true WHERE id = 'ledger'")


LINK: LiteralString = "INSERT INTO knowledge_layer.item_links (from_id, to_id, relation) VALUES ('a', 'b', 'about')"
MOVE: LiteralString = "UPDATE knowledge_layer.items SET compartment = 'divorce', version = version + 1 WHERE id = 'b'"


@pytest.mark.parametrize(("first", "second"), [(LINK, MOVE), (MOVE, LINK)], ids=["link, then move", "move, then link"])
def test_two_at_once_do_not_get_a_link_across(
    items: ItemStore, login: Login, superuser: psycopg.Connection, first: LiteralString, second: LiteralString
) -> None:
    for name in ("a", "b"):
        items.store(draft(id=name), OWNER)
    url = login("knowledge_layer_app")
    with psycopg.connect(url) as one, psycopg.connect(url, autocommit=True) as two, ThreadPoolExecutor(1) as pool:
        one.execute(first)
        waiting = pool.submit(two.execute, second)
        wait_until_blocked(superuser, two.info.backend_pid, waiting)
        one.commit()
        with pytest.raises(psycopg.Error) as refused:
            waiting.result(timeout=30)
    assert refused.value.sqlstate == "KL001"


def wait_until_blocked(superuser: psycopg.Connection, pid: int, waiting: Future[object]) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until and not waiting.done():
        row = superuser.execute("SELECT cardinality(pg_blocking_pids(%s))", (pid,)).fetchone()
        if row is not None and row[0]:
            return
    raise AssertionError("the second one did not wait for the first")


def test_two_servers_writing_one_item_at_once_lose_nothing(layer: KnowledgeLayer, database_url: str) -> None:
    item = layer.store.store(draft("0", body="start"), HOME)
    rounds = 15

    def write(server: str) -> None:
        database = Database(lambda: database_url)
        store = KnowledgeLayer.on(database).store
        for number in range(rounds):
            store.store(draft(f"{server} {number}", id=item.id, body=f"{server} {number}"), HOME)
            store.get(item.id, HOME)
        database.close()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, ["one", "two"]))
    now = layer.store.get(item.id, HOME)
    bodies = [version.body for version in layer.store.versions(item.id, HOME)] + [now.body]
    assert now.version == 2 * rounds + 1
    assert sorted(map(str, bodies)) == sorted(
        ["start", *(f"{name} {n}" for name in ("one", "two") for n in range(rounds))]
    )
    for name in ("one", "two"):
        assert [body for body in bodies if str(body).startswith(name)] == [f"{name} {n}" for n in range(rounds)]
    report = layer.provenance.verify(OWNER)
    assert (report.events, report.findings) == (2 * rounds + 1, [])


def test_words_of_title_summary_and_body_are_found(items: ItemStore, agent: psycopg.Connection) -> None:
    items.store(draft("Gardens", summary="of bees", body={"key": ["honey", {"amount": 12}]}), HOME)
    for word, is_there in (("garden", 1), ("bee", 1), ("honey", 1), ("12", 1), ("key", 0), ("wasp", 0)):
        row = agent.execute(
            "SELECT count(*) FROM knowledge_layer.items WHERE search_text @@ plainto_tsquery('english', %s)", (word,)
        ).fetchone()
        assert row == (is_there,), word


def test_a_text_beyond_what_a_tsvector_holds_is_stored_and_found_by_its_beginning(
    items: ItemStore, agent: psycopg.Connection
) -> None:
    words = " ".join(f"w{number:x}z" for number in range(110_000))
    items.store(draft(body=words), HOME)
    found = agent.execute("SELECT search_text @@ 'w1z'::tsquery FROM knowledge_layer.items").fetchone()
    assert found == (True,)


def test_a_get_writes_no_index(items: ItemStore, superuser: psycopg.Connection) -> None:
    """Its update stays in the item's page (HOT), and the words are not computed again."""
    item = items.store(draft(), HOME)
    for _ in range(3):
        items.get(item.id, HOME)
    superuser.execute("SELECT pg_stat_force_next_flush()")
    items.get(item.id, HOME)
    until = time.monotonic() + 30
    while time.monotonic() < until:
        row = superuser.execute(
            "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'items'"
        ).fetchone()
        if row is not None and row[0] >= 3:
            break
    assert row is not None
    assert row[0] == row[1] >= 3
