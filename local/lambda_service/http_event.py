"""HTTP requests as Lambda events in payload format 2.0, the way HTTP APIs and Function URLs make them."""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, unquote

_ACCOUNT_ID = "123456789012"
# What an HTTP API takes for text; every other type, a missing one and form data included, arrives as base64.
_TEXT_TYPES = {"application/json", "application/javascript", "application/xml"}
_HOP_BY_HOP = {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}


@dataclass(frozen=True)
class HttpRequest:
    """A request as it was received: `raw_path` and `raw_query` are still percent-encoded, header names lower case."""

    method: str
    raw_path: str
    raw_query: str
    headers: Sequence[tuple[str, str]]
    body: bytes
    source_ip: str
    port: int
    protocol: str = "HTTP/1.1"

    def header(self, name: str) -> str:
        """The header's values joined by commas, empty if there is none."""
        return ",".join(value for key, value in self.headers if key == name)


def http_api_event(
    request: HttpRequest, *, path: str, route_key: str, path_parameters: dict[str, str], trace_id: str
) -> dict[str, Any]:
    """The event of an HTTP API; `path` is the decoded path that `routing` made of the request's."""
    headers = {**_headers(request, trace_id), "content-length": str(len(request.body))}
    headers.pop("cookie", None)  # an HTTP API moves cookies, a Function URL copies them
    event = _event(
        request,
        headers,
        raw_path=path,
        route_key=route_key,
        context={"accountId": _ACCOUNT_ID, "apiId": "local", "requestId": _api_request_id()},
        path=path,
    )
    if path_parameters:
        event["pathParameters"] = path_parameters
    return event


def function_url_event(request: HttpRequest, *, url_id: str, raw_path: str, trace_id: str) -> dict[str, Any]:
    """The event of a Function URL; `raw_path` is the part of the path that the function gets, as it was sent."""
    return _event(
        request,
        _headers(request, trace_id),
        raw_path=raw_path,
        route_key="$default",
        context={"accountId": "anonymous", "apiId": url_id, "requestId": str(uuid.uuid4())},
        path=unquote(raw_path),
    )


def _event(
    request: HttpRequest,
    headers: dict[str, str],
    *,
    raw_path: str,
    route_key: str,
    context: dict[str, str],
    path: str,
) -> dict[str, Any]:
    now = time.time()
    domain = request.header("host").partition(":")[0]
    event: dict[str, Any] = {
        "version": "2.0",
        "routeKey": route_key,
        "rawPath": raw_path,
        "rawQueryString": request.raw_query,
        "headers": dict(sorted(headers.items())),
        "requestContext": {
            **context,
            "domainName": domain,
            "domainPrefix": domain.partition(".")[0],
            "http": {
                "method": request.method,
                "path": path,
                "protocol": request.protocol,
                "sourceIp": request.source_ip,
                "userAgent": request.header("user-agent"),
            },
            "routeKey": route_key,
            "stage": "$default",
            "time": datetime.fromtimestamp(now, UTC).strftime("%d/%b/%Y:%H:%M:%S +0000"),
            "timeEpoch": int(now * 1000),
        },
        "isBase64Encoded": False,
    }
    cookies = [part.strip() for name, value in request.headers if name == "cookie" for part in value.split(";")]
    if any(cookies):
        event["cookies"] = [cookie for cookie in cookies if cookie]
    if parameters := _query_parameters(request.raw_query):
        event["queryStringParameters"] = parameters
    if request.body:
        event["body"], event["isBase64Encoded"] = _body(request)
    return event


def _headers(request: HttpRequest, trace_id: str) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in request.headers:
        if name not in _HOP_BY_HOP:
            headers[name] = f"{headers[name]},{value}" if name in headers else value
    forwarded = headers.get("x-forwarded-for")
    headers["x-forwarded-for"] = f"{forwarded}, {request.source_ip}" if forwarded else request.source_ip
    headers["x-forwarded-port"] = str(request.port)
    headers["x-forwarded-proto"] = "http"
    headers["x-amzn-trace-id"] = trace_id.partition(";")[0]
    return headers


def _query_parameters(raw_query: str) -> dict[str, str]:
    parameters: dict[str, str] = {}
    for name, value in parse_qsl(raw_query, keep_blank_values=True):
        parameters[name] = f"{parameters[name]},{value}" if name in parameters else value
    return parameters


def _body(request: HttpRequest) -> tuple[str, bool]:
    media_type = request.header("content-type").partition(";")[0].strip().lower()
    if media_type.startswith("text/") or media_type in _TEXT_TYPES:
        try:
            return request.body.decode(), False
        except UnicodeDecodeError:
            pass  # announced as text and is none: base64 keeps its bytes
    return base64.b64encode(request.body).decode(), True


def _api_request_id() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes[:11]).decode()
