from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pytest

from spot_sdk.documents import KnowledgeDocument
from spot_sdk.testing import FakeKnowledgeClient

Knowledge = Callable[..., Any]

PAYMENTS = KnowledgeDocument(
    id="handbook:payments.md#chunk-0",
    content="A payment to a new bank account needs the approval of two people.",
    tags=["policy", "finance"],
    metadata={"title": "Payments", "heading_path": ["Payments", "New accounts"]},
)
TRAVEL = KnowledgeDocument(id="handbook:travel.md#chunk-0", content="Book trains early.", tags=["wiki_page"])


@pytest.fixture
def full_store(store: FakeKnowledgeClient) -> FakeKnowledgeClient:
    import asyncio

    asyncio.run(store.bulk_upsert([PAYMENTS, TRAVEL]))
    return store


def test_the_answer_is_a_table_best_first(knowledge: Knowledge, full_store: FakeKnowledgeClient) -> None:
    ended = knowledge("query", "approval of a payment to a bank account", "--top-k", "2")

    assert (ended.code, ended.err) == (0, "")
    assert ended.out.index("Payments > New accounts") < ended.out.index("(untitled)")
    for part in ("score", PAYMENTS.id, "[policy, finance]", "needs the approval of two people."):
        assert part in ended.out


def test_json_is_the_store_s_own_answer(knowledge: Knowledge, full_store: FakeKnowledgeClient) -> None:
    ended = knowledge("query", "payment", "--tags", "policy+finance | employee", "--json")

    [document] = json.loads(ended.out)["documents"]
    assert document["id"] == PAYMENTS.id
    assert 0 < document["score"] <= 1
    assert ended.err == ""


def test_options_reach_the_store(knowledge: Knowledge, full_store: FakeKnowledgeClient) -> None:
    knowledge("query", "payment", "--tags", "policy", "--top-k", "7", "--min-score", "0.25")

    query = full_store.queries[-1]
    assert (query.text, query.tags, query.top_k, query.min_score) == ("payment", "policy", 7, 0.25)


def test_a_strategy_is_asked_for_and_debug_tells_how_it_went(
    knowledge: Knowledge, full_store: FakeKnowledgeClient
) -> None:
    knowledge("query", "payment", "--strategy", "hybrid", "--debug")
    assert (full_store.queries[-1].strategy, full_store.queries[-1].debug) == ("hybrid", True)
    ended = knowledge("query", "payment", "--strategy", "diverse", "--debug", "--json")
    assert json.loads(ended.out)["debug"]["strategy"] == "diverse"
    assert "expected rows" in knowledge("query", "payment", "--debug").out


def test_a_person_comes_with_the_evidence(knowledge: Knowledge, store: FakeKnowledgeClient) -> None:
    import asyncio

    vera = KnowledgeDocument(id="employee:vera", content="CEO", metadata={"email": "vera.lind@example.test"})
    asyncio.run(store.bulk_upsert([vera]))
    ended = knowledge("query", "From: vera.lind@examp1e.test", "--strategy", "people")
    assert "lookalike address: vera.lind@examp1e.test ~ vera.lind@example.test (1.00)" in ended.out
    assert "--strategy hybrid" in knowledge("query", "Who pays?", "--strategy", "people").err


def test_a_dash_reads_the_question_from_stdin(
    knowledge: Knowledge, full_store: FakeKnowledgeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("from\na mail"))

    knowledge("query", "-")

    assert full_store.queries[-1].text == "from\na mail"


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        (["--tags", "nobody"], "A query without --tags shows the tags"),
        (["--min-score", "0.99"], "a --min-score below 0.99"),
    ],
)
def test_an_empty_answer_says_what_to_try(
    knowledge: Knowledge, full_store: FakeKnowledgeClient, options: list[str], hint: str
) -> None:
    ended = knowledge("query", "payment", *options)

    assert (ended.code, ended.out) == (0, "")
    assert "Nothing was found" in ended.err
    assert hint in ended.err


def test_an_empty_store_says_how_to_fill_it(knowledge: Knowledge, store: FakeKnowledgeClient) -> None:
    assert "knowledge ingest" in knowledge("query", "payment").err
    assert json.loads(knowledge("query", "payment", "--json").out)["documents"] == []


@pytest.mark.parametrize(
    ("expression", "lines"),
    [
        ("a+|b", ["expected a tag, found '|'", "  a+|b", "    ^"]),
        ("佐藤 & b", ["found '&'", "  佐藤 & b", "       ^"]),
        ("a\t+\x1b[31m", ["column 4", "  a + [31m", "     ^"]),
        ("a|", ["found the end", "  a|", "    ^"]),
    ],
)
def test_an_expression_that_cannot_be_read_is_shown_with_the_place(
    knowledge: Knowledge, store: FakeKnowledgeClient, expression: str, lines: list[str]
) -> None:
    ended = knowledge("query", "payment", "--tags", expression)

    message, shown, caret = ended.err.splitlines()
    assert ended.code == 2
    assert lines[0] in message
    assert [shown, caret] == lines[1:]
    assert store.queries == []


@pytest.mark.parametrize("options", [["--top-k", "0"], ["--top-k", "101"], ["--min-score", "1.1"], ["--nonsense"]])
def test_what_is_out_of_range_is_refused_here(
    knowledge: Knowledge, store: FakeKnowledgeClient, options: list[str]
) -> None:
    ended = knowledge("query", "payment", *options)

    assert ended.code == 2
    assert len(ended.err.splitlines()) == 1


def test_what_documents_say_does_not_steer_the_terminal(knowledge: Knowledge, store: FakeKnowledgeClient) -> None:
    import asyncio

    hostile = KnowledgeDocument(
        id="mail:\u202e1", content="pay\x1b]0;owned\x07 me [bold]now[/bold]\r\n", metadata={"title": "\x1b[2Jpay"}
    )
    asyncio.run(store.upsert(hostile))

    out = knowledge("query", "pay").out

    assert not {c for c in out if not c.isprintable()} - {"\n"}
    assert "[bold]now[/bold]" in out
