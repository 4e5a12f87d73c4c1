"""HTTP without a network: each request becomes a payload 2.0 event for the handler that template.yaml names for it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx

from local.lambda_service.functions import HttpRoute
from local.lambda_service.http_event import HttpRequest, http_api_event
from local.lambda_service.http_response import read_answer
from local.lambda_service.routing import decode_http_api_path, match_route, parameters_as_sent
from local.lambda_service.stack_names import StackNames
from local.lambda_service.template import load_template

CHECKOUT = Path(__file__).resolve().parents[2]

Handler = Callable[[dict[str, Any], Any], Any]


@dataclass(frozen=True)
class Context:
    """What Lambda hands to a handler beside the event."""

    function_name: str
    memory_limit_in_mb: int = 512
    function_version: str = "$LATEST"
    invoked_function_arn: str = "arn:aws:lambda:us-east-1:123456789012:function:in-process"
    aws_request_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    def get_remaining_time_in_millis(self) -> int:
        return 30_000


class LambdaTransport(httpx.AsyncBaseTransport):
    """Calls handlers in this process, one request at a time, as one execution environment does."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        received = HttpRequest(
            method=request.method,
            raw_path=request.url.raw_path.partition(b"?")[0].decode(),
            raw_query=request.url.query.decode(),
            headers=[(name.lower(), value) for name, value in request.headers.multi_items()],
            body=await request.aread(),
            source_ip="127.0.0.1",
            port=80,
        )
        path = decode_http_api_path(received.raw_path)
        match = match_route(_routes(), received.method, path)
        if match is None:
            return httpx.Response(404, json={"message": "Not Found"})
        event = http_api_event(
            received,
            path=path,
            route_key=f"{match.route.method} {match.route.path}",
            path_parameters=parameters_as_sent(match, received.raw_path),
            trace_id="Root=1-00000000-000000000000000000000000",
        )
        event = json.loads(json.dumps(event))  # as it travels
        name = match.target
        answer = import_module(f"functions.{name}.app").handler(event, Context(name))
        response = read_answer(json.dumps(answer).encode(), default_type="text/plain")
        return httpx.Response(response.status, headers=list(response.headers), content=response.body)


@cache
def _routes() -> list[tuple[HttpRoute, str]]:
    """The HTTP API's routes with the folder of the function behind each."""
    functions = load_template(CHECKOUT / "template.yaml", StackNames()).functions
    return [(route, function.code_dir.name) for function in functions for route in function.routes]
