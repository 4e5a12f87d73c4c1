"""Requests that gateways change on their way: what is meant happens, or nothing does."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from spot_sdk.client import KnowledgeClient
from spot_sdk.documents import KnowledgeDocument
from tests.contract.conftest import KEY
from tests.contract.lambda_transport import LambdaTransport

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("stored", "path", "left"),
    [
        ("x", "x", set()),
        ("wiki:1#chunk-0", "wiki:1%23chunk-0", set()),
        ("x", "x%3Fy", {"x"}),
        ("p/q", "p%252Fq", {"p/q"}),
        ("50 off", "50%2520off", {"50 off"}),
        ("x", "x%253Fy", {"x"}),
        ("x", "x?y", {"x"}),
    ],
)
async def test_delete_by_path_removes_what_is_named_or_nothing(
    store_client: Callable[..., KnowledgeClient], stored: str, path: str, left: set[str]
) -> None:
    async with store_client() as client:
        await client.upsert(KnowledgeDocument(id=stored, content="words"))
        async with httpx.AsyncClient(transport=LambdaTransport()) as http:
            await http.delete(f"http://store.test/api/v1/knowledge/{path}", headers={"X-Internal-API-Key": KEY})
        assert {document.id for document in await client.fetch(text="words")} == left


async def test_media_types_ignore_case(store_client: Callable[..., KnowledgeClient]) -> None:
    store_client()
    async with httpx.AsyncClient(transport=LambdaTransport()) as http:
        answer = await http.post(
            "http://store.test/api/v1/knowledge/query",
            content=b'{"text": "a"}',
            headers={"X-Internal-API-Key": KEY, "Content-Type": "application/JSON; Charset=UTF-8"},
        )
    assert answer.status_code == 200
