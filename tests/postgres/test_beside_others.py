"""What others do at that moment - delete, change the language, take a lock, give up - is no failure of a question."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing

import psycopg
import pytest

from knowledge.cache.memory import MemoryCache
from knowledge.db.connection import Database
from knowledge.deadline import deadline_in
from knowledge.documents import people, reembed
from knowledge.documents.bulk_load import BulkLoad
from knowledge.documents.ingest import Ingestion
from knowledge.documents.retrieval import Retrieval
from knowledge.documents.search import DocumentSearch
from knowledge.documents.store import DocumentStore
from knowledge.documents.words import WordIndex
from knowledge.embedding.base import Embedder
from spot_sdk.documents import KnowledgeDocument, Query
from spot_sdk.errors import Conflict, InvalidInput, Overloaded
from tests.postgres.other_embedder import OtherEmbedder

PERSON = KnowledgeDocument(
    id="person", content="profile", metadata={"name": "Jane Doe", "email": "jane@example.com"}, tags=["employee"]
)


def test_somebody_who_was_found_and_is_gone_is_missing_and_no_more(
    retrieval: Retrieval, ingestion: Ingestion, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingestion.upsert([PERSON])
    found = people.PeopleLookup._documents

    def after_a_deletion(self: people.PeopleLookup, ranked: object) -> list[KnowledgeDocument]:
        with psycopg.connect(database_url, autocommit=True) as other:
            other.execute("DELETE FROM knowledge_documents")
        return found(self, ranked)  # type: ignore[arg-type]

    monkeypatch.setattr(people.PeopleLookup, "_documents", after_a_deletion)
    for strategy in ("people", "hybrid"):
        assert retrieval.answer(Query(text="jane@example.com", strategy=strategy)).documents == []  # type: ignore[arg-type]


def test_writers_wait_for_a_change_of_language(database: Database, ingestion: Ingestion, database_url: str) -> None:
    ingestion.upsert([KnowledgeDocument(id="before", content="payments are running")])
    changed, may_end = threading.Event(), threading.Event()

    class Held(Database):
        """Keeps its transaction open until it may end."""

        def run(self, work: Callable[..., object], **options: bool) -> object:  # type: ignore[override]
            def held(transaction: object) -> object:
                result = work(transaction)
                changed.set()
                assert may_end.wait(30)
                return result

            return super().run(held, **options)

    with closing(Held(lambda: database_url)) as other:
        language = threading.Thread(target=WordIndex(other).use_language, args=("simple",))
        language.start()
        assert changed.wait(30)
        writer = threading.Thread(
            target=ingestion.upsert, args=([KnowledgeDocument(id="during", content="payments are running")],)
        )
        writer.start()
        writer.join(0.5)
        assert writer.is_alive()
        may_end.set()
        writer.join(30)
        language.join(30)
    with psycopg.connect(database_url) as reader:
        words = dict(reader.execute("SELECT id, lexemes::text FROM knowledge_document_words").fetchall())
    assert words["before"] == words["during"]
    assert "running" in words["during"]


def test_kept_answers_end_with_the_language_they_were_found_in(
    database: Database, ingestion: Ingestion, search: DocumentSearch, embedder: Embedder
) -> None:
    ingestion.upsert([KnowledgeDocument(id="a", content="the runs of payments")])
    retrieval = Retrieval(search, embedder, answers=MemoryCache(1_000_000), keep_s=300)
    question = Query(text="running payments", strategy="hybrid", debug=True)
    caches: list[str] = []
    for language in ("english", "simple", "simple"):
        WordIndex(database).use_language(language)
        debug = retrieval.answer(question).debug
        assert debug is not None
        caches.append(debug.cache)
    assert caches == ["miss", "miss", "hit"]


def test_a_language_that_there_is_not_is_refused_by_its_name(database: Database) -> None:
    with pytest.raises(InvalidInput, match="klingon"):
        WordIndex(database).use_language("klingon")


def test_no_question_waits_for_a_lock_longer_than_its_share_and_none_is_left_waiting(
    search: DocumentSearch, database_url: str
) -> None:
    search.moment()
    with psycopg.connect(database_url) as holder:
        holder.execute("LOCK TABLE knowledge_documents IN ACCESS EXCLUSIVE MODE")
        for _ in range(3):
            with deadline_in(2.0), pytest.raises(Overloaded):
                search.moment()
        with psycopg.connect(database_url, autocommit=True) as observer:
            waiting = observer.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            ).fetchone()
    assert waiting == (0,)


def test_a_bulk_load_does_not_begin_while_the_model_changes(database: Database, ingestion: Ingestion) -> None:
    ingestion.upsert([PERSON])
    reembed.Reembedding(database, OtherEmbedder()).begin()
    with pytest.raises(Conflict, match="reembed"):
        BulkLoad(database).begin()


def test_a_change_of_model_that_was_given_up_says_so(database: Database, ingestion: Ingestion) -> None:
    ingestion.upsert([PERSON])
    change = reembed.Reembedding(database, OtherEmbedder())
    change.begin()
    reembed.abort(database)
    with pytest.raises(Conflict, match="aborted"):
        change.fill(lambda done, total: None)


def test_stores_that_share_a_cache_have_answers_of_their_own(
    database_url: str, other_database_url: str, embedder: Embedder
) -> None:
    cache = MemoryCache(1_000_000)
    said: list[list[str]] = []
    for url, text in ((database_url, "of production"), (other_database_url, "of staging")):
        with closing(Database(lambda url=url: url)) as database:
            Ingestion(DocumentStore(database, embedder.model), embedder).upsert(
                [KnowledgeDocument(id="a", content=text)]
            )
            retrieval = Retrieval(DocumentSearch(database, embedder.model), embedder, answers=cache, keep_s=300)
            said.append([document.content for document in retrieval.answer(Query(text="what")).documents])
    assert said == [["of production"], ["of staging"]]
