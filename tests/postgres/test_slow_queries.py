"""The last slow queries: fifty of them, kept in the database, without texts, and never at the cost of an answer."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from knowledge import correlation
from knowledge.db.connection import Database, Transaction
from knowledge.documents.ingest import Ingestion
from knowledge.documents.retrieval import Retrieval
from knowledge.documents.search import DocumentSearch
from knowledge.documents.slow_queries import KEPT, SlowQueryLog
from knowledge.embedding.hashing import HashEmbedder
from knowledge.text_hash import text_hasher
from spot_sdk.documents import KnowledgeDocument, Query
from spot_sdk.errors import StoreUnavailable
from spot_sdk.slow_queries import SlowQuery

TEXT = "who may change the bank account of a supplier"


@pytest.fixture
def slow(database: Database) -> SlowQueryLog:
    return SlowQueryLog(database, threshold_ms=0)


@pytest.fixture
def retrieval(search: DocumentSearch, embedder: HashEmbedder, slow: SlowQueryLog) -> Retrieval:
    return Retrieval(search, embedder, hash_text=text_hasher("key"), slow_queries=slow)


def a_query(number: int = 0) -> SlowQuery:
    return SlowQuery(
        asked_at=datetime.now(UTC),
        text_hash=f"{number:016x}",
        strategy="similarity",
        top_k=5,
        min_score=0.0,
        hits=0,
        milliseconds=600.0,
        cache="off",
        embedding_cache="miss",
        embedding_ms=1.0,
    )


def test_a_slow_query_is_kept_with_plans_and_timings_and_without_its_text(
    retrieval: Retrieval, ingestion: Ingestion, slow: SlowQueryLog, database_url: str
) -> None:
    ingestion.upsert([KnowledgeDocument(id="a", content="changing the bank account of a supplier", tags=["policy"])])
    with correlation.correlated_as("request-1"):
        retrieval.answer(Query(text=TEXT, tags="policy", strategy="hybrid", top_k=3, min_score=0.1))
    (kept,) = slow.latest().queries
    assert datetime.now(UTC) - kept.asked_at < timedelta(minutes=1)
    assert (kept.correlation_id, kept.tags, kept.strategy, kept.top_k) == ("request-1", "policy", "hybrid", 3)
    assert (kept.min_score, kept.hits, kept.cache, kept.embedding_cache, kept.error) == (0.1, 1, "off", "miss", None)
    assert [leg.leg for leg in kept.legs][:2] == ["dense", "lexical"]
    assert 0 < sum(leg.milliseconds for leg in kept.legs) + kept.embedding_ms <= kept.milliseconds + 1
    assert kept.text_hash == text_hasher("key")(TEXT)
    with psycopg.connect(database_url) as connection:
        (stored,) = connection.execute("SELECT details::text FROM knowledge_slow_queries").fetchone() or ("",)
    assert not [word for word in TEXT.split() if len(word) > 3 and word in stored]


def test_a_query_that_is_not_slow_is_not_kept(search: DocumentSearch, database: Database) -> None:
    slow = SlowQueryLog(database, threshold_ms=60_000)
    Retrieval(search, HashEmbedder(), slow_queries=slow).answer(Query(text=TEXT))
    assert slow.latest().queries == []
    assert slow.latest().threshold_ms == 60_000


def test_a_kept_answer_went_no_legs_however_slow_it_was(
    search: DocumentSearch, slow: SlowQueryLog, embedder: HashEmbedder
) -> None:
    from knowledge.cache.memory import MemoryCache

    retrieval = Retrieval(search, embedder, answers=MemoryCache(10_000), keep_s=60, slow_queries=slow)
    retrieval.answer(Query(text=TEXT))
    retrieval.answer(Query(text=TEXT))
    latest, first = slow.latest().queries
    assert (first.cache, [leg.leg for leg in first.legs]) == ("miss", ["dense"])
    assert (latest.cache, latest.embedding_cache, latest.embedding_ms, latest.legs) == ("hit", "unused", 0.0, [])


def test_the_last_fifty_stay(slow: SlowQueryLog, database: Database) -> None:
    for number in range(KEPT + 7):
        slow.note(a_query(number))
    assert [int(kept.text_hash, 16) for kept in slow.latest().queries] == list(range(KEPT + 6, 6, -1))
    assert count(database) == KEPT


def count(database: Database) -> int:
    row = database.run(lambda t: t.execute("SELECT count(*) AS n FROM knowledge_slow_queries").fetchone())
    return 0 if row is None else row["n"]


def test_many_at_once_leave_fifty(slow: SlowQueryLog, database: Database, database_url: str) -> None:
    def work(first: int) -> None:
        mine = Database(lambda: database_url)
        for number in range(first, first + 30):
            SlowQueryLog(mine, 0).note(a_query(number))
        mine.close()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(0, 120, 30)))
    slow.note(a_query())
    assert count(database) <= KEPT + 3  # those that a neighbour was removing just then
    slow.note(a_query())
    assert len(slow.latest().queries) == KEPT


@pytest.fixture
def locked(database_url: str) -> Iterator[None]:
    """Somebody holds the table and does not let go."""
    with psycopg.connect(database_url) as holder:
        holder.execute("LOCK TABLE knowledge_slow_queries")
        yield


@pytest.mark.usefixtures("locked")
def test_an_answer_does_not_wait_for_a_list_that_is_held(retrieval: Retrieval, slow: SlowQueryLog) -> None:
    started = datetime.now(UTC)
    assert retrieval.answer(Query(text=TEXT)).documents == []
    assert datetime.now(UTC) - started < timedelta(seconds=3)


def test_an_answer_does_not_need_the_list(retrieval: Retrieval, database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("DROP FUNCTION knowledge_note_slow_query")
    assert retrieval.answer(Query(text=TEXT)).documents == []


def test_a_query_that_fails_slowly_is_kept_with_its_error(
    retrieval: Retrieval, slow: SlowQueryLog, database_url: str
) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("ALTER TABLE knowledge_documents RENAME TO gone")
    with pytest.raises(StoreUnavailable):
        retrieval.answer(Query(text=TEXT))
    (kept,) = slow.latest().queries
    assert (kept.error, kept.hits) == ("store_unavailable", 0)


def test_a_user_who_may_only_read_can_note_one(database_url: str) -> None:
    with psycopg.connect(database_url) as owner, owner.transaction(force_rollback=True):  # the role goes with it
        owner.execute("CREATE ROLE a_reader")
        owner.execute("GRANT a_reader TO CURRENT_USER")
        owner.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO a_reader")
        owner.execute("SET LOCAL ROLE a_reader")
        owner.execute("SELECT knowledge_note_slow_query(%s::jsonb, 50)", (a_query(5).model_dump_json(),))
        (kept,) = owner.execute("SELECT details->>'text_hash' FROM knowledge_slow_queries").fetchone() or ("",)
        assert kept == f"{5:016x}"
        with pytest.raises(psycopg.errors.InsufficientPrivilege), owner.transaction():
            owner.execute("DELETE FROM knowledge_slow_queries")


def test_the_database_knows_the_request_and_only_for_as_long_as_it_lasts(database_url: str) -> None:
    database = Database(lambda: database_url, application_name="knowledge-query")

    def shown(transaction: Transaction) -> str:
        """The name that somebody else sees."""
        pid = (transaction.execute("SELECT pg_backend_pid() AS pid").fetchone() or {})["pid"]
        with psycopg.connect(database_url) as other:
            row = other.execute("SELECT application_name FROM pg_stat_activity WHERE pid = %s", (pid,)).fetchone()
            return str(row and row[0])

    with correlation.correlated_as("request-1" + "x" * 100):
        assert database.run(shown) == ("knowledge-query request-1" + "x" * 100)[:63]
    assert database.run(shown) == "knowledge-query"
    database.close()
