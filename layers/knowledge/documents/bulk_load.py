"""Bulk load: the first load of very many documents, without keeping the large indexes up to date for each of them.

    begin ──► upsert, import, ingest, … as always ──► finish

``begin`` drops the vector indexes, those of frequent tags included, and the index of words, and remembers their
definitions, in one transaction; ``finish`` builds them again beside readers and writers (``CREATE INDEX
CONCURRENTLY``). In between queries are answered by scans: right, and slower. When a load stops half-way, whatever is
stored is stored, and ``finish`` - or another load, and then ``finish`` - goes on from there. It pays when a load adds
more than about a seventh of the table (docs/performance.md).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import LiteralString, NamedTuple, cast

from psycopg import sql

from knowledge.db.connection import Database, Transaction, set_local
from knowledge.db.statements import load_statements
from knowledge.documents.vector_indexes import TAG_INDEX_PREFIX, VECTOR_INDEX
from spot_sdk.errors import Conflict

WORDS_INDEX = "knowledge_document_words_lexemes"

_LOCK_TIMEOUT = "10s"  # for the moment's exclusive lock that dropping an index takes
_BUILD_MEMORY = "1GB"  # the graph of 300,000 vectors of 384 dimensions; more spills, and is slower

_SQL = load_statements(Path(__file__).with_name("bulk_load.sql"))


class BulkLoadState(NamedTuple):
    """``put_away_at`` is None when no bulk load is under way; ``index_is_valid`` when the main index serves queries."""

    put_away_at: datetime | None
    index_is_valid: bool


class BulkLoad:
    """Puts the indexes away and brings them back. Safe to call twice, and after a crash at any point."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def state(self) -> BulkLoadState:
        """Whether a bulk load is under way, and whether the index over all rows serves queries."""
        row = self._database.run(lambda t: t.execute(_SQL["state"], {"name": VECTOR_INDEX}).fetchone())
        assert row is not None
        return BulkLoadState(**row)

    def begin(self) -> None:
        """Put the indexes away.

        Raises Overloaded when long queries do not let go of them within ten seconds, Conflict while the documents are
        being moved to another embedding model.
        """

        def work(transaction: Transaction) -> None:
            if transaction.execute(_SQL["change_of_model"]).fetchone() is not None:
                raise Conflict("a change of the embedding model is under way; let `knowledge reembed` end first")
            transaction.execute(
                _SQL["remember"], {"name": VECTOR_INDEX, "words": WORDS_INDEX, "prefix": TAG_INDEX_PREFIX}
            )
            for row in transaction.execute(_SQL["remembered"], {"name": VECTOR_INDEX}).fetchall():
                _drop(transaction, row["name"])

        self._database.run(work)

    def finish(self) -> timedelta:
        """Bring the indexes back; returns how long they took to build, zero when they were there.

        An index that an interrupted build left behind unfinished is dropped and built anew; those that are back stay.
        """
        rows = self._database.run(lambda t: t.execute(_SQL["remembered"], {"name": VECTOR_INDEX}).fetchall())
        if not rows:
            return timedelta(0)
        started = datetime.now().astimezone()
        for row in rows:
            self._bring_back(row["name"], row["definition"])
        self._database.run(lambda t: t.execute(_SQL["analyze"]))
        return datetime.now().astimezone() - started

    def _bring_back(self, name: str, definition: str) -> None:
        valid = self._database.run(lambda t: t.execute(_SQL["is_valid"], {"name": name}).fetchone())
        if valid is None or not valid["is_valid"]:
            self._database.run(lambda transaction: _drop(transaction, name))
            # The definition is PostgreSQL's own text of an index that a migration or `TagIndexes` made.
            concurrently = definition.replace("CREATE INDEX", "CREATE INDEX CONCURRENTLY", 1)
            self._database.run_outside_transaction(
                sql.SQL(cast("LiteralString", concurrently)), maintenance_work_mem=_BUILD_MEMORY
            )
        self._database.run(lambda t: t.execute(_SQL["forget"], {"name": name}))


def _drop(transaction: Transaction, name: str) -> None:
    """Drop an index. Raises Overloaded when somebody, such as another build, does not let go of it."""
    set_local(transaction, lock_timeout=_LOCK_TIMEOUT)
    transaction.execute(sql.SQL(_SQL["drop"]).format(name=sql.Identifier(name)))
