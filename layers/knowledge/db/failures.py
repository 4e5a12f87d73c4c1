"""PostgreSQL's failures as members of the product's closed set of errors, told apart by SQLSTATE alone."""

from __future__ import annotations

import psycopg

from spot_sdk.errors import DeadlineExceeded, InternalError, KnowledgeError, Overloaded, StoreUnavailable

_BY_SQLSTATE: dict[str, type[KnowledgeError]] = {
    "57014": DeadlineExceeded,  # query_canceled: statement_timeout
    "55P03": Overloaded,  # lock_not_available: lock_timeout
    "53300": Overloaded,  # too_many_connections, from a pooler
    "57P01": StoreUnavailable,  # admin_shutdown
    "57P02": StoreUnavailable,  # crash_shutdown
    "57P03": StoreUnavailable,  # cannot_connect_now
    "57P05": StoreUnavailable,  # idle_session_timeout
    "25P03": StoreUnavailable,  # idle_in_transaction_session_timeout
}
_BY_CLASS: dict[str, type[KnowledgeError]] = {
    "08": StoreUnavailable,  # connection exception
    "53": StoreUnavailable,  # insufficient resources: disk full, out of memory
}
# A connection that is refused carries no SQLSTATE, only the server's words (English in every locale that we set).
_TOO_MANY_CONNECTIONS = ("too many clients already", "remaining connection slots", "too many connections for")
_COME_BACK_S = 2.0
_REPEATABLE = {"40001", "40P01"}  # serialization_failure, deadlock_detected: rolled back, and meant to be tried again


def is_repeatable(error: psycopg.Error) -> bool:
    """True when the transaction was rolled back only because of its neighbours."""
    return error.sqlstate in _REPEATABLE


# Without a SQLSTATE: the driver's own words for a connection that ended, or whose answers do not fit the questions, as
# when a pooler says why it ends it in the place of an answer.
_OF_THE_CONNECTION = (psycopg.OperationalError, psycopg.InternalError)


def is_connection_lost(error: psycopg.Error) -> bool:
    """True when the connection is of no use any more, whatever it says of itself."""
    if error.sqlstate is None:
        return isinstance(error, _OF_THE_CONNECTION)
    return error.sqlstate.startswith(("08", "57P"))


_NO_SCHEMA = "the database has no schema of this version; run `knowledge migrate`"


def translate(error: psycopg.Error) -> KnowledgeError:
    """The error that a caller sees. The driver's text stays in ``__cause__`` and the log: it may quote data."""
    state = error.sqlstate
    if state in ("42P01", "42703", "42704"):  # undefined table, column, type
        return StoreUnavailable(_NO_SCHEMA)
    if state is None:
        kind = StoreUnavailable if isinstance(error, _OF_THE_CONNECTION) else InternalError
    else:
        kind = _BY_SQLSTATE.get(state) or _BY_CLASS.get(state[:2]) or InternalError
    if state is None and any(sign in str(error) for sign in _TOO_MANY_CONNECTIONS):
        kind = Overloaded
    pause_s = _COME_BACK_S if issubclass(kind, Overloaded | StoreUnavailable) else None
    return kind(f"{kind.title} (SQLSTATE {state or 'none'})", retry_after_s=pause_s)
