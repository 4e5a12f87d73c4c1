"""Operators look through documents, and end some of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from spot_sdk.client import KnowledgeClient
from spot_sdk.documents import KnowledgeDocument, ListDocuments
from spot_sdk.errors import Forbidden, InvalidRequest, InvalidTagExpression, NotFound
from spot_sdk.operators import OperatorClient
from tests.contract.conftest import KEY
from tests.contract.lambda_transport import LambdaTransport

pytestmark = pytest.mark.anyio

HOUR = timedelta(hours=1)
STRANGE = "wiki:50% off/a?b#chunk-0"


def operator(key: str = KEY) -> OperatorClient:
    return OperatorClient("http://store.test/api/v1/knowledge", key, transport=LambdaTransport())


@pytest.fixture
async def client(store_client: Callable[..., KnowledgeClient]) -> KnowledgeClient:
    client = store_client()
    await client.bulk_upsert(
        [
            KnowledgeDocument(id="a", content="x" * 1_000, tags=["policy"], source="handbook", metadata={"title": "A"}),
            KnowledgeDocument(id="b", content="b", tags=["policy", "hr"], source="handbook"),
            KnowledgeDocument(id=STRANGE, content="c", source="wiki"),
            KnowledgeDocument(id="gone", content="d", expires_at=datetime.now(UTC) - HOUR),
        ]
    )
    return client


async def test_pages_in_id_order_hold_every_live_document_once(client: KnowledgeClient) -> None:
    async with operator() as http:
        first = await http.documents(ListDocuments(limit=2))
        second = await http.documents(ListDocuments(limit=2, after=first.after or ""))
    assert [document.id for document in first.documents + second.documents] == ["a", "b", STRANGE]
    assert (first.after, second.after) == ("b", None)
    [shown] = [document for document in first.documents if document.id == "a"]
    assert (shown.title, shown.characters, shown.tags, shown.source) == ("A", 1_000, ["policy"], "handbook")
    assert len(shown.excerpt) < shown.characters


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        (ListDocuments(source="wiki"), [STRANGE]),
        (ListDocuments(tags="policy+hr"), ["b"]),
        (ListDocuments(prefix="wiki:50% off/a?"), [STRANGE]),
        (ListDocuments(prefix="%"), []),
        (ListDocuments(source="nobody"), []),
    ],
)
async def test_a_listing_can_be_narrowed(client: KnowledgeClient, wanted: ListDocuments, ids: list[str]) -> None:
    async with operator() as http:
        assert [document.id for document in (await http.documents(wanted)).documents] == ids


async def test_one_document_is_read_whole_whatever_its_id(client: KnowledgeClient) -> None:
    async with operator() as http:
        assert (await http.document("a")).content == "x" * 1_000
        assert (await http.document(STRANGE)).content == "c"
        for missing in ("gone", "none"):
            with pytest.raises(NotFound):
                await http.document(missing)


async def test_what_is_wrong_in_a_listing_is_said(client: KnowledgeClient) -> None:
    async with operator() as http:
        with pytest.raises(InvalidTagExpression, match="column 8"):
            await http.documents(ListDocuments(tags="policy+"))
        with pytest.raises(InvalidRequest):
            await http.documents(ListDocuments.model_construct(limit=201, after="", prefix=""))
        with pytest.raises(InvalidRequest, match="NUL"):
            await http.documents(ListDocuments.model_construct(source="\0", after="", prefix=""))


async def test_an_ended_document_is_found_no_more_until_it_is_offered_again(client: KnowledgeClient) -> None:
    again = KnowledgeDocument(id="b", content="b", tags=["policy", "hr"], source="handbook")
    assert "b" in [document.id for document in await client.fetch(text="b", top_k=10)]
    async with operator() as http:
        assert await http.expire(["b", "none", "gone"]) == 1
        assert await http.expire(["b"]) == 0
    assert "b" not in [document.id for document in await client.fetch(text="b", top_k=10)]
    assert (await client.stats()).expired == 2
    await client.upsert(again)
    assert "b" in [document.id for document in await client.fetch(text="b", top_k=10)]


async def test_a_bound_key_ends_only_its_own(client: KnowledgeClient) -> None:
    from spot_sdk.access import IssueKey

    async with operator() as http:
        issued = await http.issue_key(IssueKey(name="wiki", role="source", source="wiki"))
    async with operator(issued.key) as bound:
        with pytest.raises(Forbidden):
            await bound.expire(["a", STRANGE])
        assert await bound.expire([STRANGE]) == 1
    assert "a" in [document.id for document in await client.fetch(text="x", top_k=10)]
