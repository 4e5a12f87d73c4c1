"""Answers of functions as HTTP responses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from local.lambda_service.http_response import BadAnswer, HttpResponse, read_answer

JSON = ("content-type", "application/json")


def read(answer: Any) -> HttpResponse:
    return read_answer(json.dumps(answer).encode(), default_type="text/plain")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"a": 1}, HttpResponse(200, (JSON,), b'{"a":1}')),
        ([1, "é"], HttpResponse(200, (JSON,), '[1,"é"]'.encode())),
        ("hello", HttpResponse(200, (JSON,), b"hello")),
        (None, HttpResponse(200, (JSON,), b"null")),
        ({"statusCode": 204}, HttpResponse(204, (("content-type", "text/plain"),), b"")),
        ({"statusCode": "201", "body": "é"}, HttpResponse(201, (("content-type", "text/plain"),), "é".encode())),
        (
            {"statusCode": 200, "headers": {"Content-Type": "a/b", "X-N": 1, "X-B": True}, "body": None},
            HttpResponse(200, (("content-type", "a/b"), ("x-n", "1"), ("x-b", "true")), b""),
        ),
        (
            {"statusCode": 200, "headers": None, "cookies": ["a=1", "b=2"]},
            HttpResponse(200, (("content-type", "text/plain"), ("set-cookie", "a=1"), ("set-cookie", "b=2")), b""),
        ),
        (
            {"statusCode": 200, "body": "AP8=", "isBase64Encoded": True},
            HttpResponse(200, (("content-type", "text/plain"),), b"\x00\xff"),
        ),
        ({"statusCode": 204, "body": "ignored"}, HttpResponse(204, (("content-type", "text/plain"),), b"")),
    ],
)
def test_answers_become_responses(answer: Any, expected: HttpResponse) -> None:
    assert read(answer) == expected


@pytest.mark.parametrize(
    "answer",
    [
        {"statusCode": "many"},
        {"statusCode": None},
        {"statusCode": 99},
        {"statusCode": 600},
        {"statusCode": 200, "headers": ["a"]},
        {"statusCode": 200, "headers": {"X": "a\r\nSet-Cookie: b"}},
        {"statusCode": 200, "cookies": 5},
        {"statusCode": 200, "body": {"a": 1}},
        {"statusCode": 200, "body": "not base64!", "isBase64Encoded": True},
    ],
)
def test_answers_that_are_no_response(answer: Any) -> None:
    with pytest.raises(BadAnswer):
        read(answer)


def test_an_answer_that_is_no_json() -> None:
    with pytest.raises(BadAnswer):
        read_answer(b"\xff", default_type="text/plain")
