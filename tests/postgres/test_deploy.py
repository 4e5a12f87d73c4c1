"""MigrateFunction as CloudFormation calls it: a first deployment, updates, one that fails, the end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import boto3
import psycopg
import pytest
from moto import mock_aws
from psycopg.conninfo import make_conninfo

from functions.migrate.app import handler
from knowledge import wiring
from knowledge.db.migrate import read_migrations
from local.postgres import EmbeddedPostgres
from spot_sdk.errors import Conflict, StoreUnavailable

SPOT_YAML = "plugins: {context_providers: {wiki: {url: 'https://wiki.example', sync_schedule: '0 3 * * *'}}}\n"
EVENT = {
    "StackId": "arn:aws:cloudformation:eu-central-1:123456789012:stack/spot/1",
    "RequestId": "request-1",
    "LogicalResourceId": "Migration",
}

Deploy = Callable[[str], dict[str, Any]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres(tmp_path_factory.mktemp("deploy") / "data", durable=False) as server:
        yield server


@pytest.fixture
def database(server: EmbeddedPostgres) -> Iterator[str]:
    """A bare database whose owner may make users, as RDS's master may."""
    with psycopg.connect(server.superuser_dsn, autocommit=True) as root:
        root.execute("CREATE DATABASE deployed")
        yield make_conninfo(server.superuser_dsn, dbname="deployed")
        root.execute("DROP DATABASE deployed WITH (FORCE)")
        root.execute("DROP ROLE IF EXISTS the_reader")


@pytest.fixture
def deploy(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deploy]:
    """``deploy("Update")`` is what CloudFormation was told; what the function raised is raised after that."""
    (tmp_path / "spot.yaml").write_text(SPOT_YAML)
    for name, value in {
        "DATABASE_URL": database,
        "EMBEDDING_BACKEND": "hash",
        "SYNC_TRIGGER_ARN": "arn:aws:lambda:eu-central-1:123456789012:function:sync",
        "SCHEDULE_PREFIX": "spot",
        "SPOT_CONFIG_PATH": str(tmp_path / "spot.yaml"),
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nobody",
        "AWS_DEFAULT_REGION": "eu-central-1",
    }.items():
        monkeypatch.setenv(name, value)
    told: list[dict[str, Any]] = []

    class CloudFormation(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            told.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    listener = ThreadingHTTPServer(("127.0.0.1", 0), CloudFormation)
    Thread(target=listener.serve_forever, daemon=True).start()

    def deploy(request_type: str) -> dict[str, Any]:
        wiring.reset()  # each deployment has its own execution environment
        url = f"http://127.0.0.1:{listener.server_address[1]}/answer"
        event = EVENT | {"RequestType": request_type, "ResponseURL": url}
        handler(event, SimpleNamespace(aws_request_id="1"))  # type: ignore[arg-type]
        return told[-1]

    deploy.told = told  # type: ignore[attr-defined]
    with mock_aws():
        yield deploy
    wiring.reset()
    listener.shutdown()
    listener.server_close()


def rules() -> list[str]:
    return [rule["Name"] for rule in boto3.client("events").list_rules()["Rules"]]


def value(database: str, statement: str) -> Any:
    with psycopg.connect(database) as connection:
        row = connection.execute(statement).fetchone()  # type: ignore[call-overload]
    assert row is not None
    return row[0]


ALL = [migration.name for migration in read_migrations()]


def test_the_first_deployment_makes_schema_and_schedules(deploy: Deploy, database: str) -> None:
    said = deploy("Create")
    assert (said["Status"], said["Data"]) == ("SUCCESS", {"Applied": ", ".join(ALL)})
    assert [name.rpartition("-")[0] for name in rules()] == ["spot-sync-wiki"] or rules()[0].startswith(
        "spot-sync-wiki"
    )
    assert value(database, "SELECT count(*) FROM knowledge_migrations") == len(ALL)


def test_an_update_does_what_is_new_and_keeps_the_name_of_the_resource(deploy: Deploy) -> None:
    first = deploy("Create")
    again = deploy("Update")
    assert (again["Status"], again["Data"]) == ("SUCCESS", {"Applied": ""})
    assert again["PhysicalResourceId"] == first["PhysicalResourceId"]  # another one would have the old "deleted"
    assert len(rules()) == 1


def test_a_release_that_is_rolled_back_runs_on_the_newer_schema(deploy: Deploy, database: str) -> None:
    deploy("Create")
    with psycopg.connect(database) as connection:
        connection.execute("INSERT INTO knowledge_migrations VALUES (9999, '9999_of_the_next_release', 'x')")
    assert deploy("Update")["Status"] == "SUCCESS"


def test_a_migration_that_fails_fails_the_deployment_and_changes_nothing(deploy: Deploy, database: str) -> None:
    deploy("Create")
    with psycopg.connect(database) as connection:
        connection.execute("UPDATE knowledge_migrations SET checksum = 'of another text' WHERE number = 2")
        connection.execute("DELETE FROM knowledge_migrations WHERE number = %s", (len(ALL),))
    with pytest.raises(Conflict):
        deploy("Update")
    last = deploy.told[-1]  # type: ignore[attr-defined]
    assert last["Status"] == "FAILED"
    assert "0002_sync was edited" in last["Reason"]
    assert value(database, "SELECT count(*) FROM knowledge_migrations") == len(ALL) - 1


def test_a_database_that_cannot_be_reached_fails_the_deployment(
    deploy: Deploy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "host=127.0.0.1 port=1 user=nobody dbname=nothing")
    with pytest.raises(StoreUnavailable):
        deploy("Create")
    assert deploy.told[-1]["Status"] == "FAILED"  # type: ignore[attr-defined]


def test_the_end_of_the_stack_takes_the_schedules_away_and_leaves_the_documents(deploy: Deploy, database: str) -> None:
    deploy("Create")
    assert deploy("Delete")["Status"] == "SUCCESS"
    assert rules() == []
    assert value(database, "SELECT count(*) FROM knowledge_documents") == 0  # the table is there


def test_the_end_of_a_stack_that_never_came_about_needs_no_database_and_no_file(
    deploy: Deploy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "host=127.0.0.1 port=1 user=nobody dbname=nothing")
    monkeypatch.setenv("SPOT_CONFIG_PATH", "/nowhere/spot.yaml")
    assert deploy("Delete")["Status"] == "SUCCESS"


def test_a_deployment_makes_the_users_that_have_secrets(
    deploy: Deploy, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = {"username": "the_reader", "password": "first"}
    created = boto3.client("secretsmanager").create_secret(Name="reader", SecretString=json.dumps(secret))
    monkeypatch.setenv("DATABASE_READER_SECRET_ARN", created["ARN"])
    deploy("Create")
    as_reader = make_conninfo(database, user="the_reader", password="first")
    assert value(as_reader, "SELECT count(*) FROM knowledge_documents") == 0
