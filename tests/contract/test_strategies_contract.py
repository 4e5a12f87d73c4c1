"""What every store's strategies keep to: the fake, and the real one on a real PostgreSQL."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from spot_sdk.documents import KnowledgeDocument, Query, Strategy

pytestmark = pytest.mark.anyio

STRATEGIES = get_args(Strategy)
BY_TEXT = ("similarity", "diverse", "hybrid")

PAYMENTS = "Payments to a new bank account need the approval of two people from finance."
TRAVEL = "Book trains and hotels with the travel desk, at least a week ahead."
VERA = {"title": "Vera Lind", "display_name": "Vera Lind", "email": "vera.lind@example.test"}


def document(id_: str, content: str, *tags: str, **fields: Any) -> KnowledgeDocument:
    return KnowledgeDocument(id=id_, content=content, tags=list(tags), **fields)


@pytest.fixture
async def kb(kb: Any) -> Any:
    await kb.bulk_upsert(
        [
            document("lunch", "The canteen serves lunch from noon.", "wiki_page"),
            document("pay", PAYMENTS, "policy"),
            document("pay-again", PAYMENTS, "policy"),
            document("travel", TRAVEL, "policy"),
            document("vera", "Chief executive officer", "employee", metadata=VERA),
        ]
    )
    return kb


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("text", [PAYMENTS, "From: Vera Lind <vera.lind@example.test>", "zzz qqq", "the of", "!"])
@pytest.mark.parametrize("top_k", [1, 3, 100])
async def test_an_answer_is_in_the_order_of_scores_from_0_to_1(kb, strategy, text, top_k):
    found = await kb.fetch(text=text, strategy=strategy, top_k=top_k)
    scores = [doc.score for doc in found]
    assert len(found) <= top_k
    assert len({doc.id for doc in found}) == len(found)
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_a_floor_leaves_out_what_is_below_and_nothing_else(kb, strategy):
    text = "Payments by Vera Lind to a new bank account"
    every = await kb.fetch(text=text, strategy=strategy, top_k=100)
    floor = every[len(every) // 2].score
    kept = await kb.fetch(text=text, strategy=strategy, top_k=100, min_score=floor)
    assert [doc.id for doc in kept] == [doc.id for doc in every if doc.score >= floor]


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_tags_admit(kb, strategy):
    found = await kb.fetch("policy|employee", "Vera Lind pays for the canteen", strategy=strategy, top_k=100)
    assert found
    assert "lunch" not in {doc.id for doc in found}


@pytest.mark.parametrize("strategy", BY_TEXT)
async def test_what_the_text_says_comes_first(kb, strategy):
    text = "Who approves payments to a new bank account?"
    assert (await kb.fetch(text=text, strategy=strategy, top_k=1))[0].id == "pay"


async def test_diverse_parts_near_repeats_and_similarity_does_not(kb):
    text = "Who approves payments to a new bank account, and who books hotels?"
    similar = await kb.fetch(text=text, top_k=2)
    diverse = await kb.fetch(text=text, top_k=2, strategy="diverse")
    assert [doc.id for doc in similar] == ["pay", "pay-again"]
    assert diverse[0].id == "pay"
    assert diverse[1].id != "pay-again"
    assert len(await kb.fetch(text=text, top_k=100, strategy="diverse")) == 5, "there are no more"


async def test_a_lone_document_that_hardly_matches_scores_low(kb):
    [lone] = await kb.fetch("wiki_page", "payments to a new bank account by noon", strategy="hybrid")
    assert lone.score < 0.4


async def test_hybrid_scores_a_document_by_itself_and_the_question(kb):
    question = {"text": "payments to a new bank account", "strategy": "hybrid", "top_k": 100}
    alone = {doc.id: doc.score for doc in await kb.fetch("employee|wiki_page", **question)}
    among = {doc.id: doc.score for doc in await kb.fetch(**question)}
    assert alone == pytest.approx({id_: among[id_] for id_ in alone}, abs=1e-6)


@pytest.mark.parametrize("strategy", ["people", "hybrid"])
@pytest.mark.parametrize(
    ("address", "match"), [("vera.lind@example.test", "exact"), ("vera.lind@examp1e.test", "lookalike")]
)
async def test_who_is_named_comes_first_with_the_evidence(kb, strategy, address, match):
    text = f"Please approve these payments to a new bank account of finance today. From: {address}"
    found = await kb.fetch(text=text, strategy=strategy)
    assert found[0].id == "vera"
    assert (found[0].evidence.field, found[0].evidence.match) == ("address", match)
    assert found[0].evidence.stored == "vera.lind@example.test"
    assert all(doc.evidence is None for doc in found[1:])


async def test_people_finds_nobody_where_nobody_is_named(kb):
    assert await kb.fetch(text="Lunch is at noon.", strategy="people") == []


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_an_answer_tells_how_it_was_found_only_when_asked(kb, strategy):
    asked = Query(text="Who is vera.lind@example.test?", strategy=strategy, debug=True)
    assert (await kb.ask(asked)).debug.strategy == strategy
    assert (await kb.ask(asked.model_copy(update={"debug": False}))).debug is None
