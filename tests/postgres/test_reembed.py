"""Another embedding model while queries and writes go on."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from knowledge.db.connection import Database
from knowledge.documents import reembed
from knowledge.documents.bulk_load import BulkLoad
from knowledge.documents.ingest import Ingestion
from knowledge.documents.reembed import Reembedding, abort, drop_old, state
from knowledge.documents.retrieval import Retrieval
from knowledge.documents.search import DocumentSearch
from knowledge.documents.store import DocumentStore
from knowledge.embedding.hashing import HashEmbedder
from spot_sdk.documents import KnowledgeDocument, Query
from spot_sdk.errors import Conflict, EmbeddingFailed, ModelMismatch
from tests.postgres.other_embedder import OtherEmbedder


@pytest.fixture
def other() -> OtherEmbedder:
    return OtherEmbedder()


@pytest.fixture
def change(database: Database, other: OtherEmbedder) -> Reembedding:
    return Reembedding(database, other)


def documents(count: int) -> list[KnowledgeDocument]:
    return [KnowledgeDocument(id=f"d{n:03d}", content=f"all about subject {n}", tags=["t"]) for n in range(count)]


def silent(*_: object) -> None:
    pass


def run(change: Reembedding) -> list[str]:
    told: list[str] = []
    change.run(told.append, silent)
    return told


def answers(
    database: Database, embedder: HashEmbedder, text: str = "all about subject 3", top_k: int = 100
) -> list[str]:
    retrieval = Retrieval(DocumentSearch(database, embedder.model), embedder)
    return [document.id for document in retrieval.answer(Query(text=text, top_k=top_k)).documents]


def shape(database_url: str) -> list[tuple[object, ...]]:
    """Columns, indexes and triggers of the documents."""
    with psycopg.connect(database_url) as connection:
        return connection.execute(
            """SELECT 'column', attname, format_type(atttypid, atttypmod) || attnotnull FROM pg_attribute
               WHERE attrelid = 'knowledge_documents'::regclass AND attnum > 0 AND NOT attisdropped
               UNION ALL SELECT 'index', relname, pg_get_indexdef(indexrelid) FROM pg_index
               JOIN pg_class ON pg_class.oid = indexrelid WHERE indrelid = 'knowledge_documents'::regclass
               UNION ALL SELECT 'trigger', tgname, pg_get_triggerdef(oid) FROM pg_trigger
               WHERE tgrelid = 'knowledge_documents'::regclass AND NOT tgisinternal
               ORDER BY 1, 2"""
        ).fetchall()


def test_moves_every_document_and_looks_as_before(
    database: Database, ingestion: Ingestion, embedder: HashEmbedder, change: Reembedding, other: OtherEmbedder,
    database_url: str,
) -> None:  # fmt: skip
    ingestion.upsert(documents(150))
    before = shape(database_url)
    assert run(change) == ["embedding the documents", "building the index", "switching", "checking all rows"]
    with pytest.raises(ModelMismatch, match="other 7"):
        answers(database, embedder)
    assert len(answers(database, other)) == 100
    assert answers(database, other, top_k=1) == ["d003"]
    assert state(database).has_old_vectors
    assert drop_old(database)
    assert not drop_old(database)
    after = [row for row in shape(database_url) if row[1] != "embedding"]
    assert after == [row for row in before if row[1] != "embedding"]
    assert ("column", "embedding", "vector(64)true") in shape(database_url)
    assert state(database) == ("other 7 (64 dimensions)", None, None, False)


def test_until_the_switch_everything_is_answered_from_todays_model(
    database: Database, ingestion: Ingestion, embedder: HashEmbedder, change: Reembedding
) -> None:
    ingestion.upsert(documents(10))
    expected = answers(database, embedder)
    change.begin()
    assert answers(database, embedder) == expected
    change.fill(silent)
    assert answers(database, embedder) == expected
    assert ingestion.upsert([KnowledgeDocument(id="new", content="new")]).created == 1


def test_what_is_written_meanwhile_has_the_vector_of_its_newest_text(
    database: Database, ingestion: Ingestion, change: Reembedding, other: OtherEmbedder
) -> None:
    ingestion.upsert(documents(5))
    change.begin()
    change.fill(silent)
    ingestion.upsert(
        [
            KnowledgeDocument(id="d001", content="now of bananas"),
            KnowledgeDocument(id="d002", content="all about subject 2", tags=["other"]),  # the text is the same
            KnowledgeDocument(id="new", content="fresh oranges"),
        ]
    )
    DocumentStore(database, HashEmbedder().model).delete(["d004"])
    rows = database.run(
        lambda t: t.execute("SELECT id FROM knowledge_documents WHERE embedding_next IS NULL").fetchall()
    )
    assert {row["id"] for row in rows} == {"d001", "new"}
    run(change)
    assert answers(database, other, "now of bananas", 1) == ["d001"]
    assert answers(database, other, "fresh oranges", 1) == ["new"]
    assert sorted(answers(database, other)) == ["d000", "d001", "d002", "d003", "new"]


def test_a_vector_of_a_text_that_has_changed_is_not_taken(
    database: Database, ingestion: Ingestion, change: Reembedding, other: OtherEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingestion.upsert(documents(3))
    change.begin()
    embed_batch = other.embed_batch

    def overtaken(texts: Sequence[str]):
        monkeypatch.undo()
        ingestion.upsert([KnowledgeDocument(id="d001", content="now of bananas")])
        return embed_batch(texts)

    monkeypatch.setattr(other, "embed_batch", overtaken)
    run(change)
    assert answers(database, other, "now of bananas", 1) == ["d001"]


@pytest.mark.parametrize("batches", [1, 2])
def test_an_interrupted_change_goes_on_where_it_was(
    database: Database, ingestion: Ingestion, change: Reembedding, other: OtherEmbedder,
    monkeypatch: pytest.MonkeyPatch, batches: int,
) -> None:  # fmt: skip
    monkeypatch.setattr(reembed, "BATCH", 4)
    ingestion.upsert(documents(12))
    done: list[int] = []

    def interrupt(count: int, _: int) -> None:
        done.append(count)
        if len(done) > batches:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        change.run(silent, interrupt)
    resumed: list[int] = []
    Reembedding(database, other).run(silent, lambda count, _: resumed.append(count))
    assert resumed[0] == 4 * batches
    assert len(answers(database, other)) == 12


def test_a_question_that_waits_for_the_switch_finds_the_model_of_after(
    database: Database, ingestion: Ingestion, embedder: HashEmbedder, other: OtherEmbedder, database_url: str
) -> None:
    """The documents are locked before the record of the model is looked at, in one statement."""
    ingestion.upsert(documents(2))
    with psycopg.connect(database_url) as switching, ThreadPoolExecutor(1) as pool:
        switching.execute("LOCK TABLE knowledge_documents IN ACCESS EXCLUSIVE MODE")
        asking = pool.submit(answers, database, embedder)
        while switching.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone() == (0,):
            pass
        switching.execute("UPDATE knowledge_embedding_models SET model = 'other'")
        switching.commit()
        with pytest.raises(ModelMismatch, match="other"):
            asking.result(20)


def test_giving_it_up_leaves_all_as_it_was(
    database: Database, ingestion: Ingestion, embedder: HashEmbedder, change: Reembedding, database_url: str
) -> None:
    ingestion.upsert(documents(5))
    before, expected = shape(database_url), answers(database, embedder)
    change.begin()
    change.fill(silent)
    abort(database)
    assert shape(database_url) == before
    assert answers(database, embedder) == expected
    assert ingestion.upsert([KnowledgeDocument(id="d001", content="changed")]).updated == 1
    with pytest.raises(Conflict):
        abort(database)


def test_too_much_that_was_written_meanwhile_is_embedded_first(
    database: Database, ingestion: Ingestion, change: Reembedding, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reembed, "EMBEDDED_UNDER_LOCK", 3)
    ingestion.upsert(documents(4))
    change.begin()
    assert not change.switch()
    change.fill(silent)
    ingestion.upsert([KnowledgeDocument(id=f"late{n}", content="late") for n in range(3)])
    change._ensure_index("knowledge_documents_embedding_next", "index_next")
    assert change.switch()


def test_what_the_model_refuses_is_named_and_nothing_is_switched(
    database: Database, ingestion: Ingestion, embedder: HashEmbedder, change: Reembedding
) -> None:
    ingestion.upsert([*documents(3), KnowledgeDocument(id="bad", content="this is refused")])
    with pytest.raises(EmbeddingFailed, match="1 documents") as refusal:
        run(change)
    assert [problem.document for problem in refusal.value.problems] == ["bad"]
    assert len(answers(database, embedder)) == 4
    DocumentStore(database, embedder.model).delete(["bad"])
    assert run(change)[-1] == "checking all rows"


def test_one_change_at_a_time(database: Database, ingestion: Ingestion, change: Reembedding) -> None:
    class Third(OtherEmbedder):
        DIMENSIONS = 32

    ingestion.upsert(documents(2))
    change.begin()
    with pytest.raises(Conflict, match="other 7 \\(64"):
        Reembedding(database, Third()).begin()
    run(change)
    assert run(change) == []  # it is done
    with pytest.raises(Conflict, match="--drop-old"):
        Reembedding(database, Third()).begin()
    drop_old(database)
    assert run(Reembedding(database, Third()))[-1] == "checking all rows"


def test_not_during_a_bulk_load(database: Database, change: Reembedding) -> None:
    BulkLoad(database).begin()
    with pytest.raises(Conflict, match="bulk-load finish"):
        change.begin()


def test_no_row_without_a_vector_can_come_after_the_switch(
    database: Database, ingestion: Ingestion, change: Reembedding, database_url: str
) -> None:
    ingestion.upsert(documents(2))
    run(change)
    with psycopg.connect(database_url) as connection, pytest.raises(psycopg.errors.NotNullViolation):
        connection.execute("UPDATE knowledge_documents SET embedding = NULL")
