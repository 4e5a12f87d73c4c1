"""What a superuser does to the log, or to the items behind its back, is found by ``verify``."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg.rows import DictRow, dict_row

from knowledge.db.connection import Database, Snapshot
from knowledge.items.chain import Head
from knowledge.items.layer import KnowledgeLayer
from knowledge.items.provenance import Provenance
from knowledge.items.session import Session
from knowledge.items.transactions import ItemTransactions
from spot_sdk.errors import Forbidden
from tests.conftest import Server, temporary_database
from tests.postgres.items.conftest import HOME, OWNER, draft, layer_on, superuser_url


def fill(layer: KnowledgeLayer) -> None:
    """Eight events of three items, of which the third was deleted with its events 3 and 6.

    Places: 1 created a, 2 created b, 4 updated a, 5 linked a to b, 7 the deletion, 8 a grant.
    """
    store = layer.store
    for name in ("a", "b", "c"):
        store.store(draft(name, id=name), OWNER)
    store.store(draft("a again", id="a", compartment="work", tier="short-term"), OWNER)
    store.link("a", "b", "about", OWNER)
    store.store(draft("c again", id="c"), OWNER)
    layer.deletion.erase("c", OWNER)
    layer.grants.grant("muse", "home", OWNER)


class WithinTransaction(ItemTransactions):
    """Reads what an open transaction sees, so that what it did can be looked at and taken back."""

    def __init__(self, connection: psycopg.Connection[DictRow]) -> None:
        self._connection = connection

    @contextmanager
    def snapshot(self, session: Session) -> Generator[Snapshot]:
        self._connection.execute("SET LOCAL ROLE knowledge_layer_app; SET LOCAL search_path = public")
        yield Snapshot(self._connection)


class Tamperer:
    """A superuser whose changes are verified, and then taken back."""

    def __init__(self, connection: psycopg.Connection[DictRow]) -> None:
        self._connection = connection

    def report_after(self, statements: str, heads: Sequence[Head] = (), *, without_triggers: bool = True) -> list[str]:
        """What ``verify`` finds after these statements; the triggers are on again by then, as they were."""
        with self._connection.transaction(force_rollback=True):
            self._connection.execute("SET LOCAL search_path = knowledge_layer, public")
            if without_triggers:
                self._switch_triggers("DISABLE TRIGGER ALL")
            self._connection.execute(statements)  # type: ignore[arg-type]
            if without_triggers:
                self._switch_triggers("ENABLE TRIGGER ALL")
                for row in self._connection.execute(
                    "SELECT tgrelid::regclass::text AS name, tgname "
                    "FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid "
                    "WHERE relnamespace = 'knowledge_layer'::regnamespace AND NOT tgisinternal"
                ).fetchall():
                    self._connection.execute(f"ALTER TABLE {row['name']} ENABLE ALWAYS TRIGGER {row['tgname']}")  # type: ignore[arg-type]
            return Provenance(WithinTransaction(self._connection)).verify(OWNER, heads).findings

    def _switch_triggers(self, how: str) -> None:
        for table in ("items", "item_versions", "item_links", "agent_grants", "item_tombstones", "provenance_events"):
            self._connection.execute(f"ALTER TABLE {table} {how}")  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def filled(
    postgres_server: Server, template_database: str
) -> Generator[tuple[KnowledgeLayer, psycopg.Connection[DictRow]]]:
    """A layer with the history that ``fill`` says, for tests that leave it so, and its superuser."""
    with temporary_database(postgres_server.ordinary, template_database) as url:
        database = Database(lambda: url)
        layer = layer_on(database)
        fill(layer)
        with psycopg.connect(superuser_url(url, postgres_server), autocommit=True, row_factory=dict_row) as connection:
            yield layer, connection
        database.close()


@pytest.fixture
def untouched(filled: tuple[KnowledgeLayer, psycopg.Connection[DictRow]]) -> KnowledgeLayer:
    return filled[0]


@pytest.fixture
def tamperer(filled: tuple[KnowledgeLayer, psycopg.Connection[DictRow]]) -> Iterator[Tamperer]:
    yield Tamperer(filled[1])
    assert filled[0].provenance.verify(OWNER).findings == []


def test_a_log_that_nobody_touched_is_in_order(untouched: KnowledgeLayer) -> None:
    report = untouched.provenance.verify(OWNER)
    assert (report.events, report.removed, report.head.seq, report.findings) == (6, 2, 8, [])
    later = untouched.provenance.verify(OWNER, [report.head, Head.parse(str(report.head))])
    assert later == report


def test_turning_triggers_off_and_on_is_no_finding(tamperer: Tamperer) -> None:
    assert tamperer.report_after("SELECT 1") == []


def test_an_empty_log_is_in_order(layer: KnowledgeLayer) -> None:
    report = layer.provenance.verify(OWNER)
    assert (report.events, report.head.seq, report.findings) == (0, 0, [])
    assert layer.provenance.verify(OWNER, [report.head]).findings == []


CHANGE_LOG: dict[str, tuple[str, str]] = {
    "edit the actor": ("UPDATE log SET actor = 'nobody' WHERE seq = 4", "event 4 was edited"),
    "edit the time": ("UPDATE log SET recorded_at = recorded_at + interval '1 us' WHERE seq = 4", "event 4 was edited"),
    "edit the detail": (
        """UPDATE log SET detail = detail || '{"tier": "archive"}' WHERE seq = 4""",
        "event 4 was edited",
    ),
    "edit the database user": ("UPDATE log SET db_user = 'x' WHERE seq = 1", "event 1 was edited"),
    "edit the kind": ("UPDATE log SET event = 'noted' WHERE seq = 5", "event 5 was edited"),
    "edit the item": ("UPDATE log SET item_id = 'b' WHERE seq = 4", "event 4 does not follow"),
    "edit and make the digest good": (
        """UPDATE log SET actor = 'nobody', digest = sha256(convert_to(knowledge_layer.joined(
           to_char(recorded_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), event, 'nobody', actor_class,
           db_user, detail::text, nonce::text), 'UTF8')) WHERE seq = 4""",
        "event 4 does not follow",
    ),
    "edit a hash": ("UPDATE log SET hash = sha256('x') WHERE seq = 8", "event 8 does not follow"),
    "delete the first": ("DELETE FROM log WHERE seq = 1", "from event 1 to event 1 something is missing"),
    "delete one of the middle": ("DELETE FROM log WHERE seq = 5", "from event 5 to event 5 something is missing"),
    "delete several": ("DELETE FROM log WHERE seq IN (4, 5)", "from event 4 to event 5 something is missing"),
    "delete the deletion": ("DELETE FROM log WHERE seq = 7", "from event 3 to event 3 something is missing"),
    "insert at the end": (
        "INSERT INTO log SELECT 9, recorded_at, event, item_id, actor, actor_class, db_user, detail, nonce, digest, "
        "hash FROM log WHERE seq = 8",
        "event 9 does not follow",
    ),
    "insert where one was removed": (
        "INSERT INTO log SELECT 3, recorded_at, event, item_id, actor, actor_class, db_user, detail, nonce, digest, "
        "hash FROM log WHERE seq = 2",
        "event 3 is there, but event 7 says it was removed",
    ),
    "insert far away": (
        "INSERT INTO log SELECT 9000000000000000000, recorded_at, event, item_id, actor, actor_class, db_user, detail, "
        "nonce, digest, hash FROM log WHERE seq = 8",
        "from event 9 to event 8999999999999999999 something is missing",
    ),
    "reorder": (
        "UPDATE log SET seq = -seq WHERE seq IN (4, 5); UPDATE log SET seq = 9 + seq WHERE seq < 0",
        "event 4 does not follow",
    ),
    "close the gap": ("DELETE FROM log WHERE seq = 2; UPDATE log SET seq = 2 WHERE seq = 1", "from event 1 to event 1"),
    "excuse a deletion with a deletion": (
        """DELETE FROM log WHERE seq = 2;
           UPDATE log SET detail = jsonb_set(detail, '{removed,2}', '[2, "b", "00"]') WHERE seq = 7""",
        "event 7 was edited",
    ),
}


@pytest.mark.parametrize(("how", "finding"), CHANGE_LOG.values(), ids=CHANGE_LOG.keys())
def test_a_change_of_the_log_is_found(tamperer: Tamperer, how: str, finding: str) -> None:
    findings = tamperer.report_after(re.sub(r"\blog\b", "provenance_events", how))
    assert any(found.startswith(finding) for found in findings), findings


@pytest.mark.parametrize("last", [1, 3, 7])
def test_a_tail_that_was_cut_off_is_found_against_a_noted_head(
    untouched: KnowledgeLayer, tamperer: Tamperer, last: int
) -> None:
    head = untouched.provenance.verify(OWNER).head
    findings = tamperer.report_after(f"DELETE FROM provenance_events WHERE seq > {last}", [head])
    assert any("once it reached 8" in found for found in findings)


def test_a_log_written_anew_is_found_against_a_noted_head(untouched: KnowledgeLayer, tamperer: Tamperer) -> None:
    """The superuser cuts the last event off and has the database write another one: a perfect chain."""
    head = untouched.provenance.verify(OWNER).head
    rewrite = """DELETE FROM agent_grants; DELETE FROM provenance_events WHERE seq = 8;
                 ALTER TABLE provenance_events ENABLE ALWAYS TRIGGER seal;
                 INSERT INTO provenance_events (event) VALUES ('noted')"""
    assert tamperer.report_after(rewrite) == []
    assert tamperer.report_after(rewrite, [head]) == ["event 8 is not the one whose hash was noted"]


def test_a_head_noted_at_an_event_that_was_deleted_with_its_item_stays_good(layer: KnowledgeLayer) -> None:
    layer.store.store(draft(id="a"), OWNER)
    head = layer.provenance.verify(OWNER).head
    layer.deletion.erase("a", OWNER)
    assert layer.provenance.verify(OWNER, [head]).findings == []
    forged = Head(head.seq, bytes(32))
    assert layer.provenance.verify(OWNER, [forged]).findings == ["event 1 is not the one whose hash was noted"]


CHANGE_ITEMS: dict[str, tuple[str, str]] = {
    "title": ("UPDATE items SET title = 'x' WHERE id = 'b'", "item b version 1 is not what was stored"),
    "body": ("""UPDATE items SET body = '{"text": "another"}' WHERE id = 'a'""", "item a version 2 is not what was"),
    "domain time": ("UPDATE items SET domain_at = now() WHERE id = 'a'", "item a version 2 is not what was stored"),
    "compartment": ("UPDATE items SET compartment = 'work' WHERE id = 'b'", "item b version 1 is not what was stored"),
    "tier": ("UPDATE items SET tier = 'long-term' WHERE id = 'a'", "item a is in another tier"),
    "gate": ("UPDATE items SET gate_state = 'admitted' WHERE id = 'a'", "item a is in another tier or gate state"),
    "an earlier version": ("UPDATE item_versions SET title = 'x'", "item a version 1 is not what was stored"),
    "an earlier version gone": ("DELETE FROM item_versions", "item a version 1 is not what was stored"),
    "a new item": (
        "INSERT INTO items (id, type, title, body, compartment, tier) "
        "VALUES ('z', 'fact', 'x', '1', 'home', 'working')",
        "item z is there, and no event",
    ),
    "an item gone": ("DELETE FROM item_links; DELETE FROM items WHERE id = 'b'", "item b is gone, and no deletion"),
    "a link": ("INSERT INTO item_links (from_id, to_id, relation) VALUES ('b', 'a', 'x')", "link from b to a (x)"),
    "a link gone": ("DELETE FROM item_links WHERE relation = 'about'", "link from a to b (about)"),
    "a tombstone gone": ("DELETE FROM item_tombstones", "item c has a tombstone and no event"),
    "a grant": ("UPDATE agent_grants SET may_write = true", "the grant of home to muse"),
    "a grant revived": ("DELETE FROM agent_grants", "the grant of home to muse"),
    "a trigger off": ("ALTER TABLE provenance_events DISABLE TRIGGER seal", "the trigger seal of the log"),
    "a trigger not always on": (
        "ALTER TABLE provenance_events ENABLE TRIGGER refuse_change",
        "the trigger refuse_change",
    ),
    "a trigger of the items off": ("ALTER TABLE items DISABLE TRIGGER follow_change", "the trigger follow_change of"),
    "a right too many": (
        "GRANT UPDATE (actor) ON provenance_events TO knowledge_layer_app",
        "knowledge_layer_app may UP",
    ),
    "another owner": ("ALTER TABLE items OWNER TO postgres", "the table knowledge_layer.items does not belong to"),
}


@pytest.mark.parametrize(("how", "finding"), CHANGE_ITEMS.values(), ids=CHANGE_ITEMS.keys())
def test_a_change_behind_the_logs_back_is_found(tamperer: Tamperer, how: str, finding: str) -> None:
    findings = tamperer.report_after(how, without_triggers=not how.startswith("ALTER"))
    assert any(found.startswith(finding) for found in findings), findings


def test_the_eraser_itself_does_not_delete_unseen(tamperer: Tamperer) -> None:
    """As the role whose deletes the triggers let pass; then with an event that excuses it, chained as it must be."""
    delete = "SET LOCAL ROLE knowledge_layer_eraser; DELETE FROM knowledge_layer.provenance_events WHERE seq = 2; "
    excuse = """INSERT INTO knowledge_layer.provenance_events (event, detail)
                VALUES ('deleted', '{"items": ["b"], "flagged": [], "removed": [[2, "b", "00"]]}'); """
    findings = tamperer.report_after(delete + "RESET ROLE", without_triggers=False)
    assert findings[0].startswith("from event 2 to event 2 something is missing")
    findings = tamperer.report_after(delete + excuse + "RESET ROLE", without_triggers=False)
    assert "event 4 does not follow from what is before it" in findings  # place 2 as it is told does not lead to it
    assert any("item b has a tombstone and no event" in found for found in findings)


def test_a_session_with_a_scope_does_not_read_the_log(layer: KnowledgeLayer) -> None:
    for attempt in (lambda: layer.provenance.events(HOME), lambda: layer.provenance.verify(HOME)):
        with pytest.raises(Forbidden):
            attempt()


def test_type_and_compartment_are_reconstructed_from_provenance_alone(layer: KnowledgeLayer) -> None:
    """O1: a change of either is recorded, not refused, with both fields before and after."""
    item = layer.store.store(draft(), OWNER)
    layer.store.store(draft(id=item.id, compartment="work"), OWNER)
    layer.store.store(draft(id=item.id, compartment="work", type="decision"), OWNER)
    layer.store.store(draft("only a title", id=item.id, compartment="work", type="decision"), OWNER)
    details = [event.detail for event in layer.provenance.events(OWNER, item_id=item.id)]
    assert [detail.get("changed") for detail in details] == [
        None,
        change(type_=("fact", "fact"), compartment=("home", "work")),
        change(type_=("fact", "decision"), compartment=("work", "work")),
        None,
    ]
    assert (details[0]["type"], details[0]["compartment"]) == ("fact", "home")


def change(*, type_: tuple[str, str], compartment: tuple[str, str]) -> dict[str, Any]:
    return {
        "type": {"before": type_[0], "after": type_[1]},
        "compartment": {"before": compartment[0], "after": compartment[1]},
    }


def test_no_event_holds_content(layer: KnowledgeLayer) -> None:
    item = layer.store.store(draft("Sesame", summary="open", body="Sesame", tags=["Sesame"]), OWNER)
    layer.store.store(draft("Sesame again", id=item.id, body_ref="s3://Sesame", body=None), OWNER)
    assert "Sesame" not in repr(layer.provenance.events(OWNER))
