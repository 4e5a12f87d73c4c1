"""The client against a scripted server: what it sends, what it makes of answers, when it asks again."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from functools import partial
from itertools import chain
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fake_http import URL, Naps, ScriptedServer, client, documents, found, ids, problem, stored

from spot_sdk.batching import BatchLimits
from spot_sdk.checks import build
from spot_sdk.client import KnowledgeClient
from spot_sdk.documents import MAX_QUERY_LENGTH, KnowledgeDocument, Query, RetrievalLimits
from spot_sdk.errors import (
    MAX_PROBLEMS,
    Conflict,
    DeadlineExceeded,
    DuplicateDocument,
    EmbeddingFailed,
    Forbidden,
    InternalError,
    InvalidDocument,
    InvalidInput,
    InvalidRequest,
    InvalidTagExpression,
    KnowledgeError,
    Overloaded,
    PayloadTooLarge,
    StoreUnavailable,
    Unauthorized,
    Unavailable,
)
from spot_sdk.operators import OperatorClient

pytestmark = pytest.mark.anyio

DOCUMENT = KnowledgeDocument(id="policy:1", content="Payments need two people.", tags=["policy"])


@dataclass
class Mail:
    body_text: str | None = "Please pay at once."
    retrieval_limits: Any = None


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("SPOT_KNOWLEDGE_URL", URL)
    monkeypatch.setenv("SPOT_INTERNAL_API_KEY", "key-of-environment")
    return monkeypatch


# --- fetching ----------------------------------------------------------------------------------------------------


async def test_fetch_asks_with_everything_and_returns_documents_with_scores():
    server = ScriptedServer(found(DOCUMENT.model_copy(update={"score": 0.75})))
    async with client(server) as kb:
        [document] = await kb.fetch(" policy |  employee + executive", "wire transfer", 3, 0.25)
    assert (document.id, document.score) == ("policy:1", 0.75)
    [request] = server.requests
    assert (request.method, str(request.url)) == ("POST", f"{URL}/query")
    assert request.headers["X-Internal-API-Key"] == "key-1"
    assert server.bodies == [
        {
            "text": "wire transfer",
            "tags": "policy|employee+executive",
            "top_k": 3,
            "min_score": 0.25,
            "strategy": "similarity",
        }
    ]


async def test_no_key_no_header():
    server = ScriptedServer(found())
    await client(server, api_key=None).fetch(text="x")
    assert "X-Internal-API-Key" not in server.requests[0].headers


@pytest.mark.parametrize(
    ("limits", "asked", "sent"),
    [
        (RetrievalLimits(max_top_k=2, min_score_floor=0.5), (10, 0.1), (2, 0.5)),
        (RetrievalLimits(max_top_k=2, min_score_floor=0.5), (1, 0.9), (1, 0.9)),
        (RetrievalLimits(max_top_k=50), (1000, 0.0), (50, 0.0)),
        (RetrievalLimits(), (7, 0.3), (7, 0.3)),
        (None, (7, 0.3), (7, 0.3)),
    ],
)
async def test_limits_shrink_and_never_widen(limits, asked, sent):
    server = ScriptedServer(found())
    await client(server, retrieval_limits=limits).fetch(text="x", top_k=asked[0], min_score=asked[1])
    assert (server.bodies[0]["top_k"], server.bodies[0]["min_score"]) == sent


@pytest.mark.parametrize(
    ("question", "field"),
    [
        ({"text": "x", "top_k": 0}, "top_k"),
        ({"text": "x", "top_k": -5}, "top_k"),
        ({"text": "x", "top_k": 101}, "top_k"),
        ({"text": "x", "top_k": True}, "top_k"),
        ({"text": "x", "min_score": 1.1}, "min_score"),
        ({"text": "x", "min_score": float("nan")}, "min_score"),
        ({"text": "x", "strategy": "telepathy"}, "strategy"),
        ({"text": " \n"}, "text"),
        ({"text": "a\0b"}, "text"),
        ({"text": "x" * (MAX_QUERY_LENGTH + 1)}, "text"),
        ({}, "text"),
    ],
    ids=str,
)
@pytest.mark.parametrize("limits", [None, RetrievalLimits(min_score_floor=0.5)])
async def test_a_question_that_cannot_be_asked_is_refused_before_it_is_sent(question, field, limits):
    server = ScriptedServer(found())
    with pytest.raises(InvalidRequest) as caught:
        await client(server, retrieval_limits=limits).fetch(**question)
    assert [found.field for found in caught.value.problems] == [field]
    assert server.requests == []


@pytest.mark.parametrize("top_k", ["3", 2.5, None, True])
async def test_a_cap_is_for_numbers_only(top_k):
    with pytest.raises(InvalidRequest):
        await client(ScriptedServer(found()), retrieval_limits=RetrievalLimits(max_top_k=2)).fetch(
            text="x", top_k=top_k
        )


async def test_a_wrong_tag_expression_is_refused_with_its_column_before_it_is_sent():
    server = ScriptedServer(found())
    with pytest.raises(InvalidTagExpression) as caught:
        await client(server).fetch("employee + | director", "x")
    assert (caught.value.column, caught.value.expected) == (12, "a tag")
    assert server.requests == []


# --- for one e-mail ----------------------------------------------------------------------------------------------


@pytest.fixture
def analysis(environment: pytest.MonkeyPatch):
    """A function that makes a client for an e-mail, and the server that the client then reaches."""
    server = ScriptedServer(found())
    return partial(KnowledgeClient.for_analysis, transport=server), server


@pytest.mark.parametrize(
    "limits",
    [{"max_top_k": 1}, RetrievalLimits(max_top_k=1), Mail, None],
    ids=["mapping", "model", "attributes", "none"],
)
async def test_the_emails_text_and_limits_are_taken(analysis, limits):
    if limits is Mail:
        limits = type("Limits", (), {"max_top_k": 1, "min_score_floor": None})()
    make, server = analysis
    await make(Mail(retrieval_limits=limits)).fetch("policy", top_k=4)
    assert server.bodies[0]["text"] == "Please pay at once."
    assert server.bodies[0]["top_k"] == (4 if limits is None else 1)
    assert server.requests[0].headers["X-Internal-API-Key"] == "key-of-environment"


async def test_a_text_of_its_own_goes_before_the_emails(analysis):
    make, server = analysis
    await make(Mail()).fetch(text="the sender")
    assert server.bodies[0]["text"] == "the sender"


async def test_the_text_may_be_called_body_and_limits_may_be_missing(analysis):
    make, server = analysis
    await make(type("Mail", (), {"body": "Another text"})()).fetch()
    assert server.bodies[0]["text"] == "Another text"


async def test_an_attackers_text_is_made_askable(analysis):
    make, server = analysis
    await make(Mail("a\0b\ud800" + "x" * MAX_QUERY_LENGTH)).fetch()
    assert server.bodies[0]["text"] == "a\ufffdb\ufffd" + "x" * (MAX_QUERY_LENGTH - 4)


async def test_a_blank_email_gets_no_documents(analysis):
    make, server = analysis
    assert await make(Mail(" \r\n")).fetch() == []
    with pytest.raises(InvalidTagExpression):
        await make(Mail("")).fetch("a+")
    assert server.requests == []


async def test_an_email_without_text_must_be_given_one(analysis):
    make, _ = analysis
    with pytest.raises(InvalidRequest, match="no text to ask with"):
        await make(Mail(None)).fetch()


@pytest.mark.parametrize(
    "limits",
    [
        {"max_top_k": 0},
        {"min_score_floor": 7},
        {"min_score_floor": float("nan")},
        {"max_topk": 3},
        {"max_top_k": True},
        {"max_top_k": "3"},
        {"min_score_floor": True},
        SimpleNamespace(max_topk=3, min_score_floor=None),
        SimpleNamespace(),
        "none",
    ],
    ids=str,
)
async def test_limits_that_make_no_sense_are_no_lax_limits(environment, limits):
    with pytest.raises(InvalidRequest):
        KnowledgeClient.for_analysis(Mail(retrieval_limits=limits))


async def test_analyses_share_connections_and_closing_one_leaves_the_others(analysis):
    make, server = analysis
    first, second = make(Mail()), make(Mail())
    await first.fetch()
    async with second:
        await second.fetch()
    await first.fetch()
    assert len(server.requests) == 3


# --- making a client ---------------------------------------------------------------------------------------------


async def test_from_environment(environment):
    server = ScriptedServer(found())
    async with KnowledgeClient.from_environment(transport=server) as kb:
        await kb.fetch(text="x")
    assert server.requests[0].headers["X-Internal-API-Key"] == "key-of-environment"
    assert str(server.requests[0].url) == f"{URL}/query"


@pytest.mark.parametrize("value", ["", "  "])
async def test_without_an_address_there_is_one_clear_line(environment, value):
    environment.setenv("SPOT_KNOWLEDGE_URL", value)
    with pytest.raises(InvalidInput, match=r"^SPOT_KNOWLEDGE_URL is not set"):
        KnowledgeClient.from_environment()
    with pytest.raises(InvalidInput, match=r"^SPOT_KNOWLEDGE_URL is not set"):
        KnowledgeClient.for_analysis(Mail())


@pytest.mark.parametrize("url", ["", "store", "ftp://store/x", "http://", "http://s/x?y", "http://s/#f", "http://s:p/"])
def test_an_address_that_is_none(url):
    with pytest.raises(InvalidInput, match="address of a store"):
        KnowledgeClient(url)


@pytest.mark.parametrize("key", ["", "clé", "a\nb"])
def test_a_key_that_no_header_can_carry_is_refused_and_not_shown(key):
    with pytest.raises(InvalidInput) as caught:
        KnowledgeClient(URL, key)
    assert not key or key not in str(caught.value)


async def test_the_key_is_in_no_representation():
    kb = client(ScriptedServer(found()), api_key="very-secret")
    assert "very-secret" not in repr(kb) + str(vars(kb))


async def test_version_stands_beside_the_api_and_stats_inside_it():
    model = {"backend": "b", "model": "m", "version": "1", "dimensions": 3, "max_input_tokens": 9, "chunk_chars": 8}
    server = ScriptedServer(
        httpx.Response(200, json={"version": "1.2", "embedding": model, "news": True}),
        httpx.Response(200, json={"documents": 4, "expired": 1, "tags": [], "sources": []}),
    )
    async with client(server) as kb:
        assert (await kb.version()).embedding.chunk_chars == 8
        assert (await kb.stats()).documents == 4
    assert [str(request.url) for request in server.requests] == ["http://store.example/version", f"{URL}/stats"]


async def test_a_closed_client_opens_again_when_used():
    server = ScriptedServer(found())
    kb = client(server)
    await kb.close()
    await kb.fetch(text="x")
    await kb.close()
    await kb.close()
    await kb.fetch(text="x")
    await kb.close()


# --- answers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (problem(401, "unauthorized"), Unauthorized),
        (problem(503, "store_unavailable"), StoreUnavailable),
        (problem(422, "embedding_failed"), EmbeddingFailed),
        (problem(403, "a_code_of_tomorrow"), Forbidden),
        (httpx.Response(502, html="<h1>Bad gateway</h1>"), Unavailable),
        (httpx.Response(413, json={"message": "Request Too Long"}), PayloadTooLarge),
        (httpx.Response(500, json={"message": "Internal Server Error"}), InternalError),
        (httpx.Response(302, headers={"Location": "http://elsewhere.example"}), InternalError),
        (httpx.Response(200, html="<h1>Sign in</h1>"), InternalError),
        (httpx.Response(200, json={"documents": [{"id": 7}]}), InternalError),
        (httpx.Response(204), InternalError),
        (httpx.Response(409, content=b"[" * 100_000), Conflict),
        (httpx.Response(200, content=b"[" * 100_000), InternalError),
        (httpx.Response(503, headers={"Retry-After": "Mon, 01 Jan 2020 00:00:00 +99999999999999999999"}), Unavailable),
        (httpx.ReadTimeout("late"), DeadlineExceeded),
        (httpx.ConnectTimeout("late"), DeadlineExceeded),
        (httpx.ConnectError("refused"), Unavailable),
        (httpx.ReadError("reset"), Unavailable),
        (httpx.RemoteProtocolError("gone"), Unavailable),
    ],
    ids=lambda value: repr(value)[:40],
)
async def test_every_failure_is_an_error_of_ours(answer, kind):
    with pytest.raises(KnowledgeError) as caught:
        await client(ScriptedServer(answer)).fetch(text="x")
    assert type(caught.value) is kind


@pytest.mark.parametrize("name", ["\udcff", "x" * 100_000], ids=["not text", "too long"])
async def test_what_no_address_can_carry_is_refused(name):
    server = ScriptedServer(httpx.Response(200, json={"runs": []}))
    async with OperatorClient(URL, transport=server) as operators:
        for call in (
            operators.runs(name),
            operators.provider(name),
            operators.start_sync(name),
            operators.revoke_key(name),
        ):
            with pytest.raises(InvalidRequest):
                await call
    assert server.requests == []


async def test_an_error_keeps_what_the_server_said():
    answer = problem(
        422, "invalid_tag_expression", column=3, expected="a tag", problems=[{"message": "m", "field": "f"}]
    )
    with pytest.raises(InvalidTagExpression) as caught:
        await client(ScriptedServer(answer)).fetch(text="x")
    error = caught.value
    assert (error.message, error.column, error.expected, error.correlation_id) == ("as told", 3, "a tag", "c-header")
    assert [(found.field, found.message) for found in error.problems] == [("f", "m")]


async def test_a_newer_servers_additions_are_no_trouble():
    answer = {"documents": [{**DOCUMENT.model_dump(mode="json"), "rank": 1}], "trace": {"plan": "exact"}}
    [document] = await client(ScriptedServer(httpx.Response(200, json=answer))).fetch(text="x")
    assert document == DOCUMENT


async def test_the_key_does_not_follow_a_redirection():
    server = ScriptedServer(httpx.Response(307, headers={"Location": "http://elsewhere.example/query"}))
    with pytest.raises(InternalError):
        await client(server).fetch(text="x")
    assert {request.url.host for request in server.requests} == {"store.example"}


# --- asking again ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "failure",
    [
        problem(503, "overloaded"),
        problem(503, "store_unavailable"),
        problem(504, "deadline_exceeded"),
        httpx.Response(429),
        httpx.ConnectError("refused"),
        httpx.ConnectTimeout("late"),
        httpx.ReadError("reset"),
        httpx.RemoteProtocolError("gone"),
    ],
    ids=repr,
)
async def test_a_passing_failure_is_waited_out(failure):
    naps = Naps()
    server = ScriptedServer(failure, failure, found(DOCUMENT))
    assert len(await client(server, retry=naps.policy()).fetch(text="x")) == 1
    assert naps.slept_s == [0.25, 0.5]


@pytest.mark.parametrize(
    "failure",
    [
        problem(400, "malformed_request"),
        problem(409, "conflict"),
        problem(422, "invalid_request"),
        problem(401, "unauthorized"),
        problem(500, "internal_error"),
        problem(503, "model_mismatch"),
        httpx.Response(502),
        httpx.ReadTimeout("late"),
        httpx.PoolTimeout("late"),
        httpx.UnsupportedProtocol("what"),
        httpx.Response(200, text="nonsense"),
    ],
    ids=repr,
)
async def test_any_other_failure_is_raised_at_once(failure):
    naps = Naps()
    server = ScriptedServer(failure)
    with pytest.raises(KnowledgeError):
        await client(server, retry=naps.policy()).fetch(text="x")
    assert (len(server.requests), naps.slept_s) == (1, [])


async def test_it_gives_up_after_the_attempts_allowed():
    naps = Naps()
    server = ScriptedServer(problem(503, "overloaded"))
    with pytest.raises(Overloaded):
        await client(server, retry=naps.policy(attempts=3, first_wait_s=8, longest_wait_s=10)).fetch(text="x")
    assert (len(server.requests), naps.slept_s) == (3, [8, 10])


async def test_retry_after_is_honoured_and_told():
    naps = Naps()
    answer = httpx.Response(429, headers={"Retry-After": "3"})
    with pytest.raises(Overloaded) as caught:
        await client(ScriptedServer(answer), retry=naps.policy(attempts=2)).fetch(text="x")
    assert naps.slept_s == [3.25]
    assert caught.value.retry_after_s == 3


async def test_nobody_is_made_to_wait_longer_than_allowed():
    naps = Naps()
    answer = httpx.Response(503, headers={"Retry-After": "120"})
    with pytest.raises(Unavailable) as caught:
        await client(ScriptedServer(answer), retry=naps.policy()).fetch(text="x")
    assert (naps.slept_s, caught.value.retry_after_s) == ([], 120)


@pytest.mark.parametrize("call", ["upsert", "bulk_upsert", "delete", "replace_children", "stats"])
async def test_whatever_may_be_repeated_is(call):
    answers = {
        "upsert": (DOCUMENT, stored),
        "bulk_upsert": ([DOCUMENT], stored),
        "delete": ("policy:1", httpx.Response(200, json={"deleted": 1})),
        "replace_children": ("p", httpx.Response(200, json={"results": []})),
        "stats": (None, httpx.Response(200, json={"documents": 0, "expired": 0, "tags": [], "sources": []})),
    }
    argument, answer = answers[call]
    server = ScriptedServer(httpx.ReadError("reset"), answer)
    arguments = {"replace_children": ("p", []), "stats": ()}.get(call, (argument,))
    await getattr(client(server), call)(*arguments)
    assert len(server.requests) == 2


# --- writing -----------------------------------------------------------------------------------------------------


async def test_upsert_sends_the_document_without_its_score():
    server = ScriptedServer(stored)
    outcome = await client(server).upsert(DOCUMENT.model_copy(update={"score": 0.5, "metadata": {"é": [None, 1.5]}}))
    assert (outcome.id, outcome.status) == ("policy:1", "created")
    assert str(server.requests[0].url) == f"{URL}/upsert"
    assert server.requests[0].headers["Content-Type"] == "application/json"
    assert "score" not in server.bodies[0]
    assert KnowledgeDocument.model_validate(server.bodies[0]).metadata == {"é": [None, 1.5]}


async def test_a_refused_text_raises_with_the_result():
    answer = {
        "results": [{"id": "policy:1", "status": "failed", "problem": {"document": "policy:1", "message": "NaN"}}]
    }
    with pytest.raises(EmbeddingFailed) as caught:
        await client(ScriptedServer(httpx.Response(200, json=answer))).upsert(DOCUMENT)
    assert [found.document for found in caught.value.problems] == ["policy:1"]


@pytest.mark.parametrize("ids", [[], ["other"], ["policy:1", "policy:1"]], ids=str)
async def test_an_answer_that_is_not_about_what_was_sent_is_an_error_of_the_server(ids):
    child = DOCUMENT.model_copy(update={"metadata": {"parent_id": "p"}})
    answer = {"results": [{"id": id_, "status": "created"} for id_ in ids]}
    kb = client(ScriptedServer(httpx.Response(200, json=answer)))
    for call in (kb.upsert(DOCUMENT), kb.bulk_upsert([DOCUMENT]), kb.replace_children("p", [child])):
        with pytest.raises(InternalError, match="sent 1 documents"):
            await call


async def test_what_was_stored_before_an_answer_that_is_none_is_told():
    server = ScriptedServer(stored, httpx.Response(200, json={"results": []}))
    with pytest.raises(InternalError) as caught:
        await client(server, batch_limits=BatchLimits(documents=2)).bulk_upsert(documents(4))
    assert caught.value.result is not None
    assert [outcome.id for outcome in caught.value.result.results] == ["doc:0", "doc:1"]


async def test_a_long_list_is_split_by_count_in_order_with_progress():
    server = ScriptedServer(stored)
    seen: list[tuple[int, int]] = []
    many = documents(40)
    result = await client(server).bulk_upsert(iter(many), progress=lambda done, total: seen.append((done, total)))
    assert [len(batch) for batch in ids(server.bodies)] == [16, 16, 8]
    assert list(chain(*ids(server.bodies))) == [outcome.id for outcome in result.results] == [d.id for d in many]
    assert seen == [(16, 40), (32, 40), (40, 40)]
    assert (result.created, result.embedded) == (40, 40)


@pytest.mark.parametrize("content", ["x" * 900, "é" * 450, '"' * 220, "\n" * 300 + "x", "漢" * 300], ids=ascii)
async def test_a_long_list_is_split_by_the_bytes_that_a_lambda_event_takes(content):
    server = ScriptedServer(stored)
    await client(server, batch_limits=BatchLimits(bytes=4_000)).bulk_upsert(documents(20, content))
    assert sum(map(len, ids(server.bodies))) == 20
    sizes = [
        len(json.dumps({"body": request.content.decode()}, ensure_ascii=False).encode()) for request in server.requests
    ]
    assert all(size <= 4_000 for size in sizes)
    assert sizes[0] > 2_000, "and no smaller than need be"


async def test_nothing_is_sent_for_nothing():
    server = ScriptedServer(stored)
    assert (await client(server).bulk_upsert([])).results == []
    assert await client(server).delete_many([]) == 0
    assert server.requests == []


async def test_a_document_too_large_for_a_request_is_named_before_anything_is_sent():
    server = ScriptedServer(stored)
    large = KnowledgeDocument(id="wiki:whole", content="x" * 5_000)
    with pytest.raises(PayloadTooLarge, match="wiki:whole") as caught:
        await client(server, batch_limits=BatchLimits(bytes=4_000)).bulk_upsert([DOCUMENT, large])
    assert [found.document for found in caught.value.problems] == ["wiki:whole"]
    with pytest.raises(PayloadTooLarge, match="wiki:whole"):
        await client(server, batch_limits=BatchLimits(bytes=4_000)).upsert(large)
    assert server.requests == []


async def test_duplicates_anywhere_in_the_list_are_named_before_anything_is_sent():
    server = ScriptedServer(stored)
    with pytest.raises(DuplicateDocument) as caught:
        await client(server).bulk_upsert([*documents(80), *documents(1), DOCUMENT, DOCUMENT])
    assert [found.document for found in caught.value.problems] == ["doc:0", "policy:1"]
    assert server.requests == []


async def test_what_was_spoilt_after_it_was_made_is_refused_and_named():
    spoilt = documents(3)
    spoilt[1].tags.append("r&d")
    spoilt[2].metadata["x"] = float("nan")
    server = ScriptedServer(stored)
    with pytest.raises(InvalidDocument) as caught:
        await client(server).bulk_upsert(spoilt)
    assert [(found.document, found.field) for found in caught.value.problems] == [
        ("doc:1", "tags.0"),
        ("doc:2", "metadata"),
    ]
    assert "r_and_d" in caught.value.problems[0].message
    assert server.requests == []


async def test_an_error_lists_no_more_problems_than_anybody_reads():
    spoilt = documents(300)
    for document in spoilt:
        document.tags.extend(["no tag", "none either"])
    for attempt, kind, told in (
        (client(ScriptedServer(stored)).bulk_upsert(spoilt), InvalidDocument, "(and 299 more)"),
        (client(ScriptedServer(stored)).bulk_upsert(documents(150) * 2), DuplicateDocument, "(and 149 more)"),
        (
            client(ScriptedServer(stored), batch_limits=BatchLimits(bytes=300)).bulk_upsert(documents(150, "x" * 300)),
            PayloadTooLarge,
            "(and 149 more)",
        ),
    ):
        with pytest.raises(kind) as caught:
            await attempt
        assert len(caught.value.problems) == MAX_PROBLEMS
        assert told in caught.value.message


@pytest.mark.parametrize(
    ("spoilt", "message"),
    [
        (KnowledgeDocument.model_construct(content="x"), "documents[1] id: Field required"),
        (DOCUMENT.model_copy(update={"id": 7}), "documents[1] id: Input should be a valid string"),
        (KnowledgeDocument.model_construct(id="a"), "a content: Field required"),
        (KnowledgeDocument.model_construct(), "documents[1] id: Field required (and 1 more)"),
    ],
)
async def test_a_document_made_past_all_checks_is_refused_by_its_place_where_it_has_no_id(spoilt, message):
    with pytest.raises(InvalidDocument) as caught:
        await client(ScriptedServer(stored)).bulk_upsert([DOCUMENT, spoilt])
    assert caught.value.message == message
    assert caught.value.problems[0].document == message.partition(" ")[0]


def test_a_model_of_many_faults_is_one_short_error():
    with pytest.raises(InvalidRequest, match=r"\(and 19999 more\)") as caught:
        build(Query, {"text": "x", **{f"member{number}": 1 for number in range(20_000)}})
    assert len(caught.value.problems) == MAX_PROBLEMS


async def test_refused_texts_do_not_keep_the_rest_from_being_sent():
    def fail_first(request: httpx.Request) -> httpx.Response:
        answer = json.loads(stored(request).content)
        answer["results"][0] |= {"status": "failed", "problem": {"message": "too odd"}}
        return httpx.Response(200, json=answer)

    server = ScriptedServer(fail_first, stored)
    with pytest.raises(EmbeddingFailed) as caught:
        await client(server, batch_limits=BatchLimits(documents=2)).bulk_upsert(documents(6))
    assert len(server.requests) == 3
    assert caught.value.result is not None
    assert (caught.value.result.failed, caught.value.result.created) == (1, 5)


@pytest.mark.parametrize("concurrency", [1, 2])
async def test_a_failure_on_the_way_tells_what_was_stored(concurrency):
    server = ScriptedServer(stored, problem(403, "forbidden"))
    limits = BatchLimits(documents=10, concurrency=concurrency)
    with pytest.raises(Forbidden) as caught:
        await client(server, batch_limits=limits).bulk_upsert(documents(100))
    assert caught.value.result is not None
    assert [outcome.id for outcome in caught.value.result.results] == [f"doc:{n}" for n in range(10)]
    assert len(server.requests) <= 1 + concurrency, "nothing new is sent after a failure"


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_requests_travel_at_once_where_that_is_wanted(concurrency):
    class Slow(ScriptedServer):
        at_once = most_at_once = 0

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            for _ in range(5):
                await asyncio.sleep(0)
            self.at_once -= 1
            return await super().handle_async_request(request)

    server = Slow(stored)
    seen: list[int] = []
    result = await client(server, batch_limits=BatchLimits(documents=5, concurrency=concurrency)).bulk_upsert(
        documents(43), progress=lambda done, _: seen.append(done)
    )
    assert server.most_at_once == concurrency
    assert [outcome.id for outcome in result.results] == [f"doc:{n}" for n in range(43)]
    assert seen == sorted(seen)
    assert seen[-1] == 43


async def test_the_result_is_in_order_whichever_answer_comes_first():
    second_came = asyncio.Event()

    class SlowAtFirst(ScriptedServer):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if b"doc:0" in request.content:
                await second_came.wait()
            else:
                second_came.set()
            return await super().handle_async_request(request)

    limits = BatchLimits(documents=2, concurrency=2)
    result = await client(SlowAtFirst(stored), batch_limits=limits).bulk_upsert(documents(4))
    assert [outcome.id for outcome in result.results] == ["doc:0", "doc:1", "doc:2", "doc:3"]


async def test_an_error_in_the_progress_callback_ends_the_upsert():
    server = ScriptedServer(stored)

    def refuse(done: int, total: int) -> None:
        raise RuntimeError("the terminal is gone")

    with pytest.raises(RuntimeError, match="terminal"):
        await client(server, batch_limits=BatchLimits(documents=1, concurrency=2)).bulk_upsert(documents(50), refuse)
    assert len(server.requests) <= 3


@pytest.mark.parametrize("wrong", [{"documents": 0}, {"documents": 1001}, {"bytes": 10}, {"concurrency": 0}], ids=str)
def test_batch_limits_that_cannot_work(wrong):
    with pytest.raises(ValueError, match="must be"):
        BatchLimits(**wrong)


@pytest.mark.parametrize("id_", ["a/b?c#d", "..", "%2e%2e", "employee:ö@x.example"])
async def test_delete_keeps_ids_out_of_the_path(id_):
    server = ScriptedServer(httpx.Response(200, json={"deleted": 1}))
    assert await client(server).delete(id_) is True
    assert (str(server.requests[0].url), server.bodies) == (f"{URL}/delete", [{"ids": [id_]}])


async def test_delete_tells_whether_it_was_there():
    assert await client(ScriptedServer(httpx.Response(200, json={"deleted": 0}))).delete("gone") is False


async def test_many_ids_travel_in_several_requests_each_once():
    server = ScriptedServer(httpx.Response(200, json={"deleted": 3}))
    assert await client(server).delete_many([f"doc:{n % 1100}" for n in range(2000)]) == 9
    assert [len(body["ids"]) for body in server.bodies] == [500, 500, 100]


@pytest.mark.parametrize("id_", ["", "a\nb", "x" * 513, " a", "a\0"])
async def test_what_can_be_no_id_is_refused(id_):
    server = ScriptedServer(httpx.Response(200, json={"deleted": 0}))
    with pytest.raises(InvalidRequest):
        await client(server).delete(id_)
    assert server.requests == []


async def test_replace_children_is_one_request():
    server = ScriptedServer(stored)
    chunks = [KnowledgeDocument(id=f"w:1#{n}", content="x", metadata={"parent_id": "w:1"}) for n in range(80)]
    await client(server).replace_children("w:1", chunks)
    assert [(str(r.url), len(b["documents"])) for r, b in zip(server.requests, server.bodies, strict=True)] == [
        (f"{URL}/replace-children", 80)
    ]
    with pytest.raises(PayloadTooLarge, match="w:1"):
        await client(server, batch_limits=BatchLimits(bytes=4_000)).replace_children("w:1", chunks)
