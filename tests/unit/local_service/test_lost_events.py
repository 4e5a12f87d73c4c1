"""Events that a function did not handle end in its queue, in Lambda's form."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from local.lambda_service.async_events import LostEvent
from local.lambda_service.emulator import EmulatorAway
from local.lambda_service.functions import AsyncPolicy, FunctionSpec
from local.lambda_service.invocation import Result
from local.lambda_service.logs import LogSink
from local.lambda_service.lost_events import LostEventQueue, destination_record

pytestmark = pytest.mark.anyio

QUEUE = "arn:aws:sqs:eu-central-1:123456789012:lost"
FUNCTION = FunctionSpec(
    logical_id="Sync",
    name="sync",
    arn="arn:aws:lambda:eu-central-1:123456789012:function:sync",
    code_dir=Path("/code"),
    handler="app.handler",
    runtime="python3.13",
    log_group="/logs",
    async_policy=AsyncPolicy(max_retries=2, on_failure=QUEUE),
)
LOST = LostEvent(
    function=FUNCTION,
    payload=b'{"provider_id": "wiki"}',
    request_id="request-1",
    attempts=3,
    result=Result(b'{"errorType": "KeyError", "errorMessage": "x"}', failed=True, error_type="KeyError"),
)
NOW = "2026-11-30T12:00:00.000Z"


def test_the_record_of_an_event_that_failed_in_every_attempt() -> None:
    assert destination_record(LOST, NOW) == {
        "version": "1.0",
        "timestamp": NOW,
        "requestContext": {
            "requestId": "request-1",
            "functionArn": "arn:aws:lambda:eu-central-1:123456789012:function:sync:$LATEST",
            "condition": "RetriesExhausted",
            "approximateInvokeCount": 3,
        },
        "requestPayload": {"provider_id": "wiki"},
        "responseContext": {"statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled"},
        "responsePayload": {"errorType": "KeyError", "errorMessage": "x"},
    }


def test_an_event_that_grew_too_old_says_so() -> None:
    record = destination_record(replace(LOST, attempts=2), NOW)
    assert record["requestContext"]["condition"] == "EventAgeExceeded"


def test_a_function_that_never_ran_gave_no_response() -> None:
    record = destination_record(replace(LOST, attempts=0, result=None), NOW)
    assert (record["requestContext"]["condition"], record["requestContext"]["approximateInvokeCount"]) == (
        "EventAgeExceeded",
        0,
    )
    assert not {"responseContext", "responsePayload"} & record.keys()


async def test_records_are_sent_before_the_service_ends() -> None:
    sent: list[tuple[str, str]] = []
    queue = LostEventQueue(lambda arn, body: sent.append((arn, body)), LogSink(StringIO()))
    queue.put(LOST)
    await queue.close()
    ((arn, body),) = sent
    assert arn == QUEUE
    assert json.loads(body)["requestContext"]["requestId"] == "request-1"


async def test_without_a_queue_or_an_emulator_an_event_is_gone() -> None:
    sent: list[str] = []
    nameless = replace(LOST, function=replace(FUNCTION, async_policy=AsyncPolicy()))
    queue = LostEventQueue(lambda arn, body: sent.append(body), LogSink(StringIO()))
    queue.put(nameless)
    await queue.close()
    without_emulator = LostEventQueue(None, LogSink(StringIO()))
    without_emulator.put(LOST)
    await without_emulator.close()
    assert sent == []


async def test_a_queue_out_of_reach_is_told() -> None:
    def refuse(arn: str, body: str) -> None:
        raise EmulatorAway("connection refused")

    log = StringIO()
    queue = LostEventQueue(refuse, LogSink(log))
    queue.put(LOST)
    await queue.close()
    assert "request-1" in log.getvalue()
    assert "connection refused" in log.getvalue()
