"""What all tests share: a real PostgreSQL, and for each test that asks a migrated database of its own."""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from knowledge.db.migrate import migrate
from local.postgres import EmbeddedPostgres
from spot_sdk.documents import EmbeddingModel

_PATIENCE_S = 30.0

HASH_MODEL = EmbeddingModel(
    backend="hash",
    model="kl-hash-embed",
    version="1",
    dimensions=384,
    max_input_tokens=1_000_000,
    chunk_chars=2000,
)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


class Server(NamedTuple):
    """A server's addresses, for a role that may create databases and roles and for its superuser, and its log."""

    ordinary: str
    superuser: str
    log_path: Path | None


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    """A server for tests: TEST_DATABASE_URL where it is set, else one of our own that forgets on power loss.

    Its superuser is at TEST_SUPERUSER_URL, or the role of TEST_DATABASE_URL is one itself.
    """
    external = os.environ.get("TEST_DATABASE_URL")
    if external:
        yield Server(external, os.environ.get("TEST_SUPERUSER_URL", external), None)
        return
    folder: Path = tmp_path_factory.mktemp("postgres")
    with EmbeddedPostgres(folder / "data", durable=False) as server:
        yield Server(server.dsn, server.superuser_dsn, server.log_path)
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def postgres_url(postgres_server: Server) -> str:
    """The server's address for a role that may create databases and roles, and is no superuser."""
    return postgres_server.ordinary


@pytest.fixture(scope="session")
def template_database(postgres_url: str) -> Generator[str]:
    """The name of a database that is migrated for the hash model, to be cloned and not written."""
    with temporary_database(postgres_url, "template1") as url:
        migrate(url, HASH_MODEL)
        yield str(conninfo_to_dict(url)["dbname"])


@pytest.fixture
def database_url(postgres_url: str, template_database: str) -> Generator[str]:
    """The address of a migrated, empty database that only this test uses."""
    with temporary_database(postgres_url, template_database) as url:
        yield url


@pytest.fixture
def bare_database_url(postgres_url: str) -> Generator[str]:
    """The address of a database without any table, for tests of the migrations themselves."""
    with temporary_database(postgres_url, "template1") as url:
        yield url


@contextmanager
def temporary_database(server_url: str, template: str) -> Generator[str]:
    """The address of a database made from a template, which is dropped at the end."""
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(server_url, autocommit=True) as server:
        server.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY").format(
                sql.Identifier(name), sql.Identifier(template)
            )
        )
    try:
        yield make_conninfo(server_url, dbname=name)
    finally:
        drop_database(server_url, name)


def drop_database(server_url: str, name: str) -> None:
    """Remove it with whoever is connected; a vacuum of the server's own, which may not be ended, is waited for."""
    statement = sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
    with psycopg.connect(server_url, autocommit=True) as server:
        until = time.monotonic() + _PATIENCE_S
        while True:
            try:
                server.execute(statement)
            except (psycopg.errors.InsufficientPrivilege, psycopg.errors.ObjectInUse):
                if time.monotonic() > until:
                    raise
            else:
                return


@pytest.fixture
def other_database_url(postgres_url: str, template_database: str) -> Generator[str]:
    """A second database of the same kind, beside ``database_url``."""
    with temporary_database(postgres_url, template_database) as url:
        yield url
