"""Whoever writes the mail that is asked with cannot make the question fail, or find less."""

from __future__ import annotations

import pytest

from knowledge.documents.ingest import Ingestion
from knowledge.documents.retrieval import Retrieval
from knowledge.documents.search import DocumentSearch
from spot_sdk.documents import KnowledgeDocument, Query, Strategy


def person(id_: str, name: str, email: str) -> KnowledgeDocument:
    return KnowledgeDocument(id=id_, content="profile", metadata={"name": name, "email": email})


@pytest.mark.parametrize("strategy", ["people", "hybrid"])
@pytest.mark.parametrize(
    "word", ["=?utf-8?q?Ja=00ne_Doe?=", "=?utf-7?q?Ja+2AA-ne_Doe?=", "=?unicode_escape?q?=5Cud800?="]
)
def test_an_encoded_name_that_is_no_text_hides_nobody(
    retrieval: Retrieval, ingestion: Ingestion, word: str, strategy: Strategy
) -> None:
    ingestion.upsert([person("a", "Jane Doe", "jane@example.com")])
    found = retrieval.answer(Query(text=f"From: {word} <jane@example.com>", strategy=strategy)).documents
    assert [document.id for document in found] == ["a"]


def test_tracking_ids_do_not_drown_the_words_that_documents_have(search: DocumentSearch, ingestion: Ingestion) -> None:
    ingestion.upsert(
        [KnowledgeDocument(id=f"d{n}", content=f"filler number {n} about lunch") for n in range(30)]
        + [KnowledgeDocument(id="hit", content="Payroll changes need the approval of Alice")]
    )
    question = "What did Alice decide about payroll approval?"
    noise = " ".join(f"x{n:04x}qq" for n in range(200))
    clean, noisy = (search.by_words(text, None, 5).scores for text in (question, f"{question} {noise}"))
    assert next(iter(noisy)) == "hit"
    assert noisy["hit"] > clean["hit"] / 2


@pytest.mark.parametrize("top_k", [1, 2, 5])
def test_who_is_named_comes_before_who_is_merely_near(retrieval: Retrieval, ingestion: Ingestion, top_k: int) -> None:
    ingestion.upsert(
        [
            person("near", "Someone Else", "jane.doe1@example.com"),
            person("named", "Jane Doe", "jd@corp.example"),
            *(KnowledgeDocument(id=f"n{n}", content=f"Jane Doe, letter {n} about payments") for n in range(5)),
        ]
    )
    question = Query(text="From: Jane Doe <jane.doe12@example.com>", strategy="hybrid", top_k=top_k)
    assert retrieval.answer(question).documents[0].id == "named"
