"""Clean-up of expired documents beside those who write and refresh them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from knowledge.db.connection import Database
from knowledge.documents import expiry
from knowledge.documents.expiry import Expiry
from knowledge.documents.ingest import Ingestion
from knowledge.documents.store import DocumentStore
from spot_sdk.documents import KnowledgeDocument

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
PATIENCE_S = 20.0


def always() -> bool:
    return True


def expired(*ids: str) -> list[KnowledgeDocument]:
    return [KnowledgeDocument(id=id_, content=f"words of {id_}", expires_at=LONG_AGO) for id_ in ids]


def stored(database: Database) -> set[str]:
    return {row["id"] for row in database.run(lambda t: t.execute("SELECT id FROM knowledge_documents").fetchall())}


@pytest.fixture
def other(database_url: str) -> Iterator[psycopg.Connection]:
    """Somebody else's connection, with a transaction of its own."""
    with psycopg.connect(database_url) as connection:
        yield connection


def wait_until_blocked(database_url: str) -> None:
    """Return when some statement waits for a lock of another."""
    with psycopg.connect(database_url, autocommit=True) as looking:
        until = datetime.now(UTC) + timedelta(seconds=PATIENCE_S)
        while datetime.now(UTC) < until:
            row = looking.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'").fetchone()
            if row is not None and row[0]:
                return
    raise AssertionError("nobody waits for a lock")


def test_only_what_has_expired_goes(store: DocumentStore, ingestion: Ingestion, database: Database) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    ingestion.upsert(
        [
            *expired("old"),
            KnowledgeDocument(id="fresh", content="x", expires_at=later),
            KnowledgeDocument(id="for ever", content="x"),
        ]
    )
    assert Expiry(store).clean_up(always).model_dump() == {"deleted": 1, "batches": 1, "finished": True}
    assert stored(database) == {"fresh", "for ever"}


def test_works_in_batches_and_stops_when_time_runs_out(
    store: DocumentStore, ingestion: Ingestion, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingestion.upsert(expired(*(f"d{n}" for n in range(10))))
    monkeypatch.setattr(expiry, "BATCH", 3)
    has_time = iter([True, True, False])
    first = Expiry(store).clean_up(lambda: next(has_time))
    assert (first.deleted, first.batches, first.finished) == (6, 2, False)
    assert len(stored(database)) == 4
    second = Expiry(store).clean_up(always)
    assert (second.deleted, second.finished) == (4, True)
    assert stored(database) == set()


def test_a_document_that_a_writer_holds_is_passed_over(
    store: DocumentStore, ingestion: Ingestion, database: Database, other: psycopg.Connection
) -> None:
    ingestion.upsert(expired("held", "free"))
    other.execute("SELECT FROM knowledge_documents WHERE id = 'held' FOR UPDATE")
    assert store.delete_expired(100) == 1  # without waiting: the writer does not let go before the end of this test
    assert stored(database) == {"held"}
    other.rollback()
    assert store.delete_expired(100) == 1


def test_a_document_refreshed_meanwhile_stays(
    store: DocumentStore, ingestion: Ingestion, database: Database, other: psycopg.Connection
) -> None:
    ingestion.upsert(expired("a", "b"))
    other.execute("UPDATE knowledge_documents SET expires_at = now() + interval '1 hour' WHERE id = 'a'")
    assert store.delete_expired(100) == 1
    other.commit()
    assert store.delete_expired(100) == 0
    assert stored(database) == {"a"}


def test_a_writer_of_the_same_document_waits_for_its_removal_and_then_creates_it(
    ingestion: Ingestion, database: Database, other: psycopg.Connection, database_url: str
) -> None:
    ingestion.upsert(expired("a"))
    other.execute("DELETE FROM knowledge_documents WHERE expires_at < now()")  # as clean-up does, not yet committed
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(ingestion.upsert, [KnowledgeDocument(id="a", content="words of a, again")])
        wait_until_blocked(database_url)
        other.commit()
        assert writing.result(PATIENCE_S).results[0].status == "created"
    assert stored(database) == {"a"}
