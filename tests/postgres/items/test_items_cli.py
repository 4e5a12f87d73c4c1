"""``knowledge items``, as the owner types it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

import psycopg
import pytest

from cli.main import run
from knowledge.items.layer import KnowledgeLayer
from tests.postgres.items.conftest import HOME, OWNER, draft


class Ended(NamedTuple):
    code: int
    out: str
    err: str


Items = Callable[..., Ended]


@pytest.fixture
def items(
    database_url: str, layer: KnowledgeLayer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Items:
    """``items("verify")`` runs the command on the test's database."""
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.delenv("KL_AGENT_IDENTITY", raising=False)

    def items(*arguments: str) -> Ended:
        code = run(["items", *arguments])
        said = capsys.readouterr()
        return Ended(int(code), said.out, said.err)

    return items


def test_a_log_in_order_gives_its_head(items: Items, layer: KnowledgeLayer) -> None:
    layer.store.store(draft(), HOME)
    told = items("verify", "--json")
    assert told.code == 0
    report = json.loads(told.out)
    assert (report["events"], report["removed"], report["findings"]) == (1, 0, [])
    again = items("verify", "--head", report["head"])
    assert (again.code, again.err) == (0, "")
    assert f"head: {report['head']}\nall is as it was written\n" in again.out


def test_tampering_ends_with_a_code_of_its_own(
    items: Items, layer: KnowledgeLayer, superuser: psycopg.Connection
) -> None:
    layer.store.store(draft(), HOME)
    head = json.loads(items("verify", "--json").out)["head"]
    superuser.execute("ALTER TABLE knowledge_layer.provenance_events DISABLE TRIGGER ALL")
    superuser.execute("DELETE FROM knowledge_layer.provenance_events")
    told = items("verify", "--head", head)
    assert told.code == 2
    assert "the log ends at 0, but once it reached 1" in told.out
    assert "tampered with" in told.err
    assert json.loads(items("verify", "--json", "--head", head).out)["findings"] != []


def test_a_head_that_is_none_is_refused(items: Items) -> None:
    told = items("verify", "--head", "yesterday")
    assert (told.code, told.out) == (2, "")
    assert "64 hexadecimal digits" in told.err


def test_deleting_and_deciding(items: Items, layer: KnowledgeLayer) -> None:
    one, two = (layer.store.store(draft(), HOME).id for _ in range(2))
    links = [{"to": source, "relation": "derived_from"} for source in (one, two)]
    mixed = layer.store.store(draft(links=links), HOME).id
    told = items("delete", one, "--yes", "--as", "justine")
    assert told.code == 0
    assert told.out == f"deleted 1 item: {one}\nto decide: {mixed} was made from other items too\n"
    assert layer.deletion.tombstones(OWNER)[0].deleted_by == "justine"
    assert mixed in items("flagged").out
    assert items("keep", mixed).code == 0
    assert items("flagged").out == "Nothing is to be decided.\n"
    assert items("scrub").code == 0
    assert items("delete", one, "--yes").code == 2
    assert items("verify").code == 0


def test_history_is_told_from_provenance(items: Items, layer: KnowledgeLayer) -> None:
    item = layer.store.store(draft(), HOME)
    layer.store.store(draft("again", id=item.id), HOME)
    told = items("history", item.id)
    assert [line.split()[3] for line in told.out.splitlines()[1:]] == ["created", "updated"]
    assert "muse" in told.out
    events = json.loads(items("history", item.id, "--json").out)["events"]
    assert [event["detail"]["version"] for event in events] == [1, 2]


def test_compartments_and_grants(items: Items) -> None:
    assert items("add-compartment", "medical", "--firewall").code == 0
    assert items("add-compartment", "medical").code == 2
    assert items("add-compartment", "Medical").code == 2
    shown = items("compartments").out.splitlines()
    assert [line.split()[0] for line in shown[1:]] == ["divorce", "home", "ledger", "medical", "work"]
    assert "firewall" in shown[4]
    assert items("grant", "muse", "home", "--write").code == 0
    assert items("grant", "muse", "home").code == 2
    assert items("grant", "muse", "attic").code == 2
    assert "read, write" in items("grants").out
    assert items("revoke", "muse", "home").code == 0
    assert items("revoke", "muse", "home").code == 2
    assert items("grants").out == "Nobody was given anything.\n"
    assert "muse" in items("grants", "--all").out
    assert items("grant", "muse", "home").code == 0
    assert items("verify").code == 0


def test_without_an_answer_nothing_is_deleted(
    items: Items, layer: KnowledgeLayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = layer.store.store(draft(), HOME)
    monkeypatch.setattr("builtins.input", lambda *_: "n")
    assert items("delete", item.id).code == 1
    assert layer.store.look([item.id], OWNER) != []


def test_a_session_has_a_name(items: Items) -> None:
    told = items("grants", "--as", " ")
    assert told.code == 2
    assert "identity" in told.err
