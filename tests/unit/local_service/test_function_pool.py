"""How a pool hands invocations to workers, with workers that do as they are told."""

from __future__ import annotations

import asyncio
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from local.lambda_service.functions import FunctionSpec
from local.lambda_service.invocation import Invocation, Result, failure
from local.lambda_service.pool import FunctionPool, Throttled
from local.lambda_service.worker import InitFailed, WorkerGone

pytestmark = pytest.mark.anyio


class ScriptedWorker:
    """Follows `script`: what its start and its runs do, one after the other; then it answers."""

    def __init__(self, script: deque[str]) -> None:
        self.script = script
        self.alive = False
        self.stale = False
        self.runs = 0
        self.stopped = False
        self.release = asyncio.Event()

    async def start(self, invocation: Invocation) -> None:
        if self.script and self.script[0] == "fail to load":
            self.script.popleft()
            raise InitFailed(failure("Runtime.ImportModuleError", "no module"))
        self.alive = True

    async def run(self, invocation: Invocation) -> Result:
        self.runs += 1
        match self.script.popleft() if self.script else "answer":
            case "be gone":
                self.alive = False
                raise WorkerGone
            case "die":
                self.alive = False
                return failure("Runtime.ExitError", "it died")
            case "wait":
                await self.release.wait()
        return Result(b"1")

    async def stop(self) -> None:
        self.alive = False
        self.stopped = True
        self.release.set()


class Bench:
    """A pool whose workers share one script."""

    def __init__(self, *script: str, max_workers: int = 2, max_waiting: int = 1, reserved: int | None = None) -> None:
        self.script = deque(script)
        self.workers: list[ScriptedWorker] = []
        self.pool = FunctionPool(
            spec(reserved),
            self.make,
            max_workers=max_workers,
            max_waiting=max_waiting,  # type: ignore[arg-type]
        )

    def make(self, _: FunctionSpec) -> ScriptedWorker:
        self.workers.append(ScriptedWorker(self.script))
        return self.workers[-1]

    def invoke(self) -> asyncio.Task[Result]:
        return asyncio.create_task(self.pool.invoke(Invocation(b"{}")))

    async def running(self, count: int) -> None:
        """Waits until `count` invocations have reached a worker."""
        while sum(worker.runs for worker in self.workers) < count:
            await asyncio.sleep(0)


def spec(reserved: int | None = None) -> FunctionSpec:
    values: dict[str, Any] = {"code_dir": Path("/code"), "handler": "app.handler", "runtime": "r", "log_group": "l"}
    return FunctionSpec(logical_id="F", name="f", arn="arn:f", reserved_concurrency=reserved, **values)


async def test_a_warm_worker_is_used_again() -> None:
    bench = Bench()
    assert [await bench.invoke() for _ in range(3)] == [Result(b"1")] * 3
    assert [worker.runs for worker in bench.workers] == [3]


async def test_a_worker_that_was_gone_is_replaced() -> None:
    bench = Bench("be gone")
    assert await bench.invoke() == Result(b"1")
    assert [(worker.runs, worker.stopped) for worker in bench.workers] == [(1, True), (1, False)]


async def test_workers_that_never_stay_are_given_up() -> None:
    bench = Bench(*["be gone"] * 9)
    result = await bench.invoke()
    assert (result.failed, result.error_type, len(bench.workers)) == (True, "Runtime.ExitError", 3)


async def test_a_worker_that_died_is_not_used_again() -> None:
    bench = Bench("die")
    assert (await bench.invoke()).failed
    assert await bench.invoke() == Result(b"1")
    assert len(bench.workers) == 2
    assert bench.workers[0].stopped


async def test_after_a_failed_start_no_other_follows_at_once() -> None:
    bench = Bench("fail to load", "fail to load")
    first, second = await bench.invoke(), await bench.invoke()
    assert first == second == failure("Runtime.ImportModuleError", "no module")
    assert len(bench.workers) == 1
    bench.pool.reload()  # the code changed: worth a try
    assert (await bench.invoke()).failed
    bench.pool.reload()
    assert await bench.invoke() == Result(b"1")


async def test_invocations_wait_in_turn_and_more_are_throttled() -> None:
    bench = Bench("wait", "wait")
    running = [bench.invoke(), bench.invoke()]
    await bench.running(2)
    waiting = bench.invoke()
    await asyncio.sleep(0)
    with pytest.raises(Throttled):
        await bench.invoke()
    assert bench.pool.running == 3
    for worker in bench.workers:
        worker.release.set()
    assert await asyncio.gather(*running, waiting) == [Result(b"1")] * 3
    assert len(bench.workers) == 2
    assert bench.pool.running == 0


@pytest.mark.parametrize(("reserved", "admitted"), [(0, 0), (1, 1), (3, 3)])
async def test_reserved_concurrency_is_the_limit(reserved: int, admitted: int) -> None:
    bench = Bench(*["wait"] * reserved, reserved=reserved)
    invocations = [bench.invoke() for _ in range(reserved + 1)]
    await bench.running(min(admitted, 2))
    with pytest.raises(Throttled):
        await invocations.pop()
    await bench.pool.close()
    await asyncio.gather(*invocations, return_exceptions=True)


async def test_reload_replaces_idle_workers_now_and_busy_ones_later() -> None:
    bench = Bench("wait")
    busy = bench.invoke()
    await bench.running(1)
    await bench.invoke()
    bench.pool.reload()
    await asyncio.sleep(0)
    assert [worker.stopped for worker in bench.workers] == [False, True]
    bench.workers[0].release.set()
    assert await busy == Result(b"1")
    await bench.invoke()
    assert bench.workers[0].stopped
    assert [worker.runs for worker in bench.workers] == [1, 1, 1]


async def test_a_cancelled_invocation_takes_its_worker_along() -> None:
    bench = Bench("wait")
    invocation = bench.invoke()
    await bench.running(1)
    invocation.cancel()
    await asyncio.gather(invocation, return_exceptions=True)
    await bench.invoke()
    assert bench.workers[0].stopped
    assert len(bench.workers) == 2


async def test_close_ends_busy_and_idle_workers_and_admits_no_more() -> None:
    bench = Bench("wait", max_workers=1)
    busy = bench.invoke()
    await bench.running(1)
    waiting = bench.invoke()
    await asyncio.sleep(0)
    await bench.pool.close()
    assert all(worker.stopped for worker in bench.workers)
    assert await busy == Result(b"1")
    for late in (waiting, bench.invoke()):
        with pytest.raises(Throttled):
            await late
    assert len(bench.workers) == 1
