"""Asynchronous invocations: accepted at once, run in their turn, repeated after errors as Lambda repeats them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from local.lambda_service.functions import FunctionSpec
from local.lambda_service.invocation import Invocation, Result
from local.lambda_service.logs import LogSink
from local.lambda_service.pool import Throttled
from local.lambda_service.service import LambdaService

_LAMBDA_RETRY_DELAYS_S = (60.0, 120.0)
_FIRST_THROTTLE_DELAY_S = 1.0
_LONGEST_THROTTLE_DELAY_S = 300.0


@dataclass(frozen=True)
class LostEvent:
    """An event that its function did not handle; `result` is its last error, None if it never ran."""

    function: FunctionSpec
    payload: bytes
    request_id: str
    attempts: int
    result: Result | None


class AsyncInvoker:
    """Runs events in the background. `on_lost` hears of each one that is given up: the place for a dead-letter queue.

    `retry_delays_s` are the waits before the second attempt, the third and so on; the last one repeats.
    """

    def __init__(
        self,
        service: LambdaService,
        sink: LogSink,
        *,
        on_lost: Callable[[LostEvent], None] | None = None,
        retry_delays_s: Sequence[float] = _LAMBDA_RETRY_DELAYS_S,
    ) -> None:
        self._service = service
        self._sink = sink
        self._on_lost = on_lost
        self._retry_delays_s = retry_delays_s
        self._tasks: set[asyncio.Task[None]] = set()

    def submit(self, function: FunctionSpec, invocation: Invocation) -> None:
        """Accepts an event; the request id stays the same over all attempts."""
        task = asyncio.create_task(self._run(function, invocation))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Gives up events that wait for an attempt. Events are in memory only, so this says how many were lost."""
        if self._tasks:
            self._sink.note(f"{len(self._tasks)} asynchronous event(s) given up, for the service stops")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, function: FunctionSpec, event: Invocation) -> None:
        policy = function.async_policy
        expires = time.monotonic() + policy.max_age_s
        attempts = 0
        result: Result | None = None
        throttle_delay_s = _FIRST_THROTTLE_DELAY_S
        while attempts <= policy.max_retries and time.monotonic() < expires:
            try:
                result = await self._service.invoke(function, Invocation(event.payload, request_id=event.request_id))
            except Throttled:
                await asyncio.sleep(throttle_delay_s)
                throttle_delay_s = min(_LONGEST_THROTTLE_DELAY_S, 2 * throttle_delay_s)
                continue
            attempts += 1
            if not result.failed:
                return
            if attempts <= policy.max_retries:
                await asyncio.sleep(self._retry_delays_s[min(attempts, len(self._retry_delays_s)) - 1])
        self._sink.note(f"{function.name} {event.request_id}: event given up after {attempts} attempt(s)")
        if self._on_lost is not None:
            self._on_lost(LostEvent(function, event.payload, event.request_id, attempts, result))
