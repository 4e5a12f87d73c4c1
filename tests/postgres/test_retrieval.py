"""Retrieval: filtered, ranked, never short, never stale."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from knowledge.db.connection import Database
from knowledge.documents.ingest import Ingestion
from knowledge.documents.retrieval import Retrieval
from knowledge.documents.search import DocumentSearch
from knowledge.documents.store import DocumentStore
from knowledge.embedding.hashing import HashEmbedder
from knowledge.search import knn
from spot_sdk.documents import KnowledgeDocument, Query
from spot_sdk.errors import InvalidTagExpression, ModelMismatch

PEOPLE = {
    "employee:ceo": ("Vera Lind, chief executive officer", ["employee", "executive"]),
    "employee:cfo": ("Tomas Okoye, chief financial officer", ["employee", "executive", "finance"]),
    "employee:clerk": ("Ana Reyes, accounts payable clerk", ["employee", "finance"]),
    "person:board": ("Hugo Stern, director of the board", ["director"]),
    "wiki:travel#0": ("How to book a train for a business trip", ["wiki_page"]),
}


@pytest.fixture
def people(ingestion: Ingestion) -> None:
    ingestion.upsert([KnowledgeDocument(id=id_, content=text, tags=tags) for id_, (text, tags) in PEOPLE.items()])


def ids(retrieval: Retrieval, text: str, tags: str | None = None, **query: object) -> list[str]:
    answer = retrieval.answer(Query(text=text, tags=tags, **query))  # type: ignore[arg-type]
    return [document.id for document in answer.documents]


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("employee", {"employee:ceo", "employee:cfo", "employee:clerk"}),
        ("employee+executive", {"employee:ceo", "employee:cfo"}),
        ("wiki_page|finance", {"wiki:travel#0", "employee:cfo", "employee:clerk"}),
        ("employee+executive|director", {"employee:ceo", "employee:cfo", "person:board"}),
        ("", set(PEOPLE)),
        (None, set(PEOPLE)),
        ("nobody_has_this", set()),
    ],
)
def test_a_tag_expression_admits_exactly_its_documents(
    retrieval: Retrieval, tags: str | None, expected: set[str]
) -> None:
    assert set(ids(retrieval, "officer", tags, top_k=100)) == expected


@pytest.mark.usefixtures("people")
def test_ranks_by_score_with_the_same_text_first(retrieval: Retrieval) -> None:
    answer = retrieval.answer(Query(text=PEOPLE["employee:clerk"][0], top_k=5)).documents
    scores = [document.score for document in answer]
    assert answer[0].id == "employee:clerk"
    assert answer[0].score == pytest.approx(1.0)
    assert scores == sorted(scores, reverse=True)
    assert all(score is not None and 0 <= score <= 1 for score in scores)


def test_equal_scores_are_in_id_order(ingestion: Ingestion, retrieval: Retrieval) -> None:
    ingestion.upsert([KnowledgeDocument(id=id_, content="the same words") for id_ in ("b", "C", "a", "é")])
    assert ids(retrieval, "the same words") == ["C", "a", "b", "é"]
    assert ids(retrieval, "zzz qqq xxx", top_k=2) == ["C", "a"]


@pytest.mark.usefixtures("people")
def test_min_score_is_a_floor(retrieval: Retrieval) -> None:
    assert ids(retrieval, PEOPLE["employee:ceo"][0], min_score=0.99) == ["employee:ceo"]
    assert ids(retrieval, "completely unrelated gibberish", min_score=0.9) == []


def test_expired_documents_are_never_returned(ingestion: Ingestion, retrieval: Retrieval) -> None:
    past, future = (datetime.now(UTC) + timedelta(seconds=s) for s in (-1, 3600))
    ingestion.upsert(
        [
            KnowledgeDocument(id="gone", content="badge access", tags=["policy"], expires_at=past),
            KnowledgeDocument(id="here", content="badge access", tags=["policy"], expires_at=future),
        ]
    )
    assert ids(retrieval, "badge access", "policy") == ["here"]
    assert ids(retrieval, "badge access") == ["here"]


def test_a_wrong_expression_names_the_column(retrieval: Retrieval) -> None:
    with pytest.raises(InvalidTagExpression) as refusal:
        ids(retrieval, "x", "a+|b")
    assert refusal.value.column == 3


@pytest.mark.parametrize("path", ["exact", "index"])
def test_filtered_answers_are_never_short(
    ingestion: Ingestion, retrieval: Retrieval, database: Database, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """One row in forty has the tag; an HNSW index alone finds a few of them at best."""
    monkeypatch.setattr(knn, "EXACT_UP_TO_ROWS", 12_000 if path == "exact" else -1)
    ingestion.upsert(
        [
            KnowledgeDocument(id=f"d{n:04d}", content=f"note {n} about topic {n % 97}", tags=["rare"] * (n % 40 == 0))
            for n in range(800)
        ]
    )
    database.run(lambda t: t.execute("ANALYZE knowledge_documents"))
    assert set(ids(retrieval, "topic 12", "rare", top_k=100)) == {f"d{n:04d}" for n in range(0, 800, 40)}
    assert len(ids(retrieval, "topic 12", "rare", top_k=7)) == 7


def test_both_plans_give_the_same_answer(
    ingestion: Ingestion, retrieval: Retrieval, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingestion.upsert([KnowledgeDocument(id=f"d{n:04d}", content=f"note {n} on topic {n % 97}") for n in range(500)])
    database.run(lambda t: t.execute("ANALYZE knowledge_documents"))
    exact = ids(retrieval, "topic 12", top_k=10)
    monkeypatch.setattr(knn, "EXACT_UP_TO_ROWS", -1)
    assert ids(retrieval, "topic 12", top_k=10) == exact


def test_another_models_vectors_are_never_searched_or_written(
    database: Database, store: DocumentStore, embedder: HashEmbedder
) -> None:
    other = embedder.model.model_copy(update={"version": "2"})
    with pytest.raises(ModelMismatch, match="kl-hash-embed 1"):
        DocumentSearch(database, other).nearest(embedder.embed("x"), None, 1)
    with pytest.raises(ModelMismatch):
        DocumentStore(database, other).upsert([])
    store.check()
