"""The functions of a template, ready to be invoked by whoever has an event for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from local.lambda_service.functions import FunctionSpec, HttpRoute
from local.lambda_service.invocation import Invocation, Result
from local.lambda_service.logs import LogSink
from local.lambda_service.pool import FunctionPool
from local.lambda_service.template import Template
from local.lambda_service.worker import Worker


class FunctionNotFound(Exception):
    """No function of the template has this name."""


@dataclass(frozen=True)
class Limits:
    """How many workers a function may have; where no concurrency is reserved, how many invocations may wait for one."""

    max_workers: int = 4
    max_waiting: int = 200


class LambdaService:
    """Invokes functions by logical id, name or ARN. `endpoint_url` is the AWS emulator that functions shall use."""

    def __init__(
        self,
        template: Template,
        sink: LogSink,
        *,
        limits: Limits | None = None,
        endpoint_url: str | None = None,
    ) -> None:
        self._sink = sink
        self._limits = limits or Limits()
        self._endpoint_url = endpoint_url
        self._pools: dict[str, FunctionPool] = {}
        self._removed: list[FunctionPool] = []
        self._tasks: set[asyncio.Task[Result]] = set()
        self.apply(template)

    @property
    def functions(self) -> tuple[FunctionSpec, ...]:
        return self._template.functions

    @property
    def routes(self) -> list[tuple[HttpRoute, FunctionSpec]]:
        """Every route of the HTTP API and the function behind it."""
        return [(route, function) for function in self.functions for route in function.routes]

    def find(self, name: str) -> FunctionSpec:
        """The function with this logical id, name, ARN or partial ARN. Raises FunctionNotFound."""
        wanted = name.partition("function:")[2] or name
        wanted = wanted.removesuffix(":$LATEST")
        for function in self.functions:
            if wanted in (function.logical_id, function.name):
                return function
        raise FunctionNotFound(name)

    async def invoke(self, function: FunctionSpec, invocation: Invocation) -> Result:
        """The function's answer. Raises Throttled. A caller who is cancelled does not end the invocation."""
        task = asyncio.create_task(self._pools[function.logical_id].invoke(invocation))
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return await asyncio.shield(task)

    def apply(self, template: Template) -> None:
        """Takes up a changed template: routes at once, functions that changed with their next invocation."""
        self._template = template
        pools: dict[str, FunctionPool] = {}
        for spec in template.functions:
            pool = self._pools.pop(spec.logical_id, None)
            if pool is None:
                pool = FunctionPool(
                    spec,
                    self._new_worker,
                    max_workers=self._limits.max_workers,
                    max_waiting=self._limits.max_waiting,
                )
            elif pool.spec != spec:
                pool.reload(spec)
            pools[spec.logical_id] = pool
        for removed in self._pools.values():
            removed.reload()
            self._removed.append(removed)
        self._pools = pools

    def reload(self, is_affected: Callable[[FunctionSpec], bool]) -> list[str]:
        """Lets the affected functions run new code from their next invocation on; their names."""
        affected = [function for function in self.functions if is_affected(function)]
        for function in affected:
            self._pools[function.logical_id].reload()
        return [function.name for function in affected]

    async def drain(self, timeout_s: float) -> None:
        """Waits until the running invocations have ended, but no longer than `timeout_s`."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=timeout_s)

    async def close(self) -> None:
        """Ends every worker. Invocations that still run end with an error."""
        await asyncio.gather(*(pool.close() for pool in [*self._pools.values(), *self._removed]))

    def _done(self, task: asyncio.Task[Result]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # seen: the caller who would have been told may be gone

    def _new_worker(self, spec: FunctionSpec) -> Worker:
        return Worker(spec, self._sink, self._endpoint_url)
