"""An analyzer's question ends in time, whatever the store does: it is away, frozen, slow, or says that it is busy."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from spot_sdk.client import ANALYSIS_TIMEOUT_S, KnowledgeClient
from spot_sdk.errors import DeadlineExceeded, InvalidInput, InvalidRequest, KnowledgeError, Overloaded, Unavailable

pytestmark = pytest.mark.anyio

MAIL = SimpleNamespace(body_text="Pay now.", retrieval_limits=None)
LIMIT_S = 0.6
ENOUGH_S = LIMIT_S + 1.0

Behave = Callable[[asyncio.StreamReader, asyncio.StreamWriter], "asyncio.Future[None] | object"]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
async def _closed(anyio_backend: str) -> AsyncIterator[None]:
    yield
    await KnowledgeClient.close_shared()


async def freeze(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(65_536)
    await asyncio.sleep(60)


async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(65_536)
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n")
    for _ in range(600):
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.1)


async def say_busy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while await reader.read(65_536):
        writer.write(b"HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


@asynccontextmanager
async def serving(behave: Behave) -> AsyncIterator[str]:
    tasks: set[asyncio.Task[None]] = set()

    async def behave_until_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await behave(reader, writer)  # type: ignore[misc]
        except (asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(behave_until_the_end, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}/api/v1/knowledge"
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize(
    ("behave", "error"),
    [(freeze, DeadlineExceeded), (drip, DeadlineExceeded), (say_busy, DeadlineExceeded), (hang_up, KnowledgeError)],
)
async def test_a_store_in_trouble_is_told_by_its_error_in_time(
    behave: Behave, error: type[KnowledgeError], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(behave) as url:
        monkeypatch.setenv("SPOT_KNOWLEDGE_URL", url)
        started = time.monotonic()
        with pytest.raises(error) as caught:
            await KnowledgeClient.for_analysis(MAIL, timeout_s=LIMIT_S).fetch("policy")
        assert time.monotonic() - started < ENOUGH_S
        assert isinstance(caught.value, Unavailable | Overloaded)


async def test_a_store_that_is_away_is_told_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(hang_up) as url:
        pass
    monkeypatch.setenv("SPOT_KNOWLEDGE_URL", url)
    started = time.monotonic()
    with pytest.raises(Unavailable):
        await KnowledgeClient.for_analysis(MAIL).fetch("policy")
    assert time.monotonic() - started < ANALYSIS_TIMEOUT_S


async def test_the_environment_says_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(freeze) as url:
        monkeypatch.setenv("SPOT_KNOWLEDGE_URL", url)
        monkeypatch.setenv("SPOT_KNOWLEDGE_TIMEOUT_S", str(LIMIT_S))
        with pytest.raises(DeadlineExceeded, match=rf"within {LIMIT_S} s"):
            await KnowledgeClient.for_analysis(MAIL).fetch("policy")


@pytest.mark.parametrize("seconds", ["soon", "0", "-1", "inf", "nan"])
def test_a_time_that_is_none_is_refused(seconds: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPOT_KNOWLEDGE_URL", "http://store.test/api/v1/knowledge")
    if seconds != "soon":
        with pytest.raises(InvalidRequest):
            KnowledgeClient.for_analysis(MAIL, timeout_s=float(seconds))
    monkeypatch.setenv("SPOT_KNOWLEDGE_TIMEOUT_S", seconds)
    with pytest.raises(InvalidInput):
        KnowledgeClient.for_analysis(MAIL)
