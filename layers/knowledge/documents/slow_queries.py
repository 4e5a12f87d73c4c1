"""The last slow queries, kept in the database: they outlive the environment that answered them."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

from knowledge import metrics
from knowledge.db.connection import Database
from knowledge.db.statements import load_statements
from knowledge.deadline import deadline_in
from knowledge.telemetry import logger, record
from spot_sdk.errors import KnowledgeError
from spot_sdk.slow_queries import SlowQueries, SlowQuery

KEPT = 50
_PATIENCE_S = 0.2

_SQL = load_statements(Path(__file__).with_name("slow_queries.sql"))


class SlowQueryLog:
    """Keeps the last queries that took ``threshold_ms`` milliseconds or longer."""

    def __init__(self, database: Database, threshold_ms: float) -> None:
        self._database = database
        self._threshold_ms = threshold_ms

    def is_slow(self, milliseconds: float) -> bool:
        return milliseconds >= self._threshold_ms

    def note(self, query: SlowQuery) -> None:
        """Log it, and keep it if that is done in a moment, which a replica refuses.

        Never raises: the query is answered, and this is for somebody else.
        """
        record(metrics.SLOW_QUERIES)
        details = query.model_dump_json(exclude={"asked_at"})
        logger.warning("slow query", query=query.model_dump(mode="json", exclude={"asked_at", "correlation_id"}))
        try:
            with deadline_in(_PATIENCE_S):
                self._database.run(lambda t: t.execute(_SQL["note"], {"details": details, "keep": KEPT}))
        except KnowledgeError as error:
            logger.warning("a slow query could not be kept", reason=type(error).__name__)

    def latest(self) -> SlowQueries:
        """What is kept, newest first. Raises the store's errors."""
        rows = self._database.run(lambda t: t.execute(_SQL["latest"], {"keep": KEPT}).fetchall())
        queries = [SlowQuery(asked_at=row["asked_at"].astimezone(UTC), **row["details"]) for row in rows]
        return SlowQueries(threshold_ms=self._threshold_ms, queries=queries)
