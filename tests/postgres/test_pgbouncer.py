"""Everything that functions do, through a real pgbouncer in transaction mode: each transaction may get another server
connection, so nothing may rest on what an earlier one left behind."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier, Thread
from typing import get_args

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from knowledge.correlation import correlated_as
from knowledge.db.connection import Database
from knowledge.db.migrate import migrate, read_migrations
from knowledge.deadline import deadline_in
from knowledge.documents.ingest import Ingestion
from knowledge.documents.retrieval import Retrieval
from knowledge.documents.search import DocumentSearch
from knowledge.documents.store import DocumentStore
from knowledge.documents.sync_run import SourceSync
from knowledge.documents.writer import Writer
from knowledge.embedding.hashing import HashEmbedder
from spot_sdk.documents import EmbeddingModel, KnowledgeDocument, Query, Strategy
from spot_sdk.errors import DeadlineExceeded
from spot_sdk.sync import RemovalLimits

PGBOUNCER = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
SERVER_CONNECTIONS = 2
PATIENCE_S = 15.0

pytestmark = pytest.mark.skipif(
    PGBOUNCER is None, reason="pgbouncer is not installed (apt install pgbouncer): poolers were NOT tested"
)


@dataclass(frozen=True)
class Pooler:
    """A pgbouncer that leads to one database, with fewer server connections than it has clients."""

    url: str
    direct_url: str
    admin_url: str
    process: subprocess.Popen[bytes]


@pytest.fixture
def pooler(database_url: str, tmp_path: Path) -> Iterator[Pooler]:
    with running(database_url, tmp_path) as pooler:
        yield pooler


@contextmanager
def running(database_url: str, folder: Path) -> Generator[Pooler]:
    assert PGBOUNCER is not None
    parts = {name: str(value) for name, value in conninfo_to_dict(database_url).items()}
    port = free_port()
    (folder / "users.txt").write_text(f'"{parts["user"]}" "{parts["password"]}"\n')
    (folder / "pgbouncer.ini").write_text(
        f"""
[databases]
{parts["dbname"]} = host={parts["host"]} port={parts["port"]}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {folder / "users.txt"}
admin_users = {parts["user"]}
pool_mode = transaction
default_pool_size = {SERVER_CONNECTIONS}
server_login_retry = 1
server_tls_sslmode = disable
"""
    )
    command = [PGBOUNCER, str(folder / "pgbouncer.ini")]
    if os.getuid() == 0:  # which pgbouncer refuses to run as
        nobody = pwd.getpwnam("nobody")
        for path in (folder, *folder.iterdir()):
            os.chown(path, nobody.pw_uid, nobody.pw_gid)
        command = [PGBOUNCER, "--user", "nobody", str(folder / "pgbouncer.ini")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        await_listening(port, process, folder / "log")
        url = make_conninfo(database_url, host="127.0.0.1", port=port)
        yield Pooler(url, database_url, make_conninfo(url, dbname="pgbouncer"), process)
    finally:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def await_listening(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)  # between two looks; a listening socket is nothing that can be waited for
    pytest.fail(f"pgbouncer does not listen: {log.read_text()}")


@pytest.fixture
def pooled(pooler: Pooler) -> Iterator[Database]:
    database = Database(lambda: pooler.url)
    yield database
    database.close()


@dataclass(frozen=True)
class Store:
    """What the functions are made of, on one connection to the pooler."""

    database: Database
    ingestion: Ingestion
    retrieval: Retrieval
    sync: SourceSync
    documents: DocumentStore


@pytest.fixture
def store(pooled: Database) -> Store:
    return store_on(pooled)


def store_on(database: Database) -> Store:
    embedder = HashEmbedder()
    documents = DocumentStore(database, embedder.model)
    ingestion = Ingestion(documents, embedder)
    retrieval = Retrieval(DocumentSearch(database, embedder.model), embedder)
    return Store(database, ingestion, retrieval, SourceSync(database, documents, ingestion), documents)


def document(number: int, source: str = "handbook") -> KnowledgeDocument:
    return KnowledgeDocument(
        id=f"{source}/{number}",
        content=f"Rule {number}: invoices above {number} thousand euros are paid after a call",
        tags=["policy", "finance"],
        source=source,
    )


def one(database: Database) -> int:
    row = database.run(lambda t: t.execute("SELECT 1 AS one").fetchone())
    assert row is not None
    return row["one"]


def test_the_pooler_really_changes_servers_between_transactions(pooler: Pooler) -> None:
    """Without this, all the others could pass on one server connection that nobody shares."""

    def servers(clients: list[Database]) -> set[int]:
        rows = [client.run(lambda t: t.execute("SELECT pg_backend_pid() AS pid").fetchone()) for client in clients]
        return {row["pid"] for row in rows if row is not None}

    clients = [Database(lambda: pooler.url) for _ in range(6)]
    try:
        assert 1 <= len(servers(clients)) <= SERVER_CONNECTIONS < len(clients)
    finally:
        for client in clients:
            client.close()


@pytest.mark.parametrize("strategy", get_args(Strategy))
def test_documents_are_stored_found_and_removed(store: Store, strategy: Strategy) -> None:
    store.ingestion.upsert([document(n) for n in range(20)], writer=Writer())
    answer = store.retrieval.answer(Query(text="invoices paid after a call", tags="policy+finance", strategy=strategy))
    assert (len(answer.documents) == 5) == (strategy != "people")  # no names stand in these
    assert store.documents.delete(["handbook/3"], writer=Writer()) == 1


def test_a_sync_run_goes_on_over_many_transactions_and_removes_what_is_gone(store: Store) -> None:
    store.ingestion.upsert([document(n) for n in range(4)], writer=Writer())
    run = store.sync.start("handbook", writer=Writer()).run
    store.sync.upsert(run, [document(n) for n in range(1, 5)], writer=Writer())
    store.sync.heartbeat(run, writer=Writer())
    record = store.sync.complete(run, RemovalLimits(), writer=Writer())
    assert (record.created, record.unchanged, record.removed) == (1, 3, 1)


def test_clients_that_outnumber_the_servers_do_not_see_each_others_settings(pooler: Pooler) -> None:
    """A deadline is a setting of its transaction: on a shared server it must end with it."""
    start, failures = Barrier(6), []

    def client(limit_s: float | None) -> None:
        database = Database(lambda: pooler.url)
        store = store_on(database)
        try:
            start.wait()
            for round_ in range(10):
                if limit_s is None:
                    row = database.run(
                        lambda t: t.execute("SELECT current_setting('statement_timeout') AS limit").fetchone()
                    )
                    if row != {"limit": "0"}:
                        failures.append(row)
                else:
                    with deadline_in(limit_s):
                        store.ingestion.upsert([document(round_, f"source-{limit_s}")], writer=Writer())
                        store.retrieval.answer(Query(text="invoices", top_k=3))
        finally:
            database.close()

    clients = [Thread(target=client, args=(limit,)) for limit in (None, None, None, 21.0, 22.0, 23.0)]
    for thread in clients:
        thread.start()
    for thread in clients:
        thread.join()
    assert not failures


def test_the_name_of_a_request_stays_with_its_transactions(pooler: Pooler) -> None:
    clients = [Database(lambda: pooler.url) for _ in range(6)]

    def named(database: Database) -> str:
        row = database.run(lambda t: t.execute("SELECT current_setting('application_name') AS name").fetchone())
        return "" if row is None else row["name"]

    for _ in range(3):
        for number, client in enumerate(clients):
            with correlated_as(f"request-{number}"):
                assert named(client) == f"knowledge request-{number}"
        for client in clients:
            assert "request-" not in named(client)
    for client in clients:
        client.close()


def test_times_are_utc_whatever_the_servers_zone_is(pooler: Pooler) -> None:
    name = sql.Identifier(str(conninfo_to_dict(pooler.direct_url)["dbname"]))
    with psycopg.connect(pooler.direct_url, autocommit=True) as direct:
        direct.execute(sql.SQL("ALTER DATABASE {} SET timezone = 'Asia/Tokyo'").format(name))
    clients = [Database(lambda: pooler.url) for _ in range(4)]
    with psycopg.connect(pooler.url, autocommit=True) as other:  # which leaves a zone of its own on its server
        other.execute("SET timezone = 'America/Lima'")
        for client in clients:
            row = client.run(lambda t: t.execute("SELECT now()::text AS now").fetchone())
            other.execute("SELECT 1")
            client.close()
            assert row is not None
            assert row["now"].endswith("+00")


def test_connections_that_the_pooler_ended_are_replaced(pooler: Pooler, pooled: Database) -> None:
    assert one(pooled) == 1
    with psycopg.connect(pooler.admin_url, autocommit=True) as admin:
        admin.execute(f"KILL {conninfo_to_dict(pooler.url)['dbname']}")
        admin.execute(f"RESUME {conninfo_to_dict(pooler.url)['dbname']}")
    assert one(pooled) == 1


def test_servers_that_ended_behind_the_pooler_are_replaced(pooler: Pooler, pooled: Database) -> None:
    assert one(pooled) == 1
    with psycopg.connect(pooler.direct_url, autocommit=True) as direct:
        direct.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    until = time.monotonic() + 30
    with psycopg.connect(pooler.admin_url, autocommit=True) as admin:
        while admin.execute("SHOW SERVERS").fetchall() and time.monotonic() < until:
            pass  # several have ended, and a request reconnects once: the pooler may need a moment to see all of them
    assert one(pooled) == 1


def test_a_frozen_pooler_ends_the_request_at_its_deadline(pooler: Pooler, pooled: Database) -> None:
    assert one(pooled) == 1
    pooler.process.send_signal(signal.SIGSTOP)
    started = time.monotonic()
    with pytest.raises(DeadlineExceeded), deadline_in(1.0):
        one(pooled)
    assert time.monotonic() - started < 3
    pooler.process.send_signal(signal.SIGCONT)
    assert one(pooled) == 1


def test_a_slow_statement_is_ended_by_the_server(pooled: Database) -> None:
    with pytest.raises(DeadlineExceeded, match="57014"), deadline_in(0.5):
        pooled.run(lambda t: t.execute("SELECT pg_sleep(20)"))
    assert one(pooled) == 1


def test_migrations_run_through_the_pooler(bare_database_url: str, tmp_path: Path) -> None:
    """Their lock and their settings belong to the transaction. What builds indexes beside writers does not
    (``run_outside_transaction``): docs/guides/deploying.md sends it to the database itself."""
    with running(bare_database_url, tmp_path) as pooler:
        model: EmbeddingModel = HashEmbedder().model
        assert len(migrate(pooler.url, model)) == len(read_migrations())
        assert migrate(pooler.url, model) == []


def test_the_pool_mode_is_the_one_that_is_spoken_of(pooler: Pooler) -> None:
    with psycopg.connect(pooler.admin_url, autocommit=True) as admin:
        rows = {str(row[0]): str(row[1]) for row in admin.execute("SHOW CONFIG").fetchall()}
        assert rows["pool_mode"] == "transaction"
        (version,) = admin.execute("SHOW VERSION").fetchone() or ("",)
    assert re.match(r"PgBouncer 1\.\d+", version)
