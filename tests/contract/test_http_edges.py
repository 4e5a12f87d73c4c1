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
        ("\ufffd", "%FF", {"\ufffd"}),
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


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("upsert", {"id": "a", "content": "x", **{f"k{n}": 1 for n in range(50_000)}}),
        ("bulk-upsert", {"documents": [{"id": "a", "content": "x", **{f"k{n}": 1 for n in range(50_000)}}]}),
        ("bulk-upsert", {"documents": [{"id": f"d{n}", "content": "x", "tags": ["r&d"] * 64} for n in range(1_000)]}),
        ("bulk-upsert", {"documents": [{"id": "x" * 600, "content": "x"} for _ in range(1_000)]}),
        ("query", {"text": "a", **{f"k{n}": 1 for n in range(50_000)}}),
    ],
)
async def test_a_refusal_is_short_however_much_is_wrong(
    store_client: Callable[..., KnowledgeClient], path: str, body: object
) -> None:
    store_client()
    async with httpx.AsyncClient(transport=LambdaTransport()) as http:
        answer = await http.post(
            f"http://store.test/api/v1/knowledge/{path}", json=body, headers={"X-Internal-API-Key": KEY}
        )
    assert answer.status_code == 422
    assert len(answer.content) < 100_000
    assert len(answer.json().get("problems", [])) <= 100


@pytest.mark.parametrize(
    ("path", "body", "detail"),
    [
        ("upsert", b"", "body: Field required"),
        ("upsert", b"null", "body: Field required"),
        ("upsert", b"[]", "body: Input should be a valid dictionary or object to extract fields from"),
        ("upsert", b'{"content": "x"}', "id: Field required"),
        ("bulk-upsert", b'{"documents": [{"content": "x"}]}', "documents[0] id: Field required"),
    ],
)
async def test_a_refusal_names_the_place(
    store_client: Callable[..., KnowledgeClient], path: str, body: bytes, detail: str
) -> None:
    store_client()
    async with httpx.AsyncClient(transport=LambdaTransport()) as http:
        answer = await http.post(
            f"http://store.test/api/v1/knowledge/{path}",
            content=body,
            headers={"X-Internal-API-Key": KEY, "Content-Type": "application/json"},
        )
    assert (answer.status_code, answer.json()["detail"]) == (422, detail)
