"""Bulk load: the first load of very many documents, without keeping the vector index up to date for each of them.

    begin ──► upsert, import, ingest, … as always ──► finish

``begin`` drops the vector index and remembers its definition, in one transaction; ``finish`` builds it again beside
readers and writers (``CREATE INDEX CONCURRENTLY``). In between queries are answered by exact scans: right, and slower.
When a load stops half-way, whatever is stored is stored, and ``finish`` - or another load, and then ``finish`` - goes
on from there. It pays when a load adds more than about a seventh of the table (docs/performance.md).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import LiteralString, NamedTuple, cast

from psycopg import sql

from knowledge.db.connection import Database, Transaction, set_local
from knowledge.db.statements import load_statements

VECTOR_INDEX = "knowledge_documents_embedding"
_LOCK_TIMEOUT = "10s"  # for the moment's exclusive lock that dropping an index takes
_BUILD_MEMORY = "1GB"  # the graph of 300,000 vectors of 384 dimensions; more spills, and is slower

_SQL = load_statements(Path(__file__).with_name("bulk_load.sql"))


class BulkLoadState(NamedTuple):
    """``put_away_at`` is None when no bulk load is under way; ``index_is_valid`` when the index serves queries."""

    put_away_at: datetime | None
    index_is_valid: bool


class BulkLoad:
    """Puts the vector index away and brings it back. Safe to call twice, and after a crash at any point."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def state(self) -> BulkLoadState:
        """Whether a bulk load is under way, and whether the index serves queries."""
        row = self._database.run(lambda t: t.execute(_SQL["state"], {"name": VECTOR_INDEX}).fetchone())
        assert row is not None
        return BulkLoadState(**row)

    def begin(self) -> None:
        """Put the index away. Raises Overloaded when long queries do not let go of it within ten seconds."""

        def work(transaction: Transaction) -> None:
            transaction.execute(_SQL["remember"], {"name": VECTOR_INDEX})
            _drop(transaction)

        self._database.run(work)

    def finish(self) -> timedelta:
        """Bring the index back; returns how long it took to build, zero when it was there.

        An index that an interrupted build left behind unfinished is dropped and built anew.
        """
        row = self._database.run(lambda t: t.execute(_SQL["remembered"], {"name": VECTOR_INDEX}).fetchone())
        if row is None:
            return timedelta(0)
        started = datetime.now().astimezone()
        if not self.state().index_is_valid:
            self._database.run(_drop)
            # The definition is PostgreSQL's own text of the index that migrations made.
            definition = cast("LiteralString", row["definition"])
            concurrently = sql.SQL(definition.replace("CREATE INDEX", "CREATE INDEX CONCURRENTLY", 1))  # type: ignore[arg-type]
            self._database.run_outside_transaction(concurrently, maintenance_work_mem=_BUILD_MEMORY)

        def tidy(transaction: Transaction) -> None:
            transaction.execute(_SQL["forget"], {"name": VECTOR_INDEX})
            transaction.execute(_SQL["analyze"])

        self._database.run(tidy)
        return datetime.now().astimezone() - started


def _drop(transaction: Transaction) -> None:
    """Drop the index. Raises Overloaded when somebody, such as another build, does not let go of it."""
    set_local(transaction, lock_timeout=_LOCK_TIMEOUT)
    transaction.execute(_SQL["drop"])
