"""The documented Lambda Runtime API (version 2018-06-01), served to one worker on a loopback port of its own.

One port per worker, because AWS_LAMBDA_RUNTIME_API holds host and port only and the requests name no worker.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import Any

import h11

from local.lambda_service.invocation import (
    MAX_RESPONSE_BYTES,
    Invocation,
    Result,
    reported_failure,
    response_too_large,
)

_PREFIX = "/2018-06-01/runtime"
_MAX_HEADER_BYTES = 2 * 1024 * 1024  # the runtime client sends stack traces of up to 1 MB in a header
_READ_BYTES = 256 * 1024


@dataclass(frozen=True)
class _Request:
    method: str
    path: str
    body: bytes | None  # None: larger than a response may be


@dataclass(frozen=True)
class _Response:
    status: int
    body: bytes = b'{"status":"OK"}'
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class _Delivery:
    invocation: Invocation
    function_arn: str
    deadline_ms: int


class RuntimeApi:
    """What one worker talks to: it asks for the next invocation, and posts a response or an error for it.

    `loaded` completes once: with None when the worker first asks for an invocation, or with the error that it reports
    when its handler cannot be loaded. `polling` is set while the worker waits for an invocation.
    """

    def __init__(self) -> None:
        self.loaded: asyncio.Future[Result | None] = asyncio.get_running_loop().create_future()
        self.polling = asyncio.Event()
        self._next: asyncio.Future[_Delivery | None] | None = None
        self._current: str | None = None
        self._outcome: asyncio.Future[Result] | None = None
        self._server: asyncio.Server | None = None
        self._closed = False

    async def start(self) -> str:
        """Listens; the value for AWS_LAMBDA_RUNTIME_API."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        return f"{host}:{port}"

    def deliver(self, invocation: Invocation, *, function_arn: str, timeout_s: float) -> asyncio.Future[Result]:
        """Hands an invocation to the worker, which must be polling; the future completes with what it answers."""
        assert self._next is not None
        deadline_ms = int((time.time() + timeout_s) * 1000)
        self._current = invocation.request_id
        self._outcome = asyncio.get_running_loop().create_future()
        self.polling.clear()
        self._next.set_result(_Delivery(invocation, function_arn, deadline_ms))
        self._next = None
        return self._outcome

    def close(self) -> None:
        """Stops listening and lets a waiting poll go unanswered."""
        self._closed = True
        if self._server is not None:
            self._server.close()
        if self._next is not None:
            self._next.set_result(None)
            self._next = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEADER_BYTES)
        try:
            while not self._closed and (request := await _read_request(connection, reader)) is not None:
                response = await self._answer(request)
                if response is None:
                    break
                writer.write(_encode(connection, response))
                await writer.drain()
                if connection.our_state is h11.MUST_CLOSE:
                    break
                connection.start_next_cycle()
        except (ConnectionError, h11.RemoteProtocolError):
            pass  # the worker died or was killed in the middle; its exit says what to make of it
        finally:
            writer.close()

    async def _answer(self, request: _Request) -> _Response | None:
        match request.method, request.path.removeprefix(_PREFIX).split("/")[1:]:
            case "GET", ["invocation", "next"]:
                return await self._give_next()
            case "POST", ["init", "error"]:
                if not self.loaded.done():
                    self.loaded.set_result(reported_failure(request.body or b"{}"))
                return _Response(202)
            case "POST", ["invocation", request_id, "response" | "error" as kind]:
                return self._finish(request_id, kind, request.body)
            case _:
                return _refusal(404, "NotFound", f"{request.method} {request.path}")

    async def _give_next(self) -> _Response | None:
        if self._outcome is not None and not self._outcome.done():
            return _refusal(403, "InvalidStateTransition", "the last invocation is not answered yet")
        self._next = asyncio.get_running_loop().create_future()
        self.polling.set()
        if not self.loaded.done():
            self.loaded.set_result(None)
        delivery = await self._next
        if delivery is None:
            return None
        invocation = delivery.invocation
        headers = [
            ("Content-Type", "application/json"),
            ("Lambda-Runtime-Aws-Request-Id", invocation.request_id),
            ("Lambda-Runtime-Deadline-Ms", str(delivery.deadline_ms)),
            ("Lambda-Runtime-Invoked-Function-Arn", delivery.function_arn),
            ("Lambda-Runtime-Trace-Id", invocation.trace_id),
        ]
        if invocation.client_context is not None:
            headers.append(("Lambda-Runtime-Client-Context", invocation.client_context))
        return _Response(200, invocation.payload, tuple(headers))

    def _finish(self, request_id: str, kind: str, body: bytes | None) -> _Response:
        if self._outcome is None or self._outcome.done() or request_id != self._current:
            return _refusal(400, "InvalidRequestID", f"{request_id} is not the invocation that is running")
        if body is None:
            self._outcome.set_result(response_too_large())
            return _refusal(
                413, "RequestEntityTooLarge", f"Exceeded maximum allowed payload size ({MAX_RESPONSE_BYTES} bytes)."
            )
        self._outcome.set_result(Result(body) if kind == "response" else reported_failure(body))
        return _Response(202)


async def _read_request(connection: h11.Connection, reader: asyncio.StreamReader) -> _Request | None:
    """The next request, None at the end of the connection. A body beyond the limit is read, but not kept."""
    head: h11.Request | None = None
    chunks: list[bytes] = []
    size = 0
    while True:
        event: Any = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(_READ_BYTES))
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            size += len(event.data)
            if size <= MAX_RESPONSE_BYTES:
                chunks.append(bytes(event.data))
            else:
                chunks.clear()
        elif isinstance(event, h11.EndOfMessage):
            assert head is not None
            body = b"".join(chunks) if size <= MAX_RESPONSE_BYTES else None
            return _Request(head.method.decode(), head.target.decode(), body)
        else:  # ConnectionClosed
            return None


def _encode(connection: h11.Connection, response: _Response) -> bytes:
    headers = [*response.headers, ("Content-Length", str(len(response.body)))]
    head = connection.send(h11.Response(status_code=response.status, headers=headers))
    body = connection.send(h11.Data(data=response.body))
    end = connection.send(h11.EndOfMessage())
    return (head or b"") + (body or b"") + (end or b"")


def _refusal(status: int, error_type: str, message: str) -> _Response:
    return _Response(status, json.dumps({"errorType": error_type, "errorMessage": message}).encode())
