"""The store as it is wired on the server, on a real PostgreSQL, with the model that needs no files."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from knowledge.db.connection import Database
from knowledge.documents.ingest import Ingestion
from knowledge.documents.retrieval import Retrieval
from knowledge.documents.search import DocumentSearch
from knowledge.documents.store import DocumentStore
from knowledge.documents.sync_run import SourceSync
from knowledge.embedding.hashing import HashEmbedder


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = Database(lambda: database_url)
    yield database
    database.close()


@pytest.fixture
def embedder() -> HashEmbedder:
    return HashEmbedder()


@pytest.fixture
def store(database: Database, embedder: HashEmbedder) -> DocumentStore:
    return DocumentStore(database, embedder.model)


@pytest.fixture
def ingestion(store: DocumentStore, embedder: HashEmbedder) -> Ingestion:
    return Ingestion(store, embedder)


@pytest.fixture
def search(database: Database, embedder: HashEmbedder) -> DocumentSearch:
    return DocumentSearch(database, embedder.model)


@pytest.fixture
def retrieval(search: DocumentSearch, embedder: HashEmbedder) -> Retrieval:
    return Retrieval(search, embedder)


@pytest.fixture
def source_sync(database: Database, store: DocumentStore, ingestion: Ingestion) -> SourceSync:
    return SourceSync(database, store, ingestion)
