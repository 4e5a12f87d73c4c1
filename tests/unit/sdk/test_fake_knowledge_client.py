"""What the fake offers to the tests of plugins, beyond the contract that it shares with the real client."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from spot_sdk.batching import BatchLimits
from spot_sdk.documents import KnowledgeDocument, RetrievalLimits
from spot_sdk.errors import DuplicateDocument, EmbeddingFailed, StoreUnavailable
from spot_sdk.testing import FakeKnowledgeClient
from spot_sdk.testing.similarity import similarity

pytestmark = pytest.mark.anyio

PAYMENTS = KnowledgeDocument(id="policy:1", content="Payments need two people.", tags=["policy"])


@dataclass
class Mail:
    body_text: str = "About payments"
    retrieval_limits: Any = None


class Plugin:
    """Stands for a plugin's module, whose KnowledgeClient a test replaces."""

    KnowledgeClient: Any

    async def analyze(self, email: Mail) -> list[str]:
        kb = self.KnowledgeClient.for_analysis(email)
        return [found.id for found in await kb.fetch(tags="policy", top_k=3)]


async def test_it_takes_the_clients_place_in_a_plugin():
    kb = FakeKnowledgeClient([PAYMENTS])
    plugin = Plugin()
    plugin.KnowledgeClient = kb
    assert await plugin.analyze(Mail(retrieval_limits=RetrievalLimits(max_top_k=2))) == ["policy:1"]
    [query] = kb.queries
    assert (query.text, query.tags, query.top_k) == ("About payments", "policy", 2)


async def test_a_store_that_is_down():
    kb = FakeKnowledgeClient([PAYMENTS])
    kb.fail_with(StoreUnavailable("down"))
    for call in (
        kb.fetch(text="x"), kb.upsert(PAYMENTS), kb.delete("x"), kb.stats(), kb.version(),
        kb.replace_children("p", []), kb.sync_run("wiki").__aenter__(),
    ):  # fmt: skip
        with pytest.raises(StoreUnavailable):
            await call
    kb.fail_with(None)
    assert len(await kb.fetch(text="x")) == 1


async def test_a_model_that_refuses_a_text():
    kb = FakeKnowledgeClient(batch_limits=BatchLimits(documents=1))
    kb.refuse_to_embed("policy:1")
    other = KnowledgeDocument(id="b", content="Lunch")
    with pytest.raises(EmbeddingFailed) as caught:
        await kb.bulk_upsert([PAYMENTS, other])
    assert caught.value.result is not None
    assert [(outcome.id, outcome.status) for outcome in caught.value.result.results] == [
        ("policy:1", "failed"),
        ("b", "created"),
    ]
    assert [found.id for found in kb.documents] == ["b"]
    child = KnowledgeDocument(id="policy:1", content="x", metadata={"parent_id": "p"})
    with pytest.raises(EmbeddingFailed):
        await kb.replace_children("p", [child])
    async with kb.sync_run("wiki") as run:
        await run.upsert([KnowledgeDocument(id="policy:1", content="x", source="wiki")])
    assert (run.result.status, run.result.failed) == ("succeeded", 1)


async def test_a_model_is_not_asked_about_a_text_that_it_knows():
    kb = FakeKnowledgeClient([PAYMENTS])
    kb.refuse_to_embed("policy:1")
    assert (await kb.upsert(PAYMENTS)).status == "unchanged"
    child = PAYMENTS.model_copy(update={"metadata": {"parent_id": "p"}})
    assert (await kb.upsert(child)).status == "updated"
    assert (await kb.replace_children("p", [child])).unchanged == 1
    with pytest.raises(EmbeddingFailed):
        await kb.upsert(child.model_copy(update={"content": "Other words"}))


async def test_time_is_what_the_test_says():
    now = datetime(2026, 1, 1, tzinfo=UTC)
    kb = FakeKnowledgeClient([PAYMENTS.model_copy(update={"expires_at": now + timedelta(hours=1)})], now=lambda: now)
    assert len(await kb.fetch(text="x")) == 1
    assert kb.documents[0].updated_at == now
    now += timedelta(hours=1)
    assert await kb.fetch(text="x") == []
    assert kb.documents == []
    assert (await kb.stats()).expired == 1


def test_the_first_documents_are_checked_too():
    with pytest.raises(DuplicateDocument):
        FakeKnowledgeClient([PAYMENTS, PAYMENTS])


async def test_what_a_test_is_shown_is_a_copy():
    kb = FakeKnowledgeClient([PAYMENTS])
    kb.documents[0].tags.append("mine")
    assert kb.documents[0].tags == ["policy"]


def test_likeness_is_from_0_to_1_symmetric_and_of_words_and_their_parts():
    assert similarity("Payments need two people.", "people: two need PAYMENTS") == 1
    assert similarity("payment", "payments") > 0.5
    assert similarity("payment", "zebra") == 0
    assert (
        similarity("approve payments", "payment approval") == similarity("payment approval", "approve payments") > 0.3
    )
    assert similarity("!!", "!!") == 1
    assert similarity("漢字", "漢字") == 1
