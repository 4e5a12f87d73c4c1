"""The workers of one function: started when needed, kept warm, replaced when their code changes or they fail."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from local.lambda_service.functions import FunctionSpec
from local.lambda_service.invocation import Invocation, Result, failure
from local.lambda_service.worker import InitFailed, Worker, WorkerGone

_ATTEMPTS = 3
_FIRST_BACKOFF_S = 0.5
_LONGEST_BACKOFF_S = 10.0


class Throttled(Exception):
    """The function has as many invocations, running and waiting, as it may have."""


class FunctionPool:
    """Runs invocations of one function on at most `max_workers` processes, first come, first served.

    Where the template reserves concurrency, more invocations than that are throttled, as Lambda does it; else up to
    `max_waiting` wait for a worker. `new_worker` makes a worker that is not started yet.
    """

    def __init__(
        self,
        spec: FunctionSpec,
        new_worker: Callable[[FunctionSpec], Worker],
        *,
        max_workers: int,
        max_waiting: int,
    ) -> None:
        self._new_worker = new_worker
        self._max_workers = max_workers
        self._max_waiting = max_waiting
        self._idle: list[Worker] = []
        self._busy: dict[Worker, asyncio.Task[object]] = {}
        self._stopping: set[asyncio.Task[None]] = set()
        self._admitted = 0
        self._backoff_s = 0.0
        self._broken_until = 0.0
        self._broken: Result | None = None
        self._closed = False
        self._configure(spec)

    def _configure(self, spec: FunctionSpec) -> None:
        self.spec = spec
        reserved = spec.reserved_concurrency
        workers = self._max_workers if reserved is None else max(1, min(reserved, self._max_workers))
        self._slots = asyncio.Semaphore(workers)
        self._limit = workers + self._max_waiting if reserved is None else reserved

    @property
    def running(self) -> int:
        """How many invocations are running or waiting."""
        return self._admitted

    async def invoke(self, invocation: Invocation) -> Result:
        """The function's answer. Raises Throttled."""
        if self._admitted >= self._limit or self._closed:
            raise Throttled(self.spec.name)
        self._admitted += 1
        try:
            async with self._slots:
                return await self._run(invocation)
        finally:
            self._admitted -= 1

    def reload(self, spec: FunctionSpec | None = None) -> None:
        """From now on invocations run new code, and `spec` if given: idle workers end now, busy ones after work."""
        if spec is not None:
            self._configure(spec)
        self._broken, self._backoff_s = None, 0.0
        for worker in self._busy:
            worker.stale = True
        while self._idle:
            self._retire(self._idle.pop())

    async def close(self) -> None:
        """Ends all workers, busy ones too, and waits until they are gone."""
        self._closed = True
        for worker in [*self._idle, *self._busy]:
            self._retire(worker)
        self._idle.clear()
        while pending := {*self._stopping, *self._busy.values()}:
            await asyncio.wait(pending)

    async def _run(self, invocation: Invocation) -> Result:
        for _ in range(_ATTEMPTS):
            if self._closed:
                raise Throttled(self.spec.name)
            if self._broken is not None and time.monotonic() < self._broken_until:
                return self._broken
            with self._borrowed(self._take_idle() or self._new_worker(self.spec)) as worker:
                try:
                    if not worker.alive:
                        await worker.start(invocation)
                        self._broken, self._backoff_s = None, 0.0
                    return await worker.run(invocation)
                except WorkerGone:
                    continue
                except InitFailed as failed:
                    self._break(failed.result)
                    return failed.result
        return failure("Runtime.ExitError", f"RequestId: {invocation.request_id} Error: no worker stays alive")

    @contextmanager
    def _borrowed(self, worker: Worker) -> Generator[Worker]:
        task = asyncio.current_task()
        assert task is not None
        self._busy[worker] = task
        try:
            yield worker
        except BaseException:
            worker.stale = True  # it may still be at work for a caller who is gone
            raise
        finally:
            del self._busy[worker]
            if worker.alive and not worker.stale and not self._closed:
                self._idle.append(worker)
            else:
                self._retire(worker)

    def _take_idle(self) -> Worker | None:
        while self._idle:
            worker = self._idle.pop()  # the one used last: rarely needed workers stay unused
            if worker.alive:
                return worker
            self._retire(worker)
        return None

    def _break(self, result: Result) -> None:
        """Answers with the same error for a while, instead of starting process after process that cannot load."""
        self._backoff_s = min(_LONGEST_BACKOFF_S, self._backoff_s * 2 or _FIRST_BACKOFF_S)
        self._broken = result
        self._broken_until = time.monotonic() + self._backoff_s

    def _retire(self, worker: Worker) -> None:
        task = asyncio.create_task(worker.stop())
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)
