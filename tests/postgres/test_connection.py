"""One connection and its troubles: a server that is frozen, full, restarted, or waited for too long."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psutil
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from knowledge.db.connection import Database
from knowledge.deadline import deadline_in
from local.postgres import EmbeddedPostgres
from spot_sdk.errors import DeadlineExceeded, Overloaded, StoreUnavailable


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """A server of this file's own, to be maltreated."""
    with EmbeddedPostgres(tmp_path_factory.mktemp("own") / "data", durable=False) as server:
        yield server


@pytest.fixture
def own(server: EmbeddedPostgres) -> Iterator[Database]:
    database = Database(lambda: server.dsn)
    yield database
    database.close()


@contextmanager
def frozen(server: EmbeddedPostgres) -> Generator[None]:
    """Every process of the server is stopped as SIGSTOP does: it neither answers nor hangs up."""
    launched = psutil.Process(server.child.pid)
    processes = [launched, *launched.children(recursive=True)]
    for process in processes:
        process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            process.send_signal(signal.SIGCONT)


def one(database: Database) -> int:
    row = database.run(lambda t: t.execute("SELECT 1 AS one").fetchone())
    assert row is not None
    return row["one"]


def test_a_server_that_freezes_ends_the_request_at_its_deadline_and_serves_the_next(
    own: Database, server: EmbeddedPostgres
) -> None:
    assert one(own) == 1
    with frozen(server):
        started = time.monotonic()
        with pytest.raises(DeadlineExceeded), deadline_in(1.0):
            one(own)
        assert time.monotonic() - started < 3
    assert one(own) == 1


def test_a_server_that_is_frozen_before_anybody_connects_is_not_waited_for_past_the_deadline(
    own: Database, server: EmbeddedPostgres
) -> None:
    with frozen(server):
        started = time.monotonic()
        with pytest.raises((DeadlineExceeded, StoreUnavailable)), deadline_in(1.0):
            one(own)
        assert time.monotonic() - started < 5
    assert one(own) == 1


def test_no_time_left_is_said_at_once(own: Database) -> None:
    with pytest.raises(DeadlineExceeded), deadline_in(0.0):
        one(own)


def test_a_slow_statement_is_ended_by_the_server(own: Database) -> None:
    with pytest.raises(DeadlineExceeded, match="57014"), deadline_in(0.5):
        own.run(lambda t: t.execute("SELECT pg_sleep(20)"))
    assert one(own) == 1


def test_a_long_wait_for_somebody_elses_lock_is_overload(own: Database, server: EmbeddedPostgres) -> None:
    with psycopg.connect(server.dsn) as other:
        other.execute("CREATE TABLE held ()")
        other.commit()
        other.execute("LOCK TABLE held")
        with pytest.raises(Overloaded) as refusal, deadline_in(1.0):
            own.run(lambda t: t.execute("SELECT FROM held"))
        assert refusal.value.retry_after_s
        other.execute("DROP TABLE held")


def test_a_full_server_is_overload_with_a_time_to_come_back(server: EmbeddedPostgres) -> None:
    with psycopg.connect(server.superuser_dsn, autocommit=True) as root:
        root.execute("CREATE ROLE crowd LOGIN PASSWORD 'crowd' CONNECTION LIMIT 1")
        crowd = make_conninfo(server.dsn, user="crowd", password="crowd")
        first, second = Database(lambda: crowd), Database(lambda: crowd)
        try:
            assert one(first) == 1
            with pytest.raises(Overloaded) as refusal:
                one(second)
            assert refusal.value.retry_after_s
        finally:
            first.close()
            second.close()
        while root.execute("SELECT count(*) FROM pg_stat_activity WHERE usename = 'crowd'").fetchone() != (0,):
            pass
        root.execute("DROP ROLE crowd")


def test_connections_that_the_server_ended_are_replaced(own: Database, server: EmbeddedPostgres) -> None:
    assert one(own) == 1
    with psycopg.connect(server.superuser_dsn, autocommit=True) as root:
        root.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'knowledge'")
    assert one(own) == 1


def test_one_connection_serves_many_threads_in_turn(own: Database) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda _: one(own), range(64))) == [1] * 64


def test_an_answer_that_does_not_fit_its_question_is_a_lost_connection(database_url: str) -> None:
    """A pooler that ends a connection may say so in the place of an answer; psycopg then knows no SQLSTATE."""
    asked: list[int] = []

    def work(transaction: psycopg.Cursor[dict[str, int]]) -> object:
        asked.append(1)
        if len(asked) == 1:
            raise psycopg.InternalError("received 2 results from command 'BEGIN'")
        return transaction.execute("SELECT 1 AS n").fetchone()

    with contextlib.closing(Database(lambda: database_url)) as database:
        assert database.run(work) == {"n": 1}
        asked.clear()
        with pytest.raises(StoreUnavailable):
            database.run(work, repeat_after_loss=False)
    assert asked == [1]
