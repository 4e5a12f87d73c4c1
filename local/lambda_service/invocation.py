"""One invocation, and what Lambda answers for each way it can end."""

from __future__ import annotations

import json
import signal
import time
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

MAX_REQUEST_BYTES = 6 * 1024 * 1024
MAX_ASYNC_REQUEST_BYTES = 1024 * 1024
MAX_RESPONSE_BYTES = MAX_REQUEST_BYTES + 100
_LOG_TAIL_BYTES = 4096


def new_trace_id() -> str:
    """An X-Ray trace header of a request that is not sampled."""
    return f"Root=1-{int(time.time()):08x}-{uuid.uuid4().hex[:24]};Parent={uuid.uuid4().hex[:16]};Sampled=0"


@dataclass
class Invocation:
    """An event on its way to a worker. `payload` is JSON text; the log collects as the function prints."""

    payload: bytes
    request_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    client_context: str | None = None  # JSON text
    trace_id: str = field(default_factory=new_trace_id)
    log_lines: list[str] = field(default_factory=list[str])

    def log_tail(self) -> bytes:
        """The last 4 KB of the log."""
        return "".join(f"{line}\n" for line in self.log_lines).encode()[-_LOG_TAIL_BYTES:]


@dataclass(frozen=True)
class Result:
    """What the caller of a function gets: JSON text, the function's answer or, if `failed`, an error object."""

    payload: bytes
    failed: bool = False
    error_type: str | None = None


@dataclass(frozen=True)
class Exit:
    """How a worker process ended: an exit status, or the signal that ended it (negative, as asyncio reports it)."""

    code: int

    @property
    def reason(self) -> str:
        """In the words of Lambda's logs."""
        if self.code == 0:
            return "Runtime exited without providing a reason"
        if self.code > 0:
            return f"Runtime exited with error: exit status {self.code}"
        return f"Runtime exited with error: signal: {(signal.strsignal(-self.code) or str(-self.code)).lower()}"


def failure(error_type: str, message: str) -> Result:
    """An error that Lambda itself reports, in its own shape."""
    return Result(_json({"errorType": error_type, "errorMessage": message}), failed=True, error_type=error_type)


def reported_failure(payload: bytes) -> Result:
    """An error that the function or its runtime reported: its JSON is handed on as it is."""
    try:
        error_type = str(json.loads(payload)["errorType"])
    except (ValueError, KeyError, TypeError):
        error_type = "Unhandled"
    return Result(payload, failed=True, error_type=error_type)


def timed_out(request_id: str, timeout_s: float) -> Result:
    return failure("Sandbox.Timedout", f"RequestId: {request_id} Error: Task timed out after {timeout_s:.2f} seconds")


def exited(request_id: str, exit_: Exit) -> Result:
    return failure("Runtime.ExitError", f"RequestId: {request_id} Error: {exit_.reason}")


def out_of_memory(request_id: str) -> Result:
    return failure("Runtime.OutOfMemory", f"RequestId: {request_id} Error: {Exit(-signal.SIGKILL).reason}")


def response_too_large() -> Result:
    return failure(
        "Function.ResponseSizeTooLarge",
        f"Response payload size exceeded maximum allowed payload size ({MAX_RESPONSE_BYTES} bytes).",
    )


def timestamp() -> str:
    """Now, as Lambda writes it into logs: UTC with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode()
