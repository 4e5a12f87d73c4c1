"""The functions' two ways in over HTTP: the routes of the HTTP API, and Function URLs under /lambda-url/<function>/.

What a client gets when the function does not answer is what AWS gives: an HTTP API says 500 for a function's error and
503 for throttling or its own time-out, a Function URL 502 for an error and 429 for throttling.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from local.lambda_service.functions import FunctionSpec
from local.lambda_service.http_body import BodyTooLarge, read_body
from local.lambda_service.http_event import HttpRequest, function_url_event, http_api_event
from local.lambda_service.http_response import BadAnswer, read_answer
from local.lambda_service.invocation import MAX_REQUEST_BYTES, Invocation, new_trace_id
from local.lambda_service.logs import LogSink
from local.lambda_service.pool import Throttled
from local.lambda_service.routing import BadPath, decode_http_api_path, match_route, parameters_as_sent
from local.lambda_service.service import FunctionNotFound, LambdaService

FUNCTION_URL_PREFIX = "/lambda-url/"
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
_MAX_HTTP_API_BYTES = 10 * 1024 * 1024


class Gateway:
    """Turns requests into events, invokes the function and turns its answer into a response."""

    def __init__(self, service: LambdaService, sink: LogSink) -> None:
        self._service = service
        self._sink = sink

    async def http_api(self, request: Request) -> Response:
        """The endpoint of every path that is not the service's own."""
        try:
            received = await _received(request, _MAX_HTTP_API_BYTES)
            path = decode_http_api_path(received.raw_path)
        except BodyTooLarge:
            return _message(413, "Request Entity Too Large")
        except BadPath:
            return _message(400, "Bad Request")
        match = match_route(self._service.routes, received.method, path)
        if match is None:
            return _message(404, "Not Found")
        trace_id = new_trace_id()
        event = http_api_event(
            received,
            path=path,
            route_key=match.route.key,
            path_parameters=parameters_as_sent(match, received.raw_path),
            trace_id=trace_id,
        )
        invocation = _invocation(event, trace_id)
        if len(invocation.payload) > MAX_REQUEST_BYTES:
            return _message(413, "Request Entity Too Large")
        try:
            response = await asyncio.wait_for(
                self._answer(match.target, invocation, "text/plain; charset=utf-8"), match.route.timeout_s
            )
        except (Throttled, TimeoutError):
            return _message(503, "Service Unavailable")
        if response is None:
            return _message(500, "Internal Server Error")
        response.headers["apigw-requestid"] = event["requestContext"]["requestId"]
        return response

    async def function_url(self, request: Request) -> Response:
        """The endpoint of /lambda-url/<function>/<path>; on AWS the function's own host name stands for the prefix."""
        name, _, rest = request.scope["raw_path"].decode("latin-1").removeprefix(FUNCTION_URL_PREFIX).partition("/")
        try:
            function = self._service.find(name)
        except FunctionNotFound:
            function = None
        if function is None or not function.function_url:
            return _message(404, "Not Found")
        too_large = f"Request must be smaller than {MAX_REQUEST_BYTES} bytes for the InvokeFunction operation"
        try:
            received = await _received(request, MAX_REQUEST_BYTES)
        except BodyTooLarge:
            return _message(413, too_large)
        trace_id = new_trace_id()
        event = function_url_event(received, url_id=function.name, raw_path=f"/{rest}", trace_id=trace_id)
        invocation = _invocation(event, trace_id)
        if len(invocation.payload) > MAX_REQUEST_BYTES:
            return _message(413, too_large)
        try:
            response = await self._answer(function, invocation, "application/json")
        except Throttled:
            return _message(429, "Rate Exceeded.")
        if response is None:
            return Response("Internal Server Error", 502, media_type="text/plain")
        response.headers["x-amzn-requestid"] = invocation.request_id
        return response

    async def _answer(self, function: FunctionSpec, invocation: Invocation, default_type: str) -> Response | None:
        """The function's response, None if it failed. Raises Throttled."""
        result = await self._service.invoke(function, invocation)
        if result.failed:
            return None
        try:
            answer = read_answer(result.payload, default_type=default_type)
        except BadAnswer as error:
            self._sink.note(f"{function.name} {invocation.request_id}: no HTTP response ({error})")
            return None
        response = Response(answer.body, answer.status)
        response.raw_headers += [(name.encode("latin-1"), value.encode("utf-8")) for name, value in answer.headers]
        return response


async def _received(request: Request, limit: int) -> HttpRequest:
    """The request with its body. Raises BodyTooLarge."""
    return HttpRequest(
        method=request.method,
        raw_path=request.scope["raw_path"].decode("latin-1"),
        raw_query=request.scope["query_string"].decode("latin-1"),
        headers=[(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers.raw],
        body=await read_body(request, limit),
        source_ip=request.client.host if request.client else "127.0.0.1",
        port=request.url.port or 80,
        protocol=f"HTTP/{request.scope['http_version']}",
    )


def _invocation(event: dict[str, Any], trace_id: str) -> Invocation:
    return Invocation(json.dumps(event, ensure_ascii=False).encode(), trace_id=trace_id)


def _message(status: int, message: str) -> Response:
    return Response(f'{{"message":"{message}"}}', status, media_type="application/json")
