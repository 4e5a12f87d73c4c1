"""The service around a source: who may order a sync, what the answers say, and that no failure removes anything."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import anyio
import httpx
import pytest

from examples.providers.listing import Deadline, Listing, SourceFailed
from examples.providers.service import MAX_BODY_BYTES, Provider
from examples.providers.settings import ServiceSettings, read
from knowledge.sync.provider import MAX_ANSWER_BYTES, ProviderAnswer
from spot_sdk.documents import KnowledgeDocument
from spot_sdk.errors import StoreUnavailable, Unauthorized
from spot_sdk.testing import FakeKnowledgeClient

pytestmark = pytest.mark.anyio

SOURCE = "provider-test"
KEY = "k" * 40
Read = Callable[[int, Deadline], Listing]


def document(id_: str, content: str = "text") -> KnowledgeDocument:
    return KnowledgeDocument(id=id_, content=content, source=SOURCE)


def reading(*ids: str, remarks: list[str] | None = None) -> Read:
    return lambda _chunk_chars, _deadline: Listing([document(id_) for id_ in ids], remarks or [])


def service(read_source: Read, store: FakeKnowledgeClient, **environment: str) -> httpx.AsyncClient:
    settings = read(ServiceSettings, {"SPOT_KNOWLEDGE_URL": "http://store", **environment})
    provider = Provider(SOURCE, read_source, settings, connect=lambda: store)  # type: ignore[arg-type]
    transport = httpx.ASGITransport(provider.app(), raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://provider")


async def order(client: httpx.AsyncClient, body: bytes = b"", key: str | None = None) -> httpx.Response:
    return await client.post("/internal/sync", content=body, headers={"X-Internal-API-Key": key} if key else {})


def ids(store: FakeKnowledgeClient) -> list[str]:
    return [document.id for document in store.documents]


async def test_a_sync_makes_the_store_equal_to_the_source() -> None:
    store = FakeKnowledgeClient([document("a"), document("old"), KnowledgeDocument(id="x", content="t", source="else")])
    answer = await order(service(reading("a", "b", remarks=["one entry is odd"]), store))
    assert answer.status_code == 200
    assert answer.json() == {
        "run_id": 1,
        "source": SOURCE,
        "status": "succeeded",
        "documents": 2,
        "created": 1,
        "updated": 0,
        "unchanged": 1,
        "failed": 0,
        "embedded": 1,
        "over_window": 0,
        "removed": 1,
        "held": 0,
        "message": "",
        "remarks": ["one entry is odd"],
    }
    assert ids(store) == ["a", "b", "x"]


async def test_the_source_is_told_the_length_to_chunk_to_and_the_time_left() -> None:
    told: list[Any] = []

    def read_source(chunk_chars: int, deadline: Deadline) -> Listing:
        told.extend([chunk_chars, deadline.remaining_s])
        return Listing([document("a")])

    await order(service(read_source, FakeKnowledgeClient()), b'{"run_id": "7", "deadline_ms": 20000}')
    assert told[0] == 2000
    assert 10 < told[1] <= 19


async def test_the_provider_has_a_limit_of_its_own() -> None:
    told: list[float] = []

    def read_source(_: int, deadline: Deadline) -> Listing:
        told.append(deadline.remaining_s)
        return Listing([document("a")])

    client = service(read_source, FakeKnowledgeClient(), PROVIDER_SYNC_TIMEOUT_S="5")
    await order(client)
    await order(client, b'{"deadline_ms": 86400000}')
    assert max(told) <= 5


@pytest.mark.parametrize("empty", [True, False])
async def test_a_source_that_cannot_be_listed_removes_nothing(empty: bool) -> None:
    def read_source(_: int, __: Deadline) -> Listing:
        raise SourceFailed("page 2 was cut short")

    store = FakeKnowledgeClient([] if empty else [document("a")])
    answer = await order(service(read_source, store))
    assert answer.status_code == 502
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json() == {
        "type": "about:blank",
        "title": "The source could not be listed",
        "status": 502,
        "detail": "page 2 was cut short",
        "code": "source_failed",
        "problems": [],
    }
    assert ids(store) == ([] if empty else ["a"])
    async with store.sync_run(SOURCE):
        pass  # the failed run has ended: another one may begin at once


async def test_an_empty_listing_removes_nothing_and_says_so() -> None:
    store = FakeKnowledgeClient([document("a"), document("b")])
    answer = await order(service(reading(), store))
    assert answer.status_code == 200
    assert (answer.json()["status"], answer.json()["held"]) == ("partial", 2)
    assert "2 of 2 documents" in answer.json()["message"]
    assert ids(store) == ["a", "b"]


async def test_a_document_that_is_refused_is_named_and_kept() -> None:
    store = FakeKnowledgeClient([document("b", "as it was")])
    store.refuse_to_embed("b")
    answer = await order(service(reading("a", "b"), store))
    assert answer.json()["failed"] == 1
    assert answer.json()["message"].startswith("1 documents were refused, among them b: ")
    assert ids(store) == ["a", "b"]


async def test_a_sync_stops_at_the_callers_deadline_and_removes_nothing() -> None:
    released = threading.Event()

    def read_source(_: int, __: Deadline) -> Listing:
        released.wait(30)
        return Listing([document("b")])

    store = FakeKnowledgeClient([document("a")])
    try:
        with anyio.fail_after(10):
            answer = await order(service(read_source, store), b'{"deadline_ms": 1300}')
    finally:
        released.set()
    assert answer.status_code == 504
    assert answer.json()["code"] == "deadline_exceeded"
    assert "nothing was removed" in answer.json()["detail"]
    assert ids(store) == ["a"]
    async with store.sync_run(SOURCE):
        pass


async def test_a_deadline_that_has_passed_reads_nothing() -> None:
    read_source = pytest.fail
    answer = await order(service(read_source, FakeKnowledgeClient()), b'{"deadline_ms": 1}')  # type: ignore[arg-type]
    assert answer.status_code == 504


async def test_one_sync_at_a_time() -> None:
    begun, released = threading.Event(), threading.Event()

    def read_source(_: int, __: Deadline) -> Listing:
        begun.set()
        released.wait(30)
        return Listing([document("a")])

    answers: list[httpx.Response] = []
    client = service(read_source, FakeKnowledgeClient())

    async def first() -> None:
        answers.append(await order(client))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(first)
        await anyio.to_thread.run_sync(begun.wait, 30)
        assert (await client.get("/health")).json() == {"status": "ok", "source": SOURCE, "syncing": True}
        second = await order(client)
        released.set()
    assert second.status_code == 409
    assert second.json()["detail"] == "a sync is running already"
    assert answers[0].status_code == 200
    assert (await client.get("/health")).json()["syncing"] is False
    assert (await order(client)).status_code == 200


async def test_a_sync_of_the_same_source_elsewhere_is_a_conflict() -> None:
    store = FakeKnowledgeClient()
    async with store.sync_run(SOURCE):
        answer = await order(service(reading("a"), store))
    assert answer.status_code == 409
    assert answer.json()["code"] == "sync_running"


@pytest.mark.parametrize(
    ("error", "status", "detail"),
    [
        (StoreUnavailable("the database is away"), 503, "the database is away"),
        (Unauthorized("a valid key is needed"), 502, "the Knowledge Store refused: a valid key is needed"),
    ],
)
async def test_a_failing_store_is_not_taken_for_a_failing_provider(error, status: int, detail: str) -> None:
    store = FakeKnowledgeClient()
    store.fail_with(error)
    answer = await order(service(reading("a"), store))
    assert (answer.status_code, answer.json()["status"], answer.json()["code"]) == (status, status, error.code)
    assert answer.json()["detail"] == detail


async def test_a_bug_is_told_without_its_stack(caplog: pytest.LogCaptureFixture) -> None:
    def read_source(_: int, __: Deadline) -> Listing:
        raise RuntimeError("password hunter2 in a message")

    store = FakeKnowledgeClient([document("a")])
    client = service(read_source, store)
    answer = await order(client)
    assert answer.status_code == 500
    assert answer.json()["code"] == "internal_error"
    assert "hunter2" not in answer.text
    assert ids(store) == ["a"]
    assert (await client.get("/health")).json()["syncing"] is False


@pytest.mark.parametrize("shown", [None, "", "wrong", KEY + "k", KEY.upper(), "é"])
async def test_a_stranger_orders_nothing(shown: str | None) -> None:
    client = service(pytest.fail, FakeKnowledgeClient(), SPOT_INTERNAL_API_KEY=KEY)  # type: ignore[arg-type]
    headers = {} if shown is None else {"X-Internal-API-Key": shown.encode()}
    answer = await client.post("/internal/sync", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")
    assert KEY not in answer.text


async def test_the_platforms_key_opens_and_health_needs_none() -> None:
    client = service(reading("a"), FakeKnowledgeClient(), SPOT_INTERNAL_API_KEY=KEY)
    assert (await order(client, key=KEY)).status_code == 200
    assert (await client.get("/health")).status_code == 200


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 200),
        (b"  \n", 200),
        (b"{}", 200),
        (b'{"run_id": 7, "something": "new"}', 200),
        (b'{"deadline_ms": 0}', 422),
        (b'{"deadline_ms": "soon"}', 422),
        (b"[]", 422),
        (b"{", 422),
        (b"\xff", 422),
        (b" " * (MAX_BODY_BYTES + 1), 413),
    ],
)
async def test_what_an_order_may_say(body: bytes, status: int) -> None:
    answer = await order(service(reading("a"), FakeKnowledgeClient()), body)
    assert answer.status_code == status
    if status != 200:
        assert answer.json()["detail"]


async def test_only_a_post_orders() -> None:
    client = service(pytest.fail, FakeKnowledgeClient())  # type: ignore[arg-type]
    assert (await client.get("/internal/sync")).status_code == 405


async def test_the_platform_understands_the_longest_answer() -> None:
    store = FakeKnowledgeClient()
    names = [f"{number:03}{'n' * 490}" for number in range(100)]
    store.refuse_to_embed(*names)
    answer = await order(service(reading(*names, remarks=["r" * 10_000] * 1_000), store))
    assert len(answer.content) < MAX_ANSWER_BYTES
    assert ProviderAnswer.model_validate_json(answer.content).message.startswith("100 documents were refused")


async def test_what_is_logged_names_the_run_and_no_key(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="provider"):
        client = service(reading("a", remarks=["odd"]), FakeKnowledgeClient(), SPOT_INTERNAL_API_KEY=KEY)
        await order(client, b'{"run_id": "4711"}', key=KEY)
    assert "4711" in caplog.text
    assert "odd" in caplog.text
    assert KEY not in caplog.text
