"""One PostgreSQL connection per execution environment, mended once when it turns out to be dead."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, LiteralString, Self, TypeVar, cast

import psycopg
from pgvector.psycopg import register_vector
from psycopg import sql
from psycopg.rows import DictRow, dict_row
from psycopg.sql import Composed

from knowledge import correlation, deadline
from knowledge.db.failures import is_connection_lost, is_repeatable, translate
from knowledge.db.watchdog import Watchdog
from spot_sdk.errors import DeadlineExceeded

T = TypeVar("T")
Transaction = psycopg.Cursor[DictRow]

_CONNECT_TIMEOUT_S = 5
_LOCK_TIMEOUT_S = 10.0  # whoever waits longer for others is better told to come back
_ATTEMPTS = 6
_BACKOFF_S = 0.02
_MAX_APPLICATION_NAME = 63  # PostgreSQL cuts off what is beyond
_ROWS_PER_FETCH = 500


class Database:
    """Runs transactions on one connection, opened when first needed.

    ``conninfo`` is asked at each connect, so that a rotated secret is taken up. A Lambda environment handles one
    request at a time; a lock keeps that true elsewhere.
    """

    def __init__(self, conninfo: Callable[[], str], *, application_name: str = "knowledge") -> None:
        self._conninfo = conninfo
        self._application_name = application_name
        self._connection: psycopg.Connection[DictRow] | None = None
        self._lock = Lock()
        self._watchdog = Watchdog()
        self._begun = False

    def run(
        self, work: Callable[[Transaction], T], *, repeat_after_loss: bool = True, is_one_statement: bool = False
    ) -> T:
        """What ``work`` returns, its statements committed as one transaction.

        One that is a single statement without parameters needs none around it, which spares three round trips
        (``is_one_statement``); what bounds it on the server travels with it.
        In a transaction the database shows the request's name (``knowledge.correlation``) as application_name.

        ``work`` is called again after a deadlock or serialization failure, and once after a connection that turns out
        to be dead, even if that was at the commit. Where doing it twice would do harm, ``repeat_after_loss`` is False:
        then it is called again only when the dead connection had not begun it. The request's deadline
        (``knowledge.deadline``) bounds each statement on the server, the wait for locks of others, and - should the
        server not answer at all - the wait for it here.

        Raises StoreUnavailable, Overloaded, DeadlineExceeded or InternalError for the database's failures;
        whatever ``work`` raises rolls back and passes through.
        """
        with self._lock:
            reconnects_left = 1
            for attempt in range(1, _ATTEMPTS + 1):
                self._begun = False
                try:
                    return self._run_once(work, is_one_statement=is_one_statement)
                except psycopg.Error as error:
                    if is_connection_lost(error):
                        self._discard()
                        if deadline.remaining_s() == 0.0:
                            raise DeadlineExceeded from error
                        if reconnects_left and (repeat_after_loss or not self._begun):
                            reconnects_left -= 1
                            continue
                    elif is_repeatable(error) and attempt < _ATTEMPTS:
                        time.sleep(random.uniform(0, _BACKOFF_S * 2**attempt))  # noqa: S311 - jitter
                        continue
                    raise translate(error) from error
            raise AssertionError("unreachable: the last attempt returns or raises")

    def run_outside_transaction(self, statement: sql.Composed | sql.SQL, **settings: str) -> None:
        """Run one statement that PostgreSQL refuses inside a transaction, under these settings. Never repeated."""
        with self._lock:
            try:
                connection = self._connected()
                for name, value in settings.items():
                    connection.execute("SELECT set_config(%s, %s, false)", (name, value))
                connection.execute(statement)
            except psycopg.Error as error:
                raise translate(error) from error
            finally:
                self._discard()  # with its settings

    def _run_once(self, work: Callable[[Transaction], T], *, is_one_statement: bool) -> T:
        connection = self._connected()
        remaining_s = deadline.remaining_s()
        if is_one_statement:
            bounded = _LockBoundCursor(connection, row_factory=dict_row)
            bounded.patience_s = _lock_patience_s(remaining_s)
            with self._watchdog.watch(connection, remaining_s), bounded as cursor:
                self._begun = True
                return work(cursor)
        with (
            self._watchdog.watch(connection, remaining_s),
            connection.transaction(),
            connection.cursor() as transaction,
        ):
            of_request = self._name_for_request()
            if remaining_s is not None:
                of_request |= {
                    "statement_timeout": f"{_milliseconds(remaining_s)}ms",
                    "lock_timeout": f"{_milliseconds(_lock_patience_s(remaining_s))}ms",
                }
            if of_request:
                set_local(transaction, **of_request)
            self._begun = True
            return work(transaction)

    def _name_for_request(self) -> dict[str, str]:
        """The name under which the database knows this transaction; one that a pooler hands on with it."""
        correlation_id = correlation.current()
        if correlation_id is None:
            return {}
        return {"application_name": f"{self._application_name} {correlation_id}"[:_MAX_APPLICATION_NAME]}

    @contextmanager
    def snapshot(self) -> Generator[Snapshot]:
        """Read what is committed at one moment, on a connection of its own, for as long as that takes.

        Nothing is repeated: what was read may have gone out already. Raises the database's failures as ``run`` does.
        """
        try:
            with self._connect() as connection:
                connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
                connection.read_only = True
                with connection.transaction():
                    yield Snapshot(connection)
        except psycopg.Error as error:
            raise translate(error) from error

    def _connected(self) -> psycopg.Connection[DictRow]:
        if self._connection is None or self._connection.closed:
            self._connection = self._connect()
        return self._connection

    def _connect(self) -> psycopg.Connection[DictRow]:
        connection = psycopg.Connection[DictRow].connect(
            self._conninfo(),
            autocommit=True,  # so that transaction() is the only thing that opens one
            row_factory=dict_row,
            application_name=self._application_name,
            connect_timeout=_connect_timeout_s(),
            prepare_threshold=None,  # prepared statements break transaction-mode proxies and pin plans
            keepalives_idle=30,
            tcp_user_timeout=30_000,
        )
        try:
            # Not among the options of the connect: poolers refuse those, while they keep a client's time zone for it.
            if connection.info.parameter_status("TimeZone") != "UTC":
                connection.execute("SET timezone TO 'UTC'")
            register_vector(connection)
        except BaseException:  # nobody else knows of it yet
            connection.close()
            raise
        return connection

    def _discard(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def close(self) -> None:
        """Close the connection; the next ``run`` opens another."""
        with self._lock:
            self._discard()


class _LockBoundCursor(psycopg.Cursor[DictRow]):
    """Sends a statement together with the limit for its wait for locks: in one message, hence in one transaction."""

    patience_s = _LOCK_TIMEOUT_S

    def execute(self, query: Any, params: Any = None, **options: Any) -> Self:
        assert params is None, "only what has no parameters goes in one message"
        bound = f"SET LOCAL lock_timeout = '{_milliseconds(self.patience_s)}ms'"
        super().execute(cast("LiteralString", f"{bound}; {query}"), **options)
        while self.nextset():
            pass
        return self


def _lock_patience_s(remaining_s: float | None) -> float:
    return _LOCK_TIMEOUT_S if remaining_s is None else min(_LOCK_TIMEOUT_S, remaining_s / 2)


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _connect_timeout_s() -> int:
    """What the request's deadline leaves of the usual patience. Raises DeadlineExceeded when that is nothing."""
    remaining_s = deadline.remaining_s()
    if remaining_s is None:
        return _CONNECT_TIMEOUT_S
    if remaining_s == 0.0:
        raise DeadlineExceeded
    return max(1, min(_CONNECT_TIMEOUT_S, round(remaining_s)))


class Snapshot:
    """One moment of the database, read statement by statement."""

    def __init__(self, connection: psycopg.Connection[DictRow]) -> None:
        self._connection = connection

    @contextmanager
    def transaction(self) -> Generator[Transaction]:
        with self._connection.cursor() as cursor:
            yield cursor

    def stream(self, statement: Composed, parameters: dict[str, Any]) -> Iterator[DictRow]:
        """The rows of a result that may be larger than memory."""
        with self._connection.cursor(name="stream") as cursor:
            cursor.itersize = _ROWS_PER_FETCH
            yield from cursor.execute(statement, parameters)


def set_local(transaction: Transaction, **settings: Any) -> None:
    """Set PostgreSQL settings for the rest of this transaction (``hnsw__ef_search=100`` sets ``hnsw.ef_search``)."""
    names = [name.replace("__", ".") for name in settings]
    values = [str(value) for value in settings.values()]
    transaction.execute(
        "SELECT set_config(name, value, true) FROM unnest(%s::text[], %s::text[]) AS setting (name, value)",
        (names, values),
    )
