"""Who migrates makes the roles, or may use those that are there, and does not keep what nobody works as."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from knowledge.db.connection import Database
from knowledge.db.migrate import migrate
from knowledge.items.layer import KnowledgeLayer
from local.postgres import EmbeddedPostgres
from local.postgres.binaries import binaries_for
from spot_sdk.errors import InternalError, StoreUnavailable
from tests.conftest import HASH_MODEL, Server, temporary_database
from tests.postgres.items.conftest import OWNER, draft

ROLES = ("knowledge_layer_owner", "knowledge_layer_eraser", "knowledge_layer_app", "knowledge_layer_steward")


def test_who_migrated_may_work_as_agents_and_stewards_only(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        rows = connection.execute(
            """SELECT name, pg_has_role(name, 'SET'), pg_has_role(name, 'USAGE'),
                      (SELECT rolcanlogin OR rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = name)
               FROM unnest(%s::text[]) AS name""",
            (list(ROLES),),
        ).fetchall()
    if all(may_set for _, may_set, _, _ in rows):
        pytest.skip("TEST_DATABASE_URL is of a superuser")
    assert rows == [
        ("knowledge_layer_owner", False, False, False),
        ("knowledge_layer_eraser", False, False, False),
        ("knowledge_layer_app", True, True, False),
        ("knowledge_layer_steward", True, False, False),
    ]


@pytest.fixture
def second_migrator(postgres_server: Server, template_database: str) -> Iterator[str]:
    """The address of an empty database of another user, who may make roles, and has nothing to do with those here."""
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_server.superuser, autocommit=True) as superuser:
        superuser.execute(
            sql.SQL("CREATE ROLE {} LOGIN CREATEDB CREATEROLE PASSWORD {}").format(
                sql.Identifier(name), sql.Literal(name)
            )
        )
        with temporary_database(make_conninfo(postgres_server.ordinary, user=name, password=name), "template1") as url:
            yield url
        superuser.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


def test_another_migrator_is_told_who_can_let_it(second_migrator: str, postgres_server: Server) -> None:
    with pytest.raises(InternalError, match="42501") as refused:
        migrate(second_migrator, HASH_MODEL)
    assert "knowledge_layer_owner exists and is not for test_" in str(refused.value.__cause__)

    with psycopg.connect(postgres_server.superuser, autocommit=True) as superuser:
        with psycopg.connect(second_migrator) as connection:
            name = sql.Identifier(connection.info.user)
        for role in ROLES:
            superuser.execute(sql.SQL("GRANT {} TO {} WITH ADMIN OPTION").format(sql.Identifier(role), name))
        migrate(second_migrator, HASH_MODEL)
        database = Database(lambda: second_migrator)
        layer = KnowledgeLayer.on(database)
        item = layer.store.store(draft(compartment="divorce"), OWNER)
        layer.deletion.erase(item.id, OWNER)
        assert layer.provenance.verify(OWNER).findings == []
        database.close()


def test_without_the_migration_it_is_told(bare_database_url: str) -> None:
    database = Database(lambda: bare_database_url)
    with pytest.raises(StoreUnavailable, match="knowledge migrate"):
        KnowledgeLayer.on(database).store.get("x", OWNER)
    database.close()


def test_a_dump_by_who_migrated_keeps_the_chain(database_url: str, postgres_server: Server, tmp_path: Path) -> None:
    database = Database(lambda: database_url)
    layer = KnowledgeLayer.on(database)
    for name in ("a", "b", "c"):
        layer.store.store(draft(id=name, compartment="divorce", domain_at="2027-01-05T09:00:00Z"), OWNER)
    layer.store.link("a", "b", "about", OWNER)
    layer.deletion.erase("c", OWNER)
    head = layer.provenance.verify(OWNER).head
    database.close()

    programs = binaries_for(None).initdb.parent
    dump = tmp_path / "dump"
    subprocess.run([programs / "pg_dump", "-Fc", "-f", dump, database_url], check=True)
    with temporary_database(postgres_server.ordinary, "template1") as url:
        name = conninfo_to_dict(url)["dbname"]
        administrator = make_conninfo(postgres_server.superuser, dbname=name)
        subprocess.run([programs / "pg_restore", "--exit-on-error", "-d", administrator, dump], check=True)
        restored = Database(lambda: url)
        assert KnowledgeLayer.on(restored).provenance.verify(OWNER, [head]).findings == []
        restored.close()


def test_databases_of_a_new_server_are_migrated_at_once(tmp_path: Path) -> None:
    """Roles are the whole server's: three migrations make them together, as a user who is no superuser."""
    with EmbeddedPostgres(tmp_path / "data", durable=False) as server:
        urls = [make_conninfo(server.dsn, dbname=f"db_{number}") for number in range(3)]
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            for number in range(3):
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(f"db_{number}")))
        with ThreadPoolExecutor(3) as pool:
            applied = list(pool.map(lambda url: migrate(url, HASH_MODEL), urls))
        assert applied[0] == applied[1] == applied[2]
        for url in urls:
            with psycopg.connect(url) as connection:
                row = connection.execute(
                    "SELECT pg_has_role('knowledge_layer_owner', 'SET'), pg_has_role('knowledge_layer_app', 'SET')"
                ).fetchone()
            assert row == (False, True)
