"""On-failure destinations: an event that its function did not handle ends in a queue, in the form that Lambda gives it.

Source: "Capturing records of Lambda asynchronous invocations", AWS Lambda developer guide.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from local.lambda_service.async_events import LostEvent
from local.lambda_service.emulator import EmulatorAway
from local.lambda_service.invocation import timestamp
from local.lambda_service.logs import LogSink

Send = Callable[[str, str], None]
"""Puts a text into the queue with an ARN. Blocks. Raises EmulatorAway."""


class LostEventQueue:
    """Sends records of lost events to the queues that their functions name.

    An event is gone without a trace but the log when its function names none, or when there is no `send`.
    """

    def __init__(self, send: Send | None, sink: LogSink) -> None:
        self._send = send
        self._sink = sink
        self._sending: set[asyncio.Task[None]] = set()

    def put(self, lost: LostEvent) -> None:
        """Send a record in the background."""
        queue_arn = lost.function.async_policy.on_failure
        if self._send is not None and queue_arn is not None:
            task = asyncio.create_task(self._put(self._send, queue_arn, lost))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def close(self) -> None:
        """Wait until all records are sent."""
        await asyncio.gather(*self._sending)

    async def _put(self, send: Send, queue_arn: str, lost: LostEvent) -> None:
        try:
            await asyncio.to_thread(send, queue_arn, json.dumps(destination_record(lost, timestamp())))
        except EmulatorAway as error:
            self._sink.note(f"{lost.function.name} {lost.request_id}: not put into {queue_arn}: {error}")


def destination_record(lost: LostEvent, now: str) -> dict[str, Any]:
    """Lambda's record of an asynchronous invocation that failed; without a response if the function never ran."""
    is_exhausted = lost.attempts > lost.function.async_policy.max_retries
    record: dict[str, Any] = {
        "version": "1.0",
        "timestamp": now,
        "requestContext": {
            "requestId": lost.request_id,
            "functionArn": f"{lost.function.arn}:$LATEST",
            "condition": "RetriesExhausted" if is_exhausted else "EventAgeExceeded",
            "approximateInvokeCount": lost.attempts,
        },
        "requestPayload": json.loads(lost.payload),
    }
    if lost.result is not None:
        record["responseContext"] = {"statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled"}
        record["responsePayload"] = json.loads(lost.result.payload)
    return record
