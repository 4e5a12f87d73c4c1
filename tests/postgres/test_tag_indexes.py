"""Indexes of frequent tags: made and dropped beside writers, mended after a kill, known to bulk load and doctor."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from cli.main import run
from knowledge.db.connection import Database
from knowledge.documents import tag_indexes as module
from knowledge.documents.bulk_load import BulkLoad
from knowledge.documents.checkup import check_up
from knowledge.documents.ingest import Ingestion
from knowledge.documents.search import DocumentSearch
from knowledge.documents.tag_indexes import Existing, TagIndexes, changes, lists_for
from knowledge.documents.vector_indexes import tag_index_name
from knowledge.embedding.hashing import HashEmbedder
from knowledge.search import knn
from spot_sdk.documents import KnowledgeDocument
from spot_sdk.errors import Conflict
from spot_sdk.tag_expression import parse

ODD_TAG = "Ü-人事部:" + "x" * 120


@pytest.fixture(autouse=True)
def _small_is_frequent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tags of 125 documents are worth an index, and 100 documents are scanned."""
    monkeypatch.setattr(knn, "EXACT_UP_TO_ROWS", 100)


@pytest.fixture
def tag_indexes(database: Database, embedder: HashEmbedder, ingestion: Ingestion) -> TagIndexes:
    ingestion.upsert(
        [
            KnowledgeDocument(
                id=f"d{n:03d}",
                content=f"note {n} on topic {n % 17}",
                tags=["page", *[ODD_TAG] * (n % 2), *["rare"] * (n % 10 == 0)],
            )
            for n in range(400)
        ]
    )
    return TagIndexes(database, embedder.model)


@pytest.fixture
def connection(database_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


def validity(connection: psycopg.Connection) -> dict[str, bool]:
    return dict(
        connection.execute(
            "SELECT relname, indisvalid FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid"
            " WHERE starts_with(relname, 'knowledge_documents_tag_')"
        ).fetchall()
    )


BOTH = {tag_index_name("page"): True, tag_index_name(ODD_TAG): True}


def test_frequent_tags_get_indexes_once(tag_indexes: TagIndexes, connection: psycopg.Connection) -> None:
    told: list[str] = []
    done = tag_indexes.apply(lambda change: told.append(change.tag))
    assert told == [change.tag for change in done] == ["page", ODD_TAG]
    assert validity(connection) == BOTH
    assert tag_indexes.plan() == tag_indexes.apply(lambda _: None) == []


def test_a_query_for_the_tag_uses_its_index(
    tag_indexes: TagIndexes, database: Database, embedder: HashEmbedder, connection: psycopg.Connection
) -> None:
    tag_indexes.apply(lambda _: None)
    connection.execute("DROP INDEX knowledge_documents_embedding")
    search = DocumentSearch(database, embedder.model)
    found = search.nearest(embedder.embed("note 7 on topic 7"), parse(ODD_TAG), 5)
    assert found.plan.path == "tag_indexes"
    assert found.rows[0].id == "d007"
    used = connection.execute("SELECT pg_stat_force_next_flush(), pg_stat_clear_snapshot()").fetchone()
    assert used is not None
    database.close()  # its session's counts are written then
    count = connection.execute(
        "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = %s", (tag_index_name(ODD_TAG),)
    ).fetchone()
    assert count == (1,)


def test_a_tag_that_is_frequent_no_more_loses_its_index(
    tag_indexes: TagIndexes, ingestion: Ingestion, connection: psycopg.Connection
) -> None:
    tag_indexes.apply(lambda _: None)
    connection.execute("UPDATE knowledge_documents SET tags = '{page}' WHERE id > 'd150'")
    assert [change.action for change in tag_indexes.plan()] == ["drop"]
    tag_indexes.apply(lambda _: None)
    assert validity(connection) == {tag_index_name("page"): True}


def test_what_a_killed_build_left_is_built_anew(tag_indexes: TagIndexes, connection: psycopg.Connection) -> None:
    tag_indexes.apply(lambda _: None)
    row = connection.execute("SELECT indexdef FROM pg_indexes WHERE indexname = %s", (tag_index_name("page"),))
    (definition,) = row.fetchone() or ("",)
    connection.execute(f"DROP INDEX {tag_index_name('page')}")  # type: ignore[arg-type]
    with psycopg.connect(connection.info.dsn, password=connection.info.password) as writer:
        writer.execute("DELETE FROM knowledge_documents WHERE id = 'd000'")  # the build waits for this to end
        connection.execute("SET statement_timeout = '300ms'")
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute(definition.replace("INDEX", "INDEX CONCURRENTLY", 1))
        connection.execute("RESET statement_timeout")
        writer.rollback()
    assert validity(connection)[tag_index_name("page")] is False
    assert [(change.action, change.reason) for change in tag_indexes.plan()] == [("rebuild", "left unfinished")]
    tag_indexes.apply(lambda _: None)
    assert validity(connection) == BOTH


def test_queries_and_writes_go_on_meanwhile(tag_indexes: TagIndexes, database_url: str, embedder: HashEmbedder) -> None:
    def ask_and_write(number: int) -> str:
        own = Database(lambda: database_url)
        try:
            own.run(lambda t: t.execute("UPDATE knowledge_documents SET stored_at = now() WHERE id = 'd001'"))
            vector = embedder.embed(f"note {number} on topic {number % 17}")
            return DocumentSearch(own, embedder.model).nearest(vector, parse("page"), 1).rows[0].id
        finally:
            own.close()

    with ThreadPoolExecutor(3) as pool:
        answers = pool.map(ask_and_write, range(0, 400, 10))
        tag_indexes.apply(lambda _: None)
        assert list(answers) == [f"d{n:03d}" for n in range(0, 400, 10)]


def test_bulk_load_puts_them_away_and_brings_them_back(
    tag_indexes: TagIndexes, database: Database, connection: psycopg.Connection
) -> None:
    tag_indexes.apply(lambda _: None)
    BulkLoad(database).begin()
    assert validity(connection) == {}
    assert tag_indexes.plan() == []
    with pytest.raises(Conflict, match="bulk-load finish"):
        tag_indexes.apply(lambda _: None)
    BulkLoad(database).finish()
    assert validity(connection) == BOTH
    assert tag_indexes.plan() == []


def test_the_check_up_names_what_is_due_and_then_nothing(
    tag_indexes: TagIndexes, database: Database, embedder: HashEmbedder, connection: psycopg.Connection
) -> None:
    connection.execute("UPDATE knowledge_documents SET expires_at = now() - interval '2 days' WHERE id = 'd000'")
    due = {finding.subject: finding for finding in check_up(database, embedder.model)}
    assert set(due) == {"tag-index", "expired"}
    assert due["tag-index"].command == "knowledge tag-indexes apply"
    assert due["expired"].message.endswith("not removed: 1")
    tag_indexes.apply(lambda _: None)
    connection.execute("DELETE FROM knowledge_documents WHERE id = 'd000'")
    assert check_up(database, embedder.model) == []
    BulkLoad(database).begin()
    assert [finding.command for finding in check_up(database, embedder.model)] == ["knowledge bulk-load finish"]


def test_the_check_up_names_a_lost_index_old_statistics_and_another_model(
    database: Database, embedder: HashEmbedder, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ANALYZE_AFTER_ROWS", -1)
    connection.execute("DROP INDEX knowledge_documents_embedding")
    assert [finding.subject for finding in check_up(database, embedder.model)] == ["vector-index", "analyze"]
    other = embedder.model.model_copy(update={"version": "2"})
    assert [finding.subject for finding in check_up(database, other)] == ["model"]


def test_the_commands_end_as_documented(
    tag_indexes: TagIndexes, database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--database", database_url, "--embedding-backend", "hash")
    assert run(("doctor", *where)) == 1
    assert "a frequent tag without an index (400 documents)" in capsys.readouterr().out
    assert run(("tag-indexes", "plan", *where)) == 0
    assert run(("tag-indexes", "apply", *where)) == 0
    assert run(("doctor", *where, "--json")) == 0
    assert '"due": []' in capsys.readouterr().out


def test_cells_grow_with_the_documents() -> None:
    assert [lists_for(n) for n in (50, 5_000, 100_000, 1_000_000)] == [1, 50, 500, 1_000]


def test_an_index_made_for_far_fewer_documents_is_due() -> None:
    name = tag_index_name("page")
    grown = [Existing(name, is_valid=True, condition="", lists=20, is_being_built=False)]
    assert [change.action for change in changes([("page", 50_000)], grown, 5_000)] == ["rebuild"]
    assert changes([("page", 4_000)], grown, 5_000) == []


def test_what_somebody_builds_is_left_to_them() -> None:
    building = [Existing(tag_index_name("page"), is_valid=False, condition="", lists=50, is_being_built=True)]
    assert changes([("page", 5_000)], building, 5_000) == changes([], building, 5_000) == []
