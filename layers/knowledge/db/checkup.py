"""Whether a database is fit for this release: its version and its extensions, the schema, the indexes, the clock."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from knowledge.db.connection import Database
from knowledge.db.migrate import read_migrations
from knowledge.db.statements import load_statements
from knowledge.finding import Finding

OLDEST_SERVER = 15
OLDEST_EXTENSIONS = {"pg_trgm": (1, 6), "vector": (0, 8)}
"""The oldest versions that the statements work with; pgvector 0.8 has the half-precision and iterative scans."""

MAX_CLOCK_SKEW_S = 5.0
"""Leases, expiry and schedules go by the database's clock, and schedules fire by another's."""

_SQL = load_statements(Path(__file__).with_name("checkup.sql"))


def check_database(database: Database, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> list[Finding]:
    """What is wrong with the database itself; changes nothing. Raises the store's errors."""
    asked = clock()
    server = _row(database, "server")
    answered = clock()
    findings = _of_server(server["version"])
    findings += _of_clock(asked, server["now"], answered)
    rows = database.run(lambda t: t.execute(_SQL["extensions"], {"names": list(OLDEST_EXTENSIONS)}).fetchall())
    findings += [finding for row in rows for finding in _of_extension(**row)]
    findings += _of_schema(database)
    names = [row["name"] for row in database.run(lambda t: t.execute(_SQL["invalid_indexes"]).fetchall())]
    findings += [
        Finding(
            subject="index",
            message=f"the index {name} was left unfinished, and is not used",
            command=f'psql "$DATABASE_URL" -c "REINDEX INDEX CONCURRENTLY {name}"',
        )
        for name in names
    ]
    return findings


def _row(database: Database, statement: str) -> dict[str, Any]:
    return database.run(lambda t: t.execute(_SQL[statement]).fetchone()) or {}


def _of_server(version: int) -> list[Finding]:
    if version // 10_000 >= OLDEST_SERVER:
        return []
    message = f"PostgreSQL {version // 10_000} is older than {OLDEST_SERVER}, the oldest that works"
    return [Finding(subject="database", message=message, command="upgrade the server")]


def _of_clock(asked: datetime, theirs: datetime, answered: datetime) -> list[Finding]:
    """How far the database's clock is outside the time in which it was asked."""
    skew_s = max((asked - theirs).total_seconds(), (theirs - answered).total_seconds())
    if skew_s <= MAX_CLOCK_SKEW_S:
        return []
    direction = "behind" if theirs < asked else "ahead of"
    message = f"the database's clock is {skew_s:,.0f} s {direction} this machine's; syncs and expiry go by clocks"
    return [Finding(subject="clock", message=message, command="set both clocks by a time server (NTP)")]


def _of_extension(name: str, installed: str | None, available: str | None) -> list[Finding]:
    oldest = OLDEST_EXTENSIONS[name]
    wanted = ".".join(map(str, oldest))
    if installed is None:
        if available is None:
            todo = "install pgvector on the server" if name == "vector" else "install PostgreSQL's contrib modules"
            return [Finding(subject="extension", message=f"the server has no extension {name}", command=todo)]
        message = f"the extension {name} is not created in this database"
        return [Finding(subject="extension", message=message, command="knowledge migrate")]
    if _numbers(installed) < oldest:
        message = f"the extension {name} {installed} is older than {wanted}, the oldest that works"
    elif available is not None and _numbers(available) > _numbers(installed):
        message = f"the server has {name} {available}, and this database still uses {installed}"
    else:
        return []
    command = f'psql "$DATABASE_URL" -c "ALTER EXTENSION {name} UPDATE"'
    if available is None or _numbers(available) < oldest:
        command = f"install {name} {wanted} or newer on the server, and then: {command}"
    return [Finding(subject="extension", message=message, command=command)]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def _of_schema(database: Database) -> list[Finding]:
    known = {migration.number: migration.name for migration in read_migrations()}
    applied: set[int] = set()
    if _row(database, "has_history")["there"]:
        applied = {row["number"] for row in database.run(lambda t: t.execute(_SQL["migrations"]).fetchall())}
    missing = [name for number, name in known.items() if number not in applied]
    if missing:
        message = f"the schema is not of this release; missing: {', '.join(missing)}"
        return [Finding(subject="schema", message=message, command="knowledge migrate")]
    if applied - known.keys():
        message = f"the database was migrated to {max(applied):04d} by a newer release than this, {max(known):04d}"
        return [Finding(subject="schema", message=message, command="use that release's `knowledge`")]
    return []
