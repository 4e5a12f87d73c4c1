"""One worker process of a function: an execution environment that handles one invocation at a time."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import platform
import signal
import sys
import time
from enum import Enum, auto
from pathlib import Path
from typing import Any

import psutil

from local.lambda_service import invocation as answers
from local.lambda_service.environment import worker_environment
from local.lambda_service.functions import FunctionSpec
from local.lambda_service.invocation import Exit, Invocation, Result
from local.lambda_service.logs import LogLine, LogPipe, LogSink
from local.lambda_service.runtime_api import RuntimeApi

_BOOTSTRAP = Path(__file__).with_name("bootstrap.py")
_INIT_TIMEOUT_S = 10.0  # Lambda's own limit
_LAST_WORDS_S = 2.0  # for a process that has reported its end and still prints a traceback
_MEMORY_CHECK_S = 0.05
_MB = 1024 * 1024


class InitFailed(Exception):
    """The worker could not load its handler; `result` is what the caller gets."""

    def __init__(self, result: Result) -> None:
        super().__init__(result.payload.decode("utf-8", "replace"))
        self.result = result


class WorkerGone(Exception):
    """The process ended while it was idle: the invocation did not reach it and may go to another worker."""


class _Verdict(Enum):
    DONE = auto()
    EXITED = auto()
    TIMED_OUT = auto()
    OUT_OF_MEMORY = auto()


class Worker:
    """A process that runs `spec`'s handler. Start it once, run invocations one after the other, stop it.

    `stale` marks a worker whose code has changed on disk since it started: it must not get another invocation.
    """

    def __init__(self, spec: FunctionSpec, sink: LogSink, endpoint_url: str | None = None) -> None:
        self.spec = spec
        self.stale = False
        self._stopped = False
        self._sink = sink
        self._endpoint_url = endpoint_url
        self._api = RuntimeApi()
        self._exited: asyncio.Task[int] | None = None
        self._process: psutil.Process | None = None
        self._logs: LogPipe | None = None
        self._current: Invocation | None = None
        self._init_ms: float | None = None
        self._peak_bytes = 0

    @property
    def alive(self) -> bool:
        return self._exited is not None and not self._exited.done()

    async def start(self, invocation: Invocation) -> None:
        """Starts the process and waits until its handler is loaded; what it prints goes to `invocation`'s log.

        Raises InitFailed; the process has ended then.
        """
        self._current = invocation
        started = time.perf_counter()
        try:
            await self._spawn()
            await self._load(invocation.request_id)
        except InitFailed as failed:
            self._log(f"INIT_REPORT Phase: init\tStatus: error\tError Type: {failed.result.error_type}")
            raise
        finally:
            self._current = None
        self._init_ms = (time.perf_counter() - started) * 1000

    async def run(self, invocation: Invocation) -> Result:
        """The function's answer to `invocation`, or the error that Lambda would give.

        Raises WorkerGone if the process ended before it got the invocation. A worker whose process was killed, or
        ended by itself, is not `alive` afterwards.
        """
        if not self._api.polling.is_set():  # it has answered its last invocation a moment ago
            polling = asyncio.create_task(self._api.polling.wait())
            if await self._watch(polling, timeout_s=self.spec.timeout_s) is not _Verdict.DONE:
                raise WorkerGone
        if not self.alive:
            raise WorkerGone
        self._current = invocation
        try:
            return await self._run(invocation)
        finally:
            self._current = None

    async def stop(self) -> None:
        """Kills the process and all it started, and waits until it is gone; safe to call twice, and during `start`."""
        self._stopped = True
        if self._exited is not None:
            self._kill()
            await self._exited
        if self._logs is not None:
            self._logs.drain()
            self._logs.close()
        self._api.close()

    async def _spawn(self) -> None:
        address = await self._api.start()
        self._logs = LogPipe(self._log)
        self._log(f"INIT_START Runtime Version: {self.spec.runtime} (local Python {platform.python_version()})")
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                str(_BOOTSTRAP),
                self.spec.handler,
                str(os.getpid()),
                cwd=self.spec.code_dir,
                env=worker_environment(self.spec, runtime_api=address, endpoint_url=self._endpoint_url),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=self._logs.write_fd,
                stderr=self._logs.write_fd,
                start_new_session=True,  # its own process group: killed as a whole, and no Ctrl-C from the terminal
            )
        except OSError as error:  # the code folder is gone, or the machine is out of processes
            await self.stop()
            raise InitFailed(answers.failure("Runtime.InvalidEntrypoint", str(error))) from error
        finally:
            self._logs.close_write_end()
        self._exited = asyncio.create_task(self._wait_for_exit(process))
        with contextlib.suppress(psutil.NoSuchProcess):
            self._process = psutil.Process(process.pid)
        if self._stopped:
            self._kill()

    async def _wait_for_exit(self, process: asyncio.subprocess.Process) -> int:
        code = await process.wait()
        _kill_group(process.pid)  # what the worker started must not outlive it
        return code

    async def _load(self, request_id: str) -> None:
        assert self._exited is not None
        # Lambda runs an init that took too long once more, within the first invocation: so its timeout comes on top.
        verdict = await self._watch(self._api.loaded, timeout_s=_INIT_TIMEOUT_S + self.spec.timeout_s)
        if verdict is _Verdict.DONE:
            failed = self._api.loaded.result()
            if failed is None:
                return
            await asyncio.wait({self._exited}, timeout=_LAST_WORDS_S)
        else:
            failed = await self._end(verdict, request_id)
        await self.stop()
        raise InitFailed(failed)

    async def _run(self, invocation: Invocation) -> Result:
        assert self._logs is not None
        self._log(f"START RequestId: {invocation.request_id} Version: $LATEST")
        started = time.perf_counter()
        outcome = self._api.deliver(invocation, function_arn=self.spec.arn, timeout_s=self.spec.timeout_s)
        verdict = await self._watch(outcome, timeout_s=self.spec.timeout_s)
        duration_ms = (time.perf_counter() - started) * 1000
        if verdict is _Verdict.DONE:
            result = outcome.result()
            self._note_memory()
        else:
            result = await self._end(verdict, invocation.request_id)
        self._logs.drain()
        self._log(f"END RequestId: {invocation.request_id}")
        self._report(invocation, duration_ms, verdict, result)
        return result

    async def _watch(self, goal: asyncio.Future[Any], *, timeout_s: float) -> _Verdict:
        """Waits for `goal`, the end of the process, the time-out or the use of too much memory; then drops `goal`."""
        assert self._exited is not None
        deadline = time.monotonic() + timeout_s
        try:
            while True:
                pause = max(0.0, min(_MEMORY_CHECK_S, deadline - time.monotonic()))
                await asyncio.wait({goal, self._exited}, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
                if goal.done():
                    return _Verdict.DONE
                if self._exited.done():
                    return _Verdict.EXITED
                if self._note_memory() > self.spec.memory_mb * _MB:
                    return _Verdict.OUT_OF_MEMORY
                if time.monotonic() >= deadline:
                    return _Verdict.TIMED_OUT
        finally:
            goal.cancel()

    async def _end(self, verdict: _Verdict, request_id: str) -> Result:
        """Ends the process if it has not ended by itself, and says what the caller gets."""
        assert self._exited is not None
        assert self._logs is not None
        self._kill()
        ending = Exit(await self._exited)
        self._logs.drain()
        if verdict is _Verdict.TIMED_OUT:
            self._log(f"{answers.timestamp()} {request_id} Task timed out after {self.spec.timeout_s:.2f} seconds")
            return answers.timed_out(request_id, self.spec.timeout_s)
        if verdict is _Verdict.OUT_OF_MEMORY:
            used_mb = self._peak_bytes // _MB
            self._log(f"RequestId: {request_id} Error: used {used_mb} MB of the {self.spec.memory_mb} MB of MemorySize")
            self._log("Runtime.OutOfMemory")
            return answers.out_of_memory(request_id)
        self._log(f"RequestId: {request_id} Error: {ending.reason}")
        self._log("Runtime.ExitError")
        return answers.exited(request_id, ending)

    def _kill(self) -> None:
        if self.alive and self._process is not None:
            _kill_group(self._process.pid)

    def _note_memory(self) -> int:
        """The resident memory of the process in bytes, remembered as its peak if it is one; 0 if it is gone."""
        if self._process is None:
            return 0
        try:
            used = self._process.memory_info().rss
        except psutil.Error:
            return 0
        self._peak_bytes = max(self._peak_bytes, used)
        return used

    def _report(self, invocation: Invocation, duration_ms: float, verdict: _Verdict, result: Result) -> None:
        parts = [
            f"REPORT RequestId: {invocation.request_id}",
            f"Duration: {duration_ms:.2f} ms",
            f"Billed Duration: {math.ceil(duration_ms)} ms",
            f"Memory Size: {self.spec.memory_mb} MB",
            f"Max Memory Used: {self._peak_bytes // _MB} MB",
        ]
        if self._init_ms is not None:
            parts.append(f"Init Duration: {self._init_ms:.2f} ms")
            self._init_ms = None
        if verdict is _Verdict.TIMED_OUT:
            parts.append("Status: timeout")
        elif result.failed:
            parts.append(f"Status: error\tError Type: {result.error_type}")
        self._log("\t".join(parts))

    def _log(self, text: str) -> None:
        current = self._current
        if current is not None:
            current.log_lines.append(text)
        self._sink.write(LogLine(self.spec.name, current.request_id if current else "", text))


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # nobody is left in the group
        os.killpg(pid, signal.SIGKILL)
