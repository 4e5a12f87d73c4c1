"""What ``knowledge doctor`` says of a database that is not as it should be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from cli.main import run
from knowledge.db import checkup
from knowledge.db import connection as connection_module
from knowledge.db.checkup import check_database
from knowledge.db.connection import Database
from knowledge.finding import Finding


@pytest.fixture
def connection(database_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


def only(findings: list[Finding]) -> Finding:
    (finding,) = findings
    return finding


def test_a_database_as_migrated_is_well(database: Database) -> None:
    assert check_database(database) == []


@pytest.mark.parametrize(("seconds", "says"), [(-600, "600 s ahead of"), (600, "600 s behind")])
def test_a_clock_that_is_off(database: Database, seconds: int, says: str) -> None:
    finding = only(check_database(database, clock=lambda: datetime.now(UTC) + timedelta(seconds=seconds)))
    assert (finding.subject, says in finding.message) == ("clock", True)


def test_a_slow_answer_is_no_clock_that_is_off(database: Database) -> None:
    moments = iter([datetime.now(UTC) - timedelta(seconds=60), datetime.now(UTC) + timedelta(seconds=60)])
    assert check_database(database, clock=lambda: next(moments)) == []


def test_a_server_that_is_too_old(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "OLDEST_SERVER", 99)
    assert "older than 99" in only(check_database(database)).message


def test_an_extension_that_is_too_old_or_missing(
    database: Database, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkup, "OLDEST_EXTENSIONS", {"vector": (99, 0)})
    finding = only(check_database(database))
    assert "is older than 99.0" in finding.message
    assert finding.command.startswith("install vector 99.0 or newer on the server, and then: psql")
    assert "ALTER EXTENSION vector UPDATE" in finding.command
    monkeypatch.setattr(checkup, "OLDEST_EXTENSIONS", {"pg_trgm": (1, 6), "no_such_thing": (1, 0)})
    assert only(check_database(database)).message == "the server has no extension no_such_thing"
    connection.execute("DROP EXTENSION pg_trgm CASCADE")
    monkeypatch.setattr(checkup, "OLDEST_EXTENSIONS", {"pg_trgm": (1, 6)})
    assert only(check_database(database)).command == "knowledge migrate"


def test_an_extension_that_the_server_has_newer(database: Database, connection: psycopg.Connection) -> None:
    """pg_trgm comes with its older versions, so one can be made, and brought up to date as it is said."""
    connection.execute("DROP EXTENSION pg_trgm CASCADE")
    connection.execute("CREATE EXTENSION pg_trgm VERSION '1.3'")
    finding = only(check_database(database))
    assert "older than 1.6" in finding.message
    connection.execute(finding.command.split('-c "')[1].rstrip('"').encode())
    assert check_database(database) == []


def test_an_index_that_was_left_unfinished(database: Database, connection: psycopg.Connection) -> None:
    connection.execute("INSERT INTO knowledge_leases (name, fence, expires_at) VALUES ('a', 1, now()), ('b', 1, now())")
    with pytest.raises(psycopg.errors.UniqueViolation):
        connection.execute("CREATE UNIQUE INDEX CONCURRENTLY knowledge_leases_once ON knowledge_leases (fence)")
    finding = only(check_database(database))
    assert "knowledge_leases_once was left unfinished" in finding.message
    connection.execute("UPDATE knowledge_leases SET fence = 2 WHERE name = 'b'")
    connection.execute(finding.command.split('-c "')[1].rstrip('"').encode())
    assert check_database(database) == []


def test_a_schema_of_another_release(database: Database, connection: psycopg.Connection) -> None:
    connection.execute("INSERT INTO knowledge_migrations (number, name, checksum) VALUES (9000, 'later', '')")
    assert "migrated to 9000 by a newer release" in only(check_database(database)).message
    connection.execute("DELETE FROM knowledge_migrations WHERE number > 8")
    finding = only(check_database(database))
    assert "missing: 0009_" in finding.message
    assert finding.command == "knowledge migrate"


def doctor(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, str]]:
    """The exit code, and each subject that is due with its message."""
    code = run(["doctor", "--json", "--embedding-backend", "hash", *arguments])
    due = json.loads(capsys.readouterr().out)["due"]
    return code, {finding["subject"]: finding["message"] for finding in due}


def test_a_database_without_a_schema(bare_database_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with psycopg.connect(bare_database_url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        connection.execute("DROP EXTENSION IF EXISTS pg_trgm")
    code, due = doctor(capsys, "--database", bare_database_url)
    assert (code, due.keys()) == (1, {"extension", "schema"})
    assert "missing: 0001_documents" in due["schema"]


def test_a_database_without_the_type_of_vectors(
    bare_database_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_missing(_: object) -> None:  # as pgvector says it; only a superuser could take the extension away
        raise psycopg.ProgrammingError("vector type not found in the database")

    monkeypatch.setattr(connection_module, "register_vector", is_missing)
    code, due = doctor(capsys, "--database", bare_database_url)
    assert (code, due) == (1, {"extension": "the extension vector is not created in this database"})


@pytest.mark.parametrize(
    "change", [{"port": "1"}, {"dbname": "no_such_database"}, {"user": "nobody_such"}], ids=["port", "name", "user"]
)
def test_a_database_that_cannot_be_used(
    database_url: str, change: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, due = doctor(capsys, "--database", make_conninfo(database_url, **change))
    assert code == 1
    assert due.keys() == {"database"}
    assert due["database"].startswith("the database cannot be used: ")


def test_the_api_and_the_schedules_are_looked_at_where_they_are_named(
    database_url: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KNOWLEDGE_HOME", str(tmp_path))
    monkeypatch.delenv("SPOT_INTERNAL_API_KEY", raising=False)
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("ANALYZE")
    code, due = doctor(capsys, "--database", database_url, "--url", "http://127.0.0.1:1/api/v1/knowledge")
    assert code == 1
    assert due.keys() == {"key", "api"}
