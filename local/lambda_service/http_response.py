"""A function's answer as an HTTP response, read as payload format 2.0 prescribes."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from typing import Any

from local.lambda_service.cloudformation import as_text

_NOT_IN_HEADERS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_WITHOUT_BODY = (204, 304)


@dataclass(frozen=True)
class HttpResponse:
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


class BadAnswer(ValueError):
    """The function's answer is no response in payload format 2.0."""


def read_answer(payload: bytes, *, default_type: str) -> HttpResponse:
    """The response that `payload` (JSON text) describes.

    An answer without `statusCode` is the body of a 200 response of type application/json; a text stands for itself.
    `default_type` is the content type of a response that names none. Raises BadAnswer.
    """
    try:
        answer: Any = json.loads(payload)
    except ValueError as error:
        raise BadAnswer("not JSON") from error
    if not isinstance(answer, dict) or "statusCode" not in answer:
        text = answer if isinstance(answer, str) else json.dumps(answer, separators=(",", ":"), ensure_ascii=False)
        return HttpResponse(200, (("content-type", "application/json"),), text.encode())
    try:
        return _structured(answer, default_type)
    except (TypeError, ValueError, AttributeError) as error:
        raise BadAnswer(str(error)) from error


def _structured(answer: dict[str, Any], default_type: str) -> HttpResponse:
    status = int(answer["statusCode"])
    if not 200 <= status <= 599:
        raise BadAnswer(f"statusCode {status}")
    headers = [(name.lower(), as_text(value)) for name, value in (answer.get("headers") or {}).items()]
    if not any(name == "content-type" for name, _ in headers):
        headers.append(("content-type", default_type))
    headers += [("set-cookie", as_text(cookie)) for cookie in answer.get("cookies") or []]
    if broken := [name for name, value in headers if _NOT_IN_HEADERS.search(name + value)]:
        raise BadAnswer(f"header {broken[0]!r} holds a control character")
    body = answer.get("body") or ""
    if not isinstance(body, str):
        raise BadAnswer("body is no text")
    content = base64.b64decode(body, validate=True) if answer.get("isBase64Encoded") else body.encode()
    return HttpResponse(status, tuple(headers), b"" if status in _WITHOUT_BODY else content)
