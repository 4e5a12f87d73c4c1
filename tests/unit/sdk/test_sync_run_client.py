"""A sync run's client side: how it keeps the run alive, and how it ends."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import httpx
import pytest
from fake_http import URL, Naps, ScriptedServer, client, documents, problem, stored
from pydantic import ValidationError

from spot_sdk import sync_run
from spot_sdk.documents import KnowledgeDocument
from spot_sdk.errors import Conflict, SyncRunning, Unavailable
from spot_sdk.sync import RemovalLimits

pytestmark = pytest.mark.anyio

RUN = {"id": 7, "fence": 3}


class SyncServer(ScriptedServer):
    """Answers as a store does to one run; ``failing`` are paths that answer 503, ``heard`` what was asked."""

    def __init__(self, *, lease_s: int = 90, status: str = "succeeded") -> None:
        super().__init__(self._answer)
        self.lease_s = lease_s
        self.status = status
        self.failing: dict[str, httpx.Response | Exception] = {}
        self.heartbeat = asyncio.Event()

    @property
    def heard(self) -> list[str]:
        return [str(request.url).removeprefix(URL) for request in self.requests]

    def _answer(self, request: httpx.Request) -> httpx.Response:
        path = str(request.url).removeprefix(URL)
        if path.endswith("/heartbeat"):
            self.heartbeat.set()
        failure = self.failing.get(path)
        if isinstance(failure, Exception):
            raise failure
        if failure is not None:
            return failure
        return httpx.Response(200, json=self._success(path, request))

    def _success(self, path: str, request: httpx.Request) -> Any:
        if path == "/sync-runs":
            return {"run": RUN, "lease_s": self.lease_s}
        if path == "/sync-runs/7/heartbeat":
            return RUN
        if path == "/bulk-upsert":
            return stored(request).json()
        status = "failed" if path.endswith("/fail") else self.status
        return {
            "id": 7,
            "name": "source:wiki",
            "trigger": "client",
            "status": status,
            "started_at": "2026-01-01T00:00:00Z",
            "removed": 2,
            "held": 0,
            "error": self.bodies[-1].get("reason", ""),
        }


async def test_a_run_tells_everything_it_should():
    server = SyncServer()
    kb = client(server)
    async with kb.sync_run("wiki", limits=RemovalLimits(share=0.5, count=9)) as run:
        await run.upsert(documents(20))
    assert server.heard == ["/sync-runs", "/bulk-upsert", "/bulk-upsert", "/sync-runs/7/complete"]
    assert server.bodies[0] == {"source": "wiki"}
    assert [body["run"] for body in server.bodies[1:3]] == [RUN, RUN]
    assert server.bodies[3] == {"fence": 3, "limits": {"share": 0.5, "count": 9}}
    assert (run.result.created, run.result.removed, run.result.status) == (20, 2, "succeeded")


async def test_a_run_is_kept_alive_while_its_source_is_read():
    server = SyncServer(lease_s=0)
    server.failing["/sync-runs/7/heartbeat"] = problem(503, "overloaded")  # which must not end it
    async with client(server).sync_run("wiki"):
        for _ in range(2):
            await asyncio.wait_for(server.heartbeat.wait(), 5)
            server.heartbeat.clear()
    assert server.heard[-1] == "/sync-runs/7/complete"
    count = len(server.requests)
    await asyncio.sleep(0.01)
    assert len(server.requests) == count, "no heartbeat after the end"


async def test_heartbeats_end_when_the_run_is_lost():
    server = SyncServer(lease_s=0)
    server.failing["/sync-runs/7/heartbeat"] = problem(409, "stale_run")
    async with client(server).sync_run("wiki"):
        await asyncio.wait_for(server.heartbeat.wait(), 5)
        for _ in range(20):
            await asyncio.sleep(0)
    assert server.heard.count("/sync-runs/7/heartbeat") == 1


async def test_a_start_is_not_repeated_when_it_may_have_been_heard():
    server = SyncServer()
    server.failing["/sync-runs"] = httpx.ReadError("reset")
    with pytest.raises(Unavailable):
        await client(server).sync_run("wiki").__aenter__()
    assert server.heard == ["/sync-runs"]


async def test_a_start_is_repeated_when_nobody_can_have_heard_it():
    server = SyncServer()
    naps = Naps()
    server.failing["/sync-runs"] = httpx.ConnectError("refused")
    with pytest.raises(Unavailable):
        await client(server, retry=naps.policy(attempts=3)).sync_run("wiki").__aenter__()
    assert (len(server.heard), len(naps.slept_s)) == (3, 2)


async def test_the_error_of_the_block_is_the_one_that_is_raised(caplog: pytest.LogCaptureFixture):
    server = SyncServer()
    server.failing["/sync-runs/7/fail"] = problem(500, "internal_error")
    run = client(server).sync_run("wiki")

    async def sync() -> None:
        async with run:
            raise OSError("page 2")

    with caplog.at_level(logging.WARNING), pytest.raises(OSError, match="page 2"):
        await sync()
    assert "could not be told" in caplog.text
    assert (run.result.status, run.result.error) == ("failed", "OSError: page 2")


async def test_a_very_long_reason_is_cut():
    server = SyncServer()

    async def sync() -> None:
        async with client(server).sync_run("wiki"):
            raise OSError("x" * 10_000)

    with pytest.raises(OSError, match="x"):
        await sync()
    assert len(server.bodies[-1]["reason"]) == 2_000


async def test_a_cancelled_run_says_that_it_failed():
    server = SyncServer()
    began = asyncio.Event()

    async def sync() -> None:
        async with client(server).sync_run("wiki"):
            began.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(sync())
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert server.heard[-1] == "/sync-runs/7/fail"


async def test_refused_texts_are_told_and_do_not_fail_the_run():
    server = SyncServer()
    outcome = {"id": "doc:0", "status": "failed", "problem": {"document": "doc:0", "message": "too odd"}}
    server.failing["/bulk-upsert"] = httpx.Response(200, json={"results": [outcome]})
    async with client(server).sync_run("wiki") as run:
        await run.upsert(documents(1))
    assert (run.result.status, run.result.failed) == ("succeeded", 1)
    assert [found.document for found in run.result.problems] == ["doc:0"]


async def test_what_was_stored_before_a_failure_is_counted():
    server = SyncServer()
    run = client(server).sync_run("wiki")

    async def sync() -> None:
        async with run:
            await run.upsert(documents(50))
            server.failing["/bulk-upsert"] = problem(403, "forbidden")
            await run.upsert([KnowledgeDocument(id="b", content="x")])

    with pytest.raises(Exception, match="as told"):
        await sync()
    assert (run.result.created, run.result.status) == (50, "failed")


async def test_another_run_under_way_is_its_own_error():
    server = SyncServer()
    server.failing["/sync-runs"] = problem(409, "sync_running")
    with pytest.raises(SyncRunning):
        await client(server).sync_run("wiki").__aenter__()


async def test_the_end_of_another_run_may_be_waited_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sync_run, "_RETRY_S", 0.01)
    server = SyncServer()
    server.failing["/sync-runs"] = problem(409, "sync_running")
    waiting = asyncio.create_task(client(server).sync_run("wiki", wait_s=60).__aenter__())
    while len(server.requests) < 3:
        await asyncio.sleep(0.01)
    del server.failing["/sync-runs"]
    run = await asyncio.wait_for(waiting, 10)
    await run.__aexit__(None, None, None)
    assert server.heard[-1] == "/sync-runs/7/complete"

    server.failing["/sync-runs"] = problem(409, "sync_running")
    with pytest.raises(SyncRunning):
        await asyncio.wait_for(client(server).sync_run("wiki", wait_s=0.05).__aenter__(), 10)


async def test_a_run_is_entered_once_and_has_no_result_before():
    run = client(SyncServer()).sync_run("wiki")
    with pytest.raises(Conflict):
        _ = run.result
    async with run:
        with pytest.raises(Conflict):
            await run.__aenter__()


@pytest.mark.parametrize("wrong", [{"share": True}, {"count": True}, {"count": "9"}, {"shares": 0.5}], ids=str)
def test_what_may_be_removed_is_said_in_numbers(wrong: dict[str, Any]):
    with pytest.raises(ValidationError):
        RemovalLimits(**wrong)
