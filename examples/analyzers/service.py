"""The service around an analyzer: ``POST /internal/analyze``, which the platform calls, and ``GET /health``."""

from __future__ import annotations

import hashlib
import hmac
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from examples.analyzers.settings import ServiceSettings
from spot_sdk.analysis import AnalysisRequest, AnalysisResult
from spot_sdk.email import Email
from spot_sdk.errors import InternalError, InvalidRequest, KnowledgeError, PayloadTooLarge, Unauthorized
from spot_sdk.knowledge import KnowledgeCache, KnowledgeClient
from spot_sdk.problems import PROBLEM_CONTENT_TYPE, to_problem

KEY_HEADER = "X-Internal-API-Key"
MAX_BODY_BYTES = 8_000_000

Analyze = Callable[[Email, KnowledgeClient], Awaitable[AnalysisResult]]
"""Judges a mail with a client of the store that was made for it. What goes wrong in there ends in an abstention."""

Connect = Callable[[Email], KnowledgeClient]

_log = logging.getLogger("analyzer")


class AnalyzerService:
    """Serves one analyzer. Its clients of the store share connections, and a cache that is up to a minute late."""

    def __init__(self, name: str, analyze: Analyze, settings: ServiceSettings, connect: Connect | None = None) -> None:
        """``connect`` makes the client for a mail; by default one for the address and key of the environment."""
        self._name = name
        self._analyze = analyze
        self._settings = settings
        self._cache = KnowledgeCache()
        self._connect = connect or self._client

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/internal/analyze", self._answer_analyze, methods=["POST"]),
                Route("/health", self._answer_health, methods=["GET"]),
            ],
            exception_handlers={KnowledgeError: _refusal, Exception: _breakdown},
        )

    def _client(self, email: Email) -> KnowledgeClient:
        return KnowledgeClient.for_analysis(email, cache=self._cache)

    async def _answer_health(self, _: Request) -> JSONResponse:
        return JSONResponse({"status": "ok", "analyzer": self._name})

    async def _answer_analyze(self, request: Request) -> Response:
        self._refuse_strangers(request)
        order = await _order(request)
        started = time.perf_counter()
        result = await self._analyze(order.email, self._connect(order.email))
        _log.info(
            "%s: is_phishing %s, confidence %.2f, %s, in %.0f ms",
            self._name,
            result.is_phishing,
            result.confidence,
            ", ".join(indicator.code for indicator in result.indicators) or result.reason,
            (time.perf_counter() - started) * 1000,
        )
        return Response(result.model_dump_json(), media_type="application/json")

    def _refuse_strangers(self, request: Request) -> None:
        """Raises Unauthorized unless the request shows the platform's key: answers quote what the company knows."""
        key = self._settings.api_key
        if key and not hmac.compare_digest(
            _digest(key.get_secret_value()), _digest(request.headers.get(KEY_HEADER, ""))
        ):
            raise Unauthorized(f"an analysis needs the platform's key in the header {KEY_HEADER}")


async def _order(request: Request) -> AnalysisRequest:
    """Raises PayloadTooLarge and InvalidRequest."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY_BYTES:
            raise PayloadTooLarge(f"a mail to analyze has at most {MAX_BODY_BYTES:,} bytes as JSON")
    try:
        return AnalysisRequest.model_validate_json(bytes(body))
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        field = ".".join(map(str, first["loc"])) or "body"
        raise InvalidRequest(f"the order of an analysis is not right: {field}: {first['msg']}") from None


def _digest(text: str) -> bytes:
    """Of equal length whatever the text, and bytes whatever its script: what compare_digest needs."""
    return hashlib.sha256(text.encode()).digest()


async def _refusal(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, KnowledgeError)
    return _problem(to_problem(error), error.status)


async def _breakdown(_: Request, __: Exception) -> JSONResponse:
    """Starlette logs the exception; the caller is told no more than that there was one."""
    return _problem(to_problem(InternalError("the analyzer broke down; its log says where")), InternalError.status)


def _problem(body: dict[str, Any], status: int) -> JSONResponse:
    return JSONResponse(body, status, media_type=PROBLEM_CONTENT_TYPE)
