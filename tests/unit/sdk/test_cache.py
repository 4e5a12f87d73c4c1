"""The cache: what it keeps, for how long, and what makes it forget."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from fake_http import ScriptedServer, client, documents, found, stored

from spot_sdk.cache import KnowledgeCache
from spot_sdk.documents import KnowledgeDocument
from spot_sdk.errors import Forbidden

pytestmark = pytest.mark.anyio


class Time:
    """Both clocks, set by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def clock(self) -> float:
        return 1_000 + self.seconds

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def cache(time: Time) -> KnowledgeCache:
    return KnowledgeCache(max_entries=2, ttl_s=10, clock=time.clock, now=time.now)


async def test_the_same_question_is_asked_once(cache: KnowledgeCache, time: Time):
    server = ScriptedServer(found(*documents(1)))
    kb = client(server, cache=cache)
    first = await kb.fetch("a", "text", 3, 0.1)
    assert await kb.fetch(" a ", "text", 3, 0.1) == first
    assert len(server.requests) == 1
    time.seconds = 9.9
    await kb.fetch("a", "text", 3, 0.1)
    assert len(server.requests) == 1
    time.seconds = 10
    await kb.fetch("a", "text", 3, 0.1)
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    "other", [("b", "text", 3, 0.1), ("a", "Text", 3, 0.1), ("a", "text", 4, 0.1), ("a", "text", 3, 0.2)]
)
async def test_another_question_is_asked(cache: KnowledgeCache, other):
    server = ScriptedServer(found())
    kb = client(server, cache=cache)
    await kb.fetch("a", "text", 3, 0.1)
    await kb.fetch(*other)
    assert len(server.requests) == 2


async def test_another_callers_answer_is_not_mine(cache: KnowledgeCache):
    server = ScriptedServer(found())
    for key in ("key-1", "key-2"):
        await client(server, cache=cache, api_key=key).fetch(text="x")
    assert len(server.requests) == 2


async def test_without_a_cache_nothing_is_kept():
    server = ScriptedServer(found())
    kb = client(server)
    await kb.fetch(text="x")
    await kb.fetch(text="x")
    assert len(server.requests) == 2


async def test_what_a_caller_does_to_its_documents_stays_with_it(cache: KnowledgeCache):
    kb = client(ScriptedServer(found(*documents(1))), cache=cache)
    for _ in range(3):
        [document] = await kb.fetch(text="x")
        assert document.tags == []
        document.tags.append("mine")
        document.metadata["mine"] = True


async def test_no_document_is_served_beyond_its_expiry(cache: KnowledgeCache, time: Time):
    document = KnowledgeDocument(id="a", content="x", expires_at=time.now() + timedelta(seconds=5))
    server = ScriptedServer(found(document), found())
    kb = client(server, cache=cache)
    assert len(await kb.fetch(text="x")) == 1
    time.seconds = 4.9
    assert len(await kb.fetch(text="x")) == 1
    time.seconds = 5
    assert await kb.fetch(text="x") == []


async def test_the_wall_clock_says_what_has_expired(cache: KnowledgeCache, time: Time, monkeypatch: pytest.MonkeyPatch):
    """A process that was frozen, or whose wall clock was set, has not seen on its own clock how time went by."""
    moments = [KnowledgeDocument(id="a", content="x", expires_at=time.now() + timedelta(seconds=5))]
    server = ScriptedServer(found(*moments), found())
    kb = client(server, cache=cache)
    assert len(await kb.fetch(text="x")) == 1
    monkeypatch.setattr(cache, "_now", lambda: datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC))
    assert await kb.fetch(text="x") == []
    assert len(server.requests) == 2


async def test_an_answer_with_an_expired_document_is_not_kept(cache: KnowledgeCache, time: Time):
    gone = KnowledgeDocument(id="a", content="x", expires_at=time.now())
    cache.put("key", [gone, *documents(1)], cache.generation)
    assert len(cache) == 0
    assert cache.get("key") is None


async def test_the_least_recently_used_goes_first(cache: KnowledgeCache):
    server = ScriptedServer(found())
    kb = client(server, cache=cache)
    for text in ("a", "b", "a", "c"):
        await kb.fetch(text=text)
    assert (len(server.requests), len(cache)) == (3, 2)
    await kb.fetch(text="a")
    assert len(server.requests) == 3
    await kb.fetch(text="b")
    assert len(server.requests) == 4


@pytest.mark.parametrize("write", ["upsert", "bulk_upsert", "delete", "replace_children"])
async def test_writing_forgets_everything(cache: KnowledgeCache, write: str):
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("query"):
            return found()
        return httpx.Response(200, json={"deleted": 1}) if "delete" in request.url.path else stored(request)

    kb = client(ScriptedServer(answer), cache=cache)
    await kb.fetch(text="x")
    assert len(cache) == 1
    document = documents(1)[0]
    arguments = {"upsert": (document,), "bulk_upsert": ([document],), "delete": ("a",), "replace_children": ("p", [])}
    await getattr(kb, write)(*arguments[write])
    assert len(cache) == 0


async def test_a_write_that_failed_may_have_written(cache: KnowledgeCache):
    server = ScriptedServer(found(), httpx.Response(403))
    kb = client(server, cache=cache)
    await kb.fetch(text="x")
    with pytest.raises(Forbidden):
        await kb.delete("a")
    assert len(cache) == 0


async def test_an_answer_from_before_a_write_is_not_kept_after_it(cache: KnowledgeCache):
    written = asyncio.Event()

    class Slow(ScriptedServer):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if request.url.path.endswith("query"):
                await written.wait()
                return found(*documents(1))
            return await super().handle_async_request(request)

    kb = client(Slow(stored), cache=cache)
    question = asyncio.create_task(kb.fetch(text="x"))
    await asyncio.sleep(0)
    await kb.upsert(documents(1)[0])
    written.set()
    assert len(await question) == 1
    assert len(cache) == 0


@pytest.mark.parametrize("wrong", [{"max_entries": 0}, {"ttl_s": 0}, {"ttl_s": float("nan")}], ids=str)
def test_a_cache_that_could_keep_nothing(wrong):
    with pytest.raises(ValueError, match="cache"):
        KnowledgeCache(**wrong)
