"""Every known way around the append-only log, tried by each role (design/CASES.md, docs/adr/0015)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import LiteralString

import psycopg
import pytest

from knowledge.db.connection import Database
from knowledge.items.layer import KnowledgeLayer
from knowledge.items.provenance import ProvenanceEvent
from spot_sdk.errors import Forbidden
from tests.postgres.items.conftest import HOME, OWNER, Login, draft

LOG = "knowledge_layer.provenance_events"

ON_THE_LOG: dict[str, LiteralString] = {
    "update": "UPDATE knowledge_layer.provenance_events SET actor = 'nobody'",
    "update that changes nothing": "UPDATE knowledge_layer.provenance_events SET actor = actor WHERE false",
    "delete": "DELETE FROM knowledge_layer.provenance_events",
    "delete of nothing": "DELETE FROM knowledge_layer.provenance_events WHERE false",
    "truncate": "TRUNCATE knowledge_layer.provenance_events",
    "truncate with what hangs on it": "TRUNCATE knowledge_layer.provenance_events CASCADE",
    "merge": """MERGE INTO knowledge_layer.provenance_events AS event USING (SELECT 1 AS seq) AS given
                ON event.seq = given.seq WHEN MATCHED THEN DELETE""",
    "insert that updates": """INSERT INTO knowledge_layer.provenance_events AS event SELECT * FROM
                              knowledge_layer.provenance_events LIMIT 1
                              ON CONFLICT (seq) DO UPDATE SET actor = 'nobody'""",
    "delete inside a query": """WITH gone AS (DELETE FROM knowledge_layer.provenance_events RETURNING seq)
                                SELECT count(*) FROM gone""",
    "a flag for the transaction": """BEGIN; SELECT set_config('knowledge_layer.erasing', 'on', true);
                                     SELECT set_config('kl.delete_in_progress', 'on', true);
                                     DELETE FROM knowledge_layer.provenance_events; COMMIT""",
    "triggers off as in a replica": """SET session_replication_role = replica;
                                       DELETE FROM knowledge_layer.provenance_events""",
}
"""What nobody may do, the superuser included, as long as the triggers are in force."""

AROUND_IT: dict[str, LiteralString] = {
    "an event that only the database writes": """INSERT INTO knowledge_layer.provenance_events
        (seq, recorded_at, event, actor, actor_class, db_user, nonce, digest, hash)
        VALUES (9, now(), 'deleted', 'x', 'x', 'x', gen_random_uuid(), '', '')""",
    "locking rows": "SELECT * FROM knowledge_layer.provenance_events FOR UPDATE",
    "disabling triggers": "ALTER TABLE knowledge_layer.provenance_events DISABLE TRIGGER ALL",
    "dropping a trigger": "DROP TRIGGER seal ON knowledge_layer.provenance_events",
    "a trigger of one's own": """CREATE TRIGGER a BEFORE INSERT ON knowledge_layer.provenance_events
                                 FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()""",
    "a rule": "CREATE RULE r AS ON INSERT TO knowledge_layer.provenance_events DO INSTEAD NOTHING",
    "another function under the name": """CREATE OR REPLACE FUNCTION knowledge_layer.refuse_change() RETURNS trigger
                                          LANGUAGE plpgsql AS 'BEGIN RETURN OLD; END'""",
    "a function under another": "ALTER FUNCTION knowledge_layer.erase_item(text, text[]) SECURITY INVOKER",
    "another owner": "ALTER TABLE knowledge_layer.provenance_events OWNER TO CURRENT_USER",
    "a grant to oneself": "GRANT DELETE ON knowledge_layer.provenance_events TO CURRENT_USER; "
    "DELETE FROM knowledge_layer.provenance_events",
    "a foreign key with a cascade": """ALTER TABLE knowledge_layer.provenance_events ADD FOREIGN KEY (item_id)
                                       REFERENCES knowledge_layer.items ON DELETE CASCADE""",
    "as the owner": "SET ROLE knowledge_layer_owner; TRUNCATE knowledge_layer.provenance_events",
    "as the eraser": "SET ROLE knowledge_layer_eraser; DELETE FROM knowledge_layer.provenance_events",
    "a partition of it": "CREATE TEMP TABLE t () INHERITS (knowledge_layer.provenance_events)",
    "a policy": "ALTER TABLE knowledge_layer.provenance_events ENABLE ROW LEVEL SECURITY",
    "dropping the table": "DROP TABLE knowledge_layer.provenance_events",
    "dropping the schema": "DROP SCHEMA knowledge_layer CASCADE",
    "dropping what the owner has": "DROP OWNED BY knowledge_layer_owner CASCADE",
    "calling the trigger's function": "SELECT knowledge_layer.seal_event()",
    "deleting an item": "DELETE FROM knowledge_layer.items",
    "deleting a version": "DELETE FROM knowledge_layer.item_versions",
    "rewriting a version": "UPDATE knowledge_layer.item_versions SET title = 'x'",
    "writing a version": "INSERT INTO knowledge_layer.item_versions SELECT * FROM knowledge_layer.item_versions",
    "unlinking": "DELETE FROM knowledge_layer.item_links",
    "redirecting a link": "UPDATE knowledge_layer.item_links SET to_id = from_id",
    "forgetting an access": "DELETE FROM knowledge_layer.access_events",
    "another's access": "INSERT INTO knowledge_layer.access_events (item_id, actor) VALUES ('x', 'another')",
    "a tombstone": "INSERT INTO knowledge_layer.item_tombstones (item_id, type, deleted_by) VALUES ('x', 'fact', 'x')",
    "taking the firewall down": "UPDATE knowledge_layer.compartments SET is_firewall = false",
    "another birthday": "UPDATE knowledge_layer.items SET created_at = now()",
}
"""What neither an agent's login, nor a steward's, nor who migrated may do."""

ONLY_STEWARDS: dict[str, LiteralString] = {
    "the deletion": "SELECT knowledge_layer.erase_item('x', NULL)",
    "a compartment": "INSERT INTO knowledge_layer.compartments (id) VALUES ('attic')",
    "a grant": "INSERT INTO knowledge_layer.agent_grants (agent, compartment) VALUES ('me', 'divorce')",
    "keeping what is flagged": "UPDATE knowledge_layer.derivative_flags SET kept_at = now()",
}


def log_of(layer: KnowledgeLayer) -> list[ProvenanceEvent]:
    return layer.provenance.events(OWNER)


@pytest.fixture
def filled(layer: KnowledgeLayer) -> Iterator[KnowledgeLayer]:
    """A layer with some history; the test leaves the log and the chain as they are."""
    item, other = (layer.store.store(draft(), HOME) for _ in range(2))
    layer.store.store(draft("again", id=item.id), HOME)
    layer.store.link(item.id, other.id, "about", HOME)
    layer.store.get(item.id, HOME)
    before = log_of(layer)
    yield layer
    assert log_of(layer) == before
    assert layer.provenance.verify(OWNER).findings == []


def succeeded(url: str, attempts: dict[str, LiteralString], *, as_role: str | None = None) -> list[str]:
    """The attempts that the database lets pass; each is on a connection of its own."""
    passed: list[str] = []
    for name, statements in attempts.items():
        with psycopg.connect(url, autocommit=True) as connection:
            if as_role is not None:
                connection.execute("SELECT set_config('role', %s, false)", (as_role,))
            try:
                connection.execute(statements)
            except psycopg.Error as error:
                assert error.sqlstate in ("42501", "KL002"), f"{name}: {error.sqlstate} {error}"  # noqa: PT017
            else:
                passed.append(name)
    return passed


def test_an_agents_login_changes_nothing(filled: KnowledgeLayer, login: Login) -> None:
    assert succeeded(login("knowledge_layer_app"), ON_THE_LOG | AROUND_IT | ONLY_STEWARDS) == []


def test_a_stewards_login_changes_nothing_either(filled: KnowledgeLayer, login: Login) -> None:
    assert succeeded(login("knowledge_layer_steward"), ON_THE_LOG | AROUND_IT) == []


def test_who_migrated_changes_nothing(filled: KnowledgeLayer, database_url: str) -> None:
    assert succeeded(database_url, ON_THE_LOG | AROUND_IT | ONLY_STEWARDS) == []


def test_the_owner_of_the_tables_is_refused_by_the_triggers(
    filled: KnowledgeLayer, superuser: psycopg.Connection
) -> None:
    url = superuser.info.dsn + f" password={superuser.info.password}"
    assert succeeded(url, ON_THE_LOG, as_role="knowledge_layer_owner") == []


def test_a_cascade_runs_with_the_owners_rights_and_is_refused_too(
    layer: KnowledgeLayer, superuser: psycopg.Connection
) -> None:
    item = layer.store.store(draft(), HOME)
    superuser.execute("SET ROLE knowledge_layer_owner")
    superuser.execute(f"ALTER TABLE {LOG} ADD FOREIGN KEY (item_id) REFERENCES knowledge_layer.items ON DELETE CASCADE")  # type: ignore[arg-type]
    with pytest.raises(psycopg.Error, match="append-only"):
        superuser.execute("DELETE FROM knowledge_layer.items WHERE id = %s", (item.id,))
    assert [event.event for event in log_of(layer)] == ["created"]


def test_the_superuser_is_refused_by_the_triggers(filled: KnowledgeLayer, superuser: psycopg.Connection) -> None:
    url = superuser.info.dsn + f" password={superuser.info.password}"
    assert succeeded(url, ON_THE_LOG) == []


@pytest.mark.parametrize("how", ["insert", "overriding", "copy"])
def test_place_time_and_actor_are_the_databases_whatever_is_sent(layer: KnowledgeLayer, login: Login, how: str) -> None:
    layer.store.store(draft(), HOME)
    url = login("knowledge_layer_app")
    forged = "(seq, recorded_at, event, actor, actor_class, db_user, nonce, digest, hash)"
    values = "-7, '1999-01-01', 'noted', 'forged', 'owner', 'forged', '00000000-0000-0000-0000-000000000000', '', ''"
    with psycopg.connect(url, autocommit=True) as connection:
        if how == "copy":
            with connection.cursor().copy(f"COPY {LOG} {forged} FROM STDIN") as copy:  # type: ignore[arg-type]
                copy.write("\t".join(part.strip(" '") for part in values.split(",")) + "\n")
        else:
            clause = "OVERRIDING SYSTEM VALUE" if how == "overriding" else ""
            connection.execute(f"INSERT INTO {LOG} {forged} {clause} VALUES ({values})")  # type: ignore[arg-type]
        user = connection.info.user
    *_, event = log_of(layer)
    assert (event.seq, event.event, event.db_user, event.actor, event.actor_class) == (2, "noted", user, user, "none")
    assert event.recorded_at.year > 2000
    assert layer.provenance.verify(OWNER).findings == []


def test_sequence_numbers_have_no_gaps_though_transactions_fail(layer: KnowledgeLayer) -> None:
    item = layer.store.store(draft(), OWNER)
    inside = layer.store.store(draft(compartment="divorce"), OWNER)
    for _ in range(3):
        with pytest.raises(Forbidden):
            layer.store.link(item.id, inside.id, "about", OWNER)
    layer.store.store(draft(), OWNER)
    assert [event.seq for event in log_of(layer)] == [1, 2, 3]


def test_a_login_of_no_role_is_told(layer: KnowledgeLayer, login: Login) -> None:
    database = Database(lambda: login("pg_read_all_settings"))
    with pytest.raises(Forbidden, match="login"):
        KnowledgeLayer.on(database).store.get("x", OWNER)
    database.close()


def test_an_agents_login_uses_the_layer_and_does_not_delete(layer: KnowledgeLayer, login: Login) -> None:
    url = login("knowledge_layer_app")
    database = Database(lambda: url)
    agent = KnowledgeLayer.on(database)
    item = agent.store.store(draft(), HOME)
    assert agent.store.get(item.id, HOME).id == item.id
    for attempt in (
        lambda: agent.deletion.erase(item.id, OWNER),
        lambda: agent.grants.grant("me", "divorce", OWNER),
        lambda: agent.compartments.add("attic", OWNER),
    ):
        with pytest.raises(Forbidden):
            attempt()
        assert agent.store.get(item.id, HOME).id == item.id
    (event,) = log_of(layer)
    assert (event.actor, event.actor_class) == ("muse", "fleet")
    assert f"user={event.db_user}" in url
    database.close()


def test_a_foreign_schema_in_the_search_path_is_not_asked(layer: KnowledgeLayer, superuser: psycopg.Connection) -> None:
    """Functions of the layer name what they use; a look-alike in the caller's path is not called."""
    superuser.execute("CREATE SCHEMA evil; GRANT USAGE ON SCHEMA evil TO PUBLIC")
    superuser.execute("CREATE FUNCTION evil.sha256(bytea) RETURNS bytea LANGUAGE sql AS $$ SELECT 'evil'::bytea $$")
    superuser.execute("GRANT knowledge_layer_steward TO CURRENT_USER")
    superuser.execute("SET search_path = evil, pg_catalog")
    item = layer.store.store(draft(), OWNER)
    superuser.execute("SET ROLE knowledge_layer_steward")
    superuser.execute("INSERT INTO knowledge_layer.provenance_events (event) VALUES ('noted')")
    superuser.execute("SELECT knowledge_layer.erase_item(%s, NULL)", (item.id,))
    superuser.execute("RESET ROLE")
    assert layer.provenance.verify(OWNER).findings == []
