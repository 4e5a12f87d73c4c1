"""What is counted from time to time, so that a dashboard shows how much there is and who has fallen silent."""

from __future__ import annotations

from pathlib import Path

from knowledge import metrics
from knowledge.db.connection import Database
from knowledge.db.statements import load_statements
from knowledge.documents.reembed import progress
from knowledge.telemetry import one_of_few, record

_SQL = load_statements(Path(__file__).with_name("census.sql"))


def take_census(database: Database) -> None:
    """Record the documents, those of each source and their age, the connections, and a change of model under way.

    Sources beyond the first few, those with the fewest documents, are ``other`` together: their documents added up,
    the oldest age. Raises the store's errors.
    """
    sources = database.run(lambda t: t.execute(_SQL["sources"]).fetchall())
    counted: dict[str, tuple[int, float]] = {}
    for row in sources:
        name = one_of_few(row["source"])
        documents, age_s = counted.get(name, (0, 0.0))
        counted[name] = documents + row["documents"], max(age_s, row["age_s"])
    record(metrics.DOCS, sum(documents for documents, _ in counted.values()))
    for name, (documents, age_s) in counted.items():
        record(metrics.SOURCE_DOCS, documents, source=name)
        record(metrics.SOURCE_AGE, age_s, source=name)
    row = database.run(lambda t: t.execute(_SQL["connections"]).fetchone())
    if row is not None:
        record(metrics.DATABASE_CONNECTIONS, row["connections"])
    share = progress(database)
    if share is not None:
        record(metrics.REEMBED_PROGRESS, share)
