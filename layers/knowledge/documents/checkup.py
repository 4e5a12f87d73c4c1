"""What maintenance is due, in words, with the command that does it."""

from __future__ import annotations

from pathlib import Path

from knowledge.db.connection import Database
from knowledge.db.statements import load_statements
from knowledge.documents.bulk_load import BulkLoad
from knowledge.documents.tag_indexes import TagIndexes
from knowledge.documents.vector_indexes import VECTOR_INDEX
from knowledge.finding import Finding
from spot_sdk.documents import EmbeddingModel
from spot_sdk.errors import ModelMismatch

_SQL = load_statements(Path(__file__).with_name("checkup.sql"))


def check_up(database: Database, model: EmbeddingModel) -> list[Finding]:
    """All that is due in the documents' tables; changes nothing. Raises the store's errors."""
    tag_indexes = TagIndexes(database, model)
    try:
        due = tag_indexes.plan()
    except ModelMismatch as mismatch:
        command = "set EMBEDDING_BACKEND and EMBEDDING_MODEL to the stored model"
        return [Finding(subject="model", message=mismatch.message, command=command)]
    findings = _of_bulk_load(database)
    findings += [
        Finding(
            subject="tag-index",
            message=f"{change.action} the index of {change.tag}: {change.reason}"
            + (f" ({change.documents:,} documents)" if change.documents else ""),
            command="knowledge tag-indexes apply",
        )
        for change in due
    ]
    if tag_indexes.needs_analyze():
        message = "PostgreSQL's picture of the documents is missing or old; plans are chosen by it"
        findings.append(Finding(subject="analyze", message=message, command="knowledge tag-indexes apply"))
    row = database.run(lambda t: t.execute(_SQL["long_expired"]).fetchone()) or {"documents": 0}
    if row["documents"]:
        message = f"documents that expired more than a day ago were not removed: {row['documents']:,}"
        command = "see why the function ttl-cleanup does not run: its log, and its rule in EventBridge"
        findings.append(Finding(subject="expired", message=message, command=command))
    return findings


def _of_bulk_load(database: Database) -> list[Finding]:
    state = BulkLoad(database).state()
    if state.put_away_at is not None:
        message = f"a bulk load is under way since {state.put_away_at:%Y-%m-%d %H:%M} UTC; queries are right, and slow"
        return [Finding(subject="bulk-load", message=message, command="knowledge bulk-load finish")]
    if not state.index_is_valid:
        command = f'psql "$(knowledge dsn)" -c "REINDEX INDEX CONCURRENTLY {VECTOR_INDEX}"'
        message = "the vector index is not usable; queries are right, and slow"
        return [Finding(subject="vector-index", message=message, command=command)]
    return []
