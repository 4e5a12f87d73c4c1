"""Requests as events in payload format 2.0."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from local.lambda_service.http_event import HttpRequest, function_url_event, http_api_event

HEADERS = [
    ("host", "api.example:8787"),
    ("user-agent", "test/1"),
    ("content-type", "application/json"),
    ("cookie", "session=abc; theme=dark"),
    ("x-tag", "first"),
    ("connection", "keep-alive"),
    ("x-tag", "second"),
]
QUERY = "repeat=one&repeat=two&redirect=https%3A%2F%2Fexample.com%2Fa&plus=a+b&encoded=a%2Bb&empty="


def request(**changes: Any) -> HttpRequest:
    values: dict[str, Any] = {
        "method": "POST",
        "raw_path": "/capture/space%20value",
        "raw_query": QUERY,
        "headers": HEADERS,
        "body": '{"text": "λ"}'.encode(),
        "source_ip": "192.0.2.1",
        "port": 8787,
    }
    return HttpRequest(**{**values, **changes})


def api_event(**changes: Any) -> dict[str, Any]:
    return http_api_event(
        request(**changes),
        path="/capture/space value",
        route_key="POST /capture/{name}",
        path_parameters={"name": "space value"},
        trace_id="Root=1-a-b;Parent=c;Sampled=0",
    )


def url_event(**changes: Any) -> dict[str, Any]:
    return function_url_event(request(**changes), url_id="Query", raw_path="/space%20value", trace_id="Root=1-a-b")


def test_an_http_api_event() -> None:
    event = api_event()
    context = event.pop("requestContext")
    assert event == {
        "version": "2.0",
        "routeKey": "POST /capture/{name}",
        "rawPath": "/capture/space value",
        "rawQueryString": QUERY,
        "cookies": ["session=abc", "theme=dark"],
        "headers": {
            "content-length": "14",
            "content-type": "application/json",
            "host": "api.example:8787",
            "user-agent": "test/1",
            "x-amzn-trace-id": "Root=1-a-b",
            "x-forwarded-for": "192.0.2.1",
            "x-forwarded-port": "8787",
            "x-forwarded-proto": "http",
            "x-tag": "first,second",
        },
        "queryStringParameters": {
            "repeat": "one,two",
            "redirect": "https://example.com/a",
            "plus": "a b",
            "encoded": "a+b",
            "empty": "",
        },
        "pathParameters": {"name": "space value"},
        "body": '{"text": "λ"}',
        "isBase64Encoded": False,
    }
    assert context.pop("time").endswith(" +0000")
    assert context.pop("timeEpoch") > 1_600_000_000_000
    assert context.pop("requestId")
    assert context == {
        "accountId": "123456789012",
        "apiId": "local",
        "domainName": "api.example",
        "domainPrefix": "api",
        "http": {
            "method": "POST",
            "path": "/capture/space value",
            "protocol": "HTTP/1.1",
            "sourceIp": "192.0.2.1",
            "userAgent": "test/1",
        },
        "routeKey": "POST /capture/{name}",
        "stage": "$default",
    }


def test_a_function_url_keeps_the_path_encoded_and_the_cookie_header() -> None:
    event = url_event()
    assert event["rawPath"] == "/space%20value"
    assert event["requestContext"]["http"]["path"] == "/space value"
    assert event["routeKey"] == event["requestContext"]["routeKey"] == "$default"
    assert event["requestContext"]["accountId"] == "anonymous"
    assert event["headers"]["cookie"] == "session=abc; theme=dark"
    assert event["cookies"] == ["session=abc", "theme=dark"]
    assert "pathParameters" not in event


def test_what_a_request_lacks_its_event_lacks_too() -> None:
    bare = {"headers": [("host", "h")], "raw_query": "", "body": b""}
    event = http_api_event(request(**bare), path="/", route_key="GET /", path_parameters={}, trace_id="Root=1")
    for name in ("cookies", "queryStringParameters", "pathParameters", "body"):
        assert name not in event
    assert event["isBase64Encoded"] is False
    assert event["requestContext"]["http"]["userAgent"] == ""


def test_a_proxy_in_front_is_kept_in_forwarded_for() -> None:
    event = api_event(headers=[("x-forwarded-for", "203.0.113.9")])
    assert event["headers"]["x-forwarded-for"] == "203.0.113.9, 192.0.2.1"


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "application/json; charset=utf-8",
        "text/plain",
        "TEXT/HTML",
        "application/xml",
        "application/javascript",
    ],
)
def test_bodies_of_text_types_are_text(content_type: str) -> None:
    event = api_event(headers=[("content-type", content_type)], body=b"plain")
    assert (event["body"], event["isBase64Encoded"]) == ("plain", False)


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("content-type", "application/octet-stream")],
        [("content-type", "application/x-www-form-urlencoded")],
        [("content-type", "application/problem+json")],
        [("content-type", "image/png")],
    ],
)
def test_other_bodies_are_base64(headers: list[tuple[str, str]]) -> None:
    event = api_event(headers=headers, body=b"\x00\xffbytes")
    assert base64.b64decode(event["body"]) == b"\x00\xffbytes"
    assert event["isBase64Encoded"] is True


def test_a_body_that_is_not_the_text_it_claims_keeps_its_bytes() -> None:
    event = api_event(headers=[("content-type", "application/json")], body=b"\xff\xfe{}")
    assert base64.b64decode(event["body"]) == b"\xff\xfe{}"
    assert event["isBase64Encoded"] is True
