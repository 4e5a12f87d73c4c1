"""Bulk load: right answers throughout, and no way to lose the index."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from knowledge.db.connection import Database
from knowledge.documents.bulk_load import VECTOR_INDEX, WORDS_INDEX, BulkLoad
from knowledge.documents.ingest import Ingestion
from knowledge.documents.retrieval import Retrieval
from knowledge.documents.search import DocumentSearch
from knowledge.embedding.hashing import HashEmbedder
from spot_sdk.documents import KnowledgeDocument, Query


@pytest.fixture
def bulk_load(database: Database) -> BulkLoad:
    return BulkLoad(database)


def documents(count: int) -> list[KnowledgeDocument]:
    return [KnowledgeDocument(id=f"d{n:04d}", content=f"note {n} on topic {n % 17}", tags=["t"]) for n in range(count)]


def definition(url: str, name: str = VECTOR_INDEX) -> str | None:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT indexdef FROM pg_indexes WHERE indexname = %s", (name,)).fetchone()
    return row[0] if row else None


def test_the_index_comes_back_as_it_was(bulk_load: BulkLoad, ingestion: Ingestion, database_url: str) -> None:
    before = definition(database_url)
    bulk_load.begin()
    assert definition(database_url) is None
    assert bulk_load.state().put_away_at is not None
    ingestion.upsert(documents(50))
    bulk_load.finish()
    assert definition(database_url) == before
    assert bulk_load.state() == (None, True)


def test_the_index_of_words_goes_and_comes_with_it(
    bulk_load: BulkLoad, ingestion: Ingestion, search: DocumentSearch, database_url: str
) -> None:
    before = definition(database_url, WORDS_INDEX)
    bulk_load.begin()
    assert definition(database_url, WORDS_INDEX) is None
    ingestion.upsert(documents(50))
    assert len(search.by_words("topic 3", None, 100).scores) == 50
    bulk_load.finish()
    assert definition(database_url, WORDS_INDEX) == before


def test_beginning_or_finishing_twice_changes_nothing(bulk_load: BulkLoad, database_url: str) -> None:
    before = definition(database_url)
    bulk_load.begin()
    bulk_load.begin()
    bulk_load.finish()
    bulk_load.finish()
    assert definition(database_url) == before


def test_an_unfinished_index_is_built_anew(bulk_load: BulkLoad, ingestion: Ingestion, database_url: str) -> None:
    before = definition(database_url)
    bulk_load.begin()
    ingestion.upsert(documents(20))
    assert before is not None
    with psycopg.connect(database_url) as writer, psycopg.connect(database_url, autocommit=True) as builder:
        writer.execute("DELETE FROM knowledge_documents WHERE id = 'd0000'")  # the build waits for this to end
        builder.execute("SET statement_timeout = '300ms'")
        with pytest.raises(psycopg.errors.QueryCanceled):
            builder.execute(before.replace("INDEX", "INDEX CONCURRENTLY", 1))  # type: ignore[arg-type]
        writer.rollback()
    assert not bulk_load.state().index_is_valid
    bulk_load.finish()
    assert bulk_load.state().index_is_valid
    assert definition(database_url) == before


def test_queries_and_writes_go_on_while_the_index_is_away_and_built(
    bulk_load: BulkLoad, ingestion: Ingestion, database_url: str, embedder: HashEmbedder
) -> None:
    ingestion.upsert(documents(300))
    bulk_load.begin()

    def ask(number: int) -> str:
        own = Database(lambda: database_url)
        try:
            retrieval = Retrieval(DocumentSearch(own, embedder.model), embedder)
            text = documents(300)[number].content
            return retrieval.answer(Query(text=text, tags="t", top_k=1)).documents[0].id
        finally:
            own.close()

    with ThreadPoolExecutor(4) as pool:
        answers = pool.map(ask, range(0, 300, 10))
        bulk_load.finish()
        assert list(answers) == [f"d{n:04d}" for n in range(0, 300, 10)]
