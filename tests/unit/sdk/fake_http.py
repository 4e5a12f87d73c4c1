"""A scripted server for the client's tests: it records requests and gives the answers it was told."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import httpx

from spot_sdk.batching import BatchLimits
from spot_sdk.cache import KnowledgeCache
from spot_sdk.client import KnowledgeClient
from spot_sdk.documents import KnowledgeDocument, RetrievalLimits
from spot_sdk.retrying import RetryPolicy

Answer = httpx.Response | Exception | Callable[[httpx.Request], httpx.Response]

URL = "http://store.example/api/v1/knowledge"


class ScriptedServer(httpx.AsyncBaseTransport):
    """Gives its answers in turn, and the last one for ever after."""

    def __init__(self, *answers: Answer) -> None:
        self.requests: list[httpx.Request] = []
        self._answers = list(answers)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        self.requests.append(request)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return (
            answer(request)
            if callable(answer)
            else httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)
        )

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(request.content) for request in self.requests]


class Naps:
    """Takes the place of sleep and of chance: notes how long was to be slept, and draws the largest number."""

    def __init__(self) -> None:
        self.slept_s: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)

    def policy(self, **settings: Any) -> RetryPolicy:
        return RetryPolicy(sleep=self.sleep, random=lambda: 1.0, **settings)


def client(
    server: httpx.AsyncBaseTransport,
    *,
    retry: RetryPolicy | None = None,
    api_key: str | None = "key-1",
    retrieval_limits: RetrievalLimits | None = None,
    batch_limits: BatchLimits | None = None,
    cache: KnowledgeCache | None = None,
) -> KnowledgeClient:
    return KnowledgeClient(
        URL,
        api_key,
        retrieval_limits,
        transport=server,
        retry=retry or Naps().policy(),
        batch_limits=batch_limits,
        cache=cache,
    )


def stored(request: httpx.Request, *, status: str = "created") -> httpx.Response:
    """The answer to an upsert of one or many documents."""
    body = json.loads(request.content)
    documents = body.get("documents", [body])
    results = [{"id": document["id"], "status": status} for document in documents]
    return httpx.Response(200, json={"results": results, "embedded": len(results)})


def found(*documents: KnowledgeDocument) -> httpx.Response:
    return httpx.Response(200, json={"documents": [document.model_dump(mode="json") for document in documents]})


def problem(status: int, code: str, **members: Any) -> httpx.Response:
    headers = {"Content-Type": "application/problem+json", "X-Correlation-Id": "c-header"}
    return httpx.Response(
        status, json={"status": status, "code": code, "detail": "as told", **members}, headers=headers
    )


def documents(count: int, content: str = "text") -> list[KnowledgeDocument]:
    return [KnowledgeDocument(id=f"doc:{number}", content=content) for number in range(count)]


def ids(requests: Iterable[Any]) -> list[list[str]]:
    return [[document["id"] for document in body["documents"]] for body in requests]
