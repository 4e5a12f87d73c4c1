"""The words in which Lambda says how an invocation ended."""

from __future__ import annotations

import json
import signal

import pytest

from local.lambda_service.invocation import Exit, Invocation, exited, out_of_memory, reported_failure, timed_out


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (0, "Runtime exited without providing a reason"),
        (7, "Runtime exited with error: exit status 7"),
        (-signal.SIGKILL, "Runtime exited with error: signal: killed"),
        (-signal.SIGSEGV, "Runtime exited with error: signal: segmentation fault"),
    ],
)
def test_ways_to_exit(code: int, reason: str) -> None:
    result = exited("id-1", Exit(code))
    assert result.failed
    assert json.loads(result.payload) == {
        "errorType": "Runtime.ExitError",
        "errorMessage": f"RequestId: id-1 Error: {reason}",
    }


def test_time_out_and_memory() -> None:
    assert json.loads(timed_out("id-1", 3).payload) == {
        "errorType": "Sandbox.Timedout",
        "errorMessage": "RequestId: id-1 Error: Task timed out after 3.00 seconds",
    }
    assert json.loads(out_of_memory("id-1").payload) == {
        "errorType": "Runtime.OutOfMemory",
        "errorMessage": "RequestId: id-1 Error: Runtime exited with error: signal: killed",
    }


@pytest.mark.parametrize(
    ("payload", "error_type"), [(b'{"errorType": "E"}', "E"), (b"[]", "Unhandled"), (b"\xff", "Unhandled")]
)
def test_reported_errors_are_handed_on_as_they_are(payload: bytes, error_type: str) -> None:
    result = reported_failure(payload)
    assert (result.payload, result.failed, result.error_type) == (payload, True, error_type)


def test_the_log_tail_is_the_last_4_kb() -> None:
    invocation = Invocation(b"{}")
    invocation.log_lines += ["x" * 5000, "last"]
    assert len(invocation.log_tail()) == 4096
    assert invocation.log_tail().endswith(b"xx\nlast\n")
