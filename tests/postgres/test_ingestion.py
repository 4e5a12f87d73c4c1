"""Ingestion: what is stored, what it costs, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from knowledge.db.connection import Database
from knowledge.documents.ingest import Ingestion
from knowledge.documents.store import DocumentStore
from knowledge.documents.writer import Writer
from knowledge.embedding.hashing import HashEmbedder
from spot_sdk.documents import KnowledgeDocument
from spot_sdk.errors import DuplicateDocument, EmbeddingFailed, Forbidden, InvalidDocument


def document(id_: str, content: str = "some words", **fields: object) -> KnowledgeDocument:
    return KnowledgeDocument(id=id_, content=content, **fields)  # type: ignore[arg-type]


class CountingEmbedder(HashEmbedder):
    """Counts the texts embedded, and refuses those that say so."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def embed_batch(self, texts: Sequence[str]) -> list:  # type: ignore[type-arg]
        self.texts += texts
        vectors = super().embed_batch(texts)
        return [
            EmbeddingFailed("the model refuses it") if "refuse me" in text else vector
            for text, vector in zip(texts, vectors, strict=True)
        ]


@pytest.fixture
def embedder() -> CountingEmbedder:
    return CountingEmbedder()


def rows(database: Database, columns: str = "id, content, xmin::text AS version") -> dict[str, dict[str, object]]:
    found = database.run(lambda t: t.execute(f"SELECT {columns} FROM knowledge_documents").fetchall())  # type: ignore[arg-type]
    return {row["id"]: row for row in found}


def test_says_created_then_unchanged_then_updated(ingestion: Ingestion) -> None:
    first = ingestion.upsert([document("a"), document("b")])
    again = ingestion.upsert([document("a"), document("b", "other words")])
    assert [outcome.status for outcome in first.results] == ["created", "created"]
    assert [outcome.status for outcome in again.results] == ["unchanged", "updated"]


def test_unchanged_documents_are_neither_embedded_nor_written(
    ingestion: Ingestion, database: Database, embedder: CountingEmbedder
) -> None:
    ingestion.upsert([document("a"), document("b")])
    before = rows(database)
    embedder.texts.clear()
    ingestion.upsert([document("a"), document("b")])
    assert embedder.texts == []
    assert rows(database) == before


def test_a_change_of_tags_keeps_the_vector(
    ingestion: Ingestion, database: Database, embedder: CountingEmbedder
) -> None:
    ingestion.upsert([document("a", tags=["policy"])])
    vector = rows(database, "id, embedding::text")["a"]
    embedder.texts.clear()
    result = ingestion.upsert([document("a", tags=["policy", "finance"], metadata={"owner": "x"})])
    assert (result.updated, result.embedded, embedder.texts) == (1, 0, [])
    assert rows(database, "id, embedding::text")["a"] == vector


def test_title_and_headings_are_embedded_with_the_content(ingestion: Ingestion, embedder: CountingEmbedder) -> None:
    ingestion.upsert([document("a", "Two signatures.", metadata={"title": "Payments", "heading_path": ["Limits"]})])
    assert embedder.texts == ["Payments > Limits\nTwo signatures."]


def test_an_id_twice_is_refused_and_nothing_is_stored(ingestion: Ingestion, database: Database) -> None:
    with pytest.raises(DuplicateDocument) as refusal:
        ingestion.upsert([document("a"), document("b"), document("a", "other")])
    assert [problem.document for problem in refusal.value.problems] == ["a"]
    assert rows(database) == {}


def test_a_text_that_the_model_refuses_costs_only_itself(ingestion: Ingestion, database: Database) -> None:
    batch = [document(f"d{n}", "refuse me" if n == 7 else f"text {n}") for n in range(16)]
    result = ingestion.upsert(batch)
    assert (result.created, result.failed) == (15, 1)
    failed = next(outcome for outcome in result.results if outcome.status == "failed")
    assert failed.id == "d7"
    assert failed.problem is not None
    assert failed.problem.field == "content"
    assert len(rows(database)) == 15


def test_replace_children_leaves_exactly_the_new_ones(ingestion: Ingestion, database: Database) -> None:
    def chunks(count: int) -> list[KnowledgeDocument]:
        return [document(f"p#chunk-{n}", f"part {n}", metadata={"parent_id": "p"}) for n in range(count)]

    ingestion.upsert([document("other", metadata={"parent_id": "q"})])
    ingestion.replace_children("p", chunks(5))
    ingestion.replace_children("p", chunks(2))
    assert set(rows(database)) == {"other", "p#chunk-0", "p#chunk-1"}
    ingestion.replace_children("p", chunks(4))
    assert set(rows(database)) == {"other", *(f"p#chunk-{n}" for n in range(4))}
    ingestion.replace_children("p", [])
    assert set(rows(database)) == {"other"}


def test_replace_children_refuses_a_stranger_and_a_failure_whole(ingestion: Ingestion, database: Database) -> None:
    ingestion.replace_children("p", [document("p#0", metadata={"parent_id": "p"})])
    with pytest.raises(InvalidDocument):
        ingestion.replace_children("p", [document("p#1", metadata={"parent_id": "q"})])
    with pytest.raises(EmbeddingFailed):
        ingestion.replace_children("p", [document("p#1", "refuse me", metadata={"parent_id": "p"})])
    assert set(rows(database)) == {"p#0"}


def test_a_bound_writer_writes_its_own_source_only(ingestion: Ingestion, database: Database) -> None:
    directory = Writer("directory", respects_sources=True)
    ingestion.upsert([document("a", source="wiki")])
    with pytest.raises(Forbidden):
        ingestion.upsert([document("b", source="wiki")], writer=directory)
    with pytest.raises(Forbidden) as takeover:
        ingestion.upsert(
            [document("a", "mine", source="directory"), document("c", source="directory")], writer=directory
        )
    assert [problem.document for problem in takeover.value.problems] == ["a"]
    assert {id_: row["content"] for id_, row in rows(database).items()} == {"a": "some words"}


def test_an_unbound_writer_may_take_over(ingestion: Ingestion, database: Database) -> None:
    ingestion.upsert([document("a", source="wiki")])
    ingestion.upsert([document("a", source="directory")])
    assert rows(database, "id, source")["a"]["source"] == "directory"


def test_a_bound_writer_deletes_its_own_source_only(
    ingestion: Ingestion, store: DocumentStore, database: Database
) -> None:
    ingestion.upsert([document("a", source="wiki"), document("b", source="directory")])
    with pytest.raises(Forbidden):
        store.delete(["a", "b"], writer=Writer("directory", respects_sources=True))
    assert set(rows(database)) == {"a", "b"}
    assert store.delete(["b", "absent"], writer=Writer("directory", respects_sources=True)) == 1


def test_text_beyond_a_megabyte_of_lexemes_is_stored(ingestion: Ingestion) -> None:
    content = " ".join(f"w{n:07d}" for n in range(100_000))
    assert ingestion.upsert([document("long", content)]).created == 1


ids = st.sampled_from([f"d{n}" for n in range(6)])
contents = st.sampled_from(["payroll", "travel", "laptops"])
tag_lists = st.lists(st.sampled_from(["policy", "hr", "it"]), max_size=2, unique=True)
expiries = st.none() | st.sampled_from([datetime(2200, 1, 1, tzinfo=UTC)])


def test_emptying_the_table_empties_what_follows_it(ingestion: Ingestion, database: Database) -> None:
    ingestion.upsert([document("a", "words", metadata={"name": "Ada Example", "email": "ada@example.com"})])
    followers = ("document_words", "document_people", "word_totals", "word_changes")

    def counts() -> list[int]:
        asked = " UNION ALL ".join(f"SELECT count(*) FROM knowledge_{name}" for name in followers)
        return [row["count"] for row in database.run(lambda t: t.execute(asked).fetchall())]

    assert sum(counts()) > 0
    database.run(lambda t: t.execute("TRUNCATE knowledge_documents"))
    assert counts() == [0, 0, 0, 0]
    assert ingestion.upsert([document("a", "words")]).created == 1


class StoreMachine(RuleBasedStateMachine):
    """Ingestion against a dictionary."""

    database: Database
    ingestion: Ingestion
    store: DocumentStore

    @initialize()
    def empty(self) -> None:
        self.database.run(lambda t: t.execute("TRUNCATE knowledge_documents"))
        self.model: dict[str, KnowledgeDocument] = {}

    @rule(batch=st.dictionaries(ids, st.tuples(contents, tag_lists, expiries), max_size=5))
    def upsert(self, batch: dict[str, tuple[str, list[str], datetime | None]]) -> None:
        documents = [document(i, c, tags=t, expires_at=e) for i, (c, t, e) in batch.items()]
        result = self.ingestion.upsert(documents)
        for offered, outcome in zip(documents, result.results, strict=True):
            known = self.model.get(offered.id)
            expected = "created" if known is None else "unchanged" if known == offered else "updated"
            assert (outcome.id, outcome.status) == (offered.id, expected)
            self.model[offered.id] = offered

    @rule(doomed=st.lists(ids, max_size=3, unique=True))
    def delete(self, doomed: list[str]) -> None:
        assert self.store.delete(doomed) == sum(id_ in self.model for id_ in doomed)
        for id_ in doomed:
            self.model.pop(id_, None)

    @invariant()
    def holds_what_the_dictionary_holds(self) -> None:
        stored = rows(self.database, "id, content, tags, expires_at")
        assert stored == {
            i: {"id": i, "content": d.content, "tags": d.tags, "expires_at": d.expires_at}
            for i, d in self.model.items()
        }


def test_the_store_behaves_like_a_dictionary(ingestion: Ingestion, store: DocumentStore, database: Database) -> None:
    StoreMachine.database, StoreMachine.ingestion, StoreMachine.store = database, ingestion, store
    run_state_machine_as_test(
        StoreMachine,
        settings=settings(
            max_examples=25, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


def test_expired_documents_are_counted_apart(ingestion: Ingestion, store: DocumentStore) -> None:
    past = datetime.now(UTC) - timedelta(seconds=1)
    ingestion.upsert([document("old", expires_at=past, source="s"), document("new", source="s", tags=["policy"])])
    stats = store.stats(["policy", "ticket"])
    assert (stats.documents, stats.expired) == (1, 1)
    assert [(count.tag, count.documents) for count in stats.tags] == [("policy", 1), ("ticket", 0)]
    assert [(count.source, count.documents) for count in stats.sources] == [("s", 1)]
