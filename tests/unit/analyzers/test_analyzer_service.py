"""The service around an analyzer: who may ask, what is refused, and what goes on when the store is away."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from examples.analyzers.llm import app as llm_app
from examples.analyzers.rules import app as rules_app
from examples.analyzers.service import MAX_BODY_BYTES
from examples.analyzers.settings import SettingsError
from spot_sdk.documents import KnowledgeDocument
from spot_sdk.email import Email
from spot_sdk.errors import StoreUnavailable
from spot_sdk.testing import FakeKnowledgeClient

pytestmark = pytest.mark.anyio

KEY = "key-of-the-platform"
ENVIRONMENT = {"SPOT_KNOWLEDGE_URL": "http://store.test/api/v1/knowledge", "SPOT_INTERNAL_API_KEY": KEY}
VERA = KnowledgeDocument(
    id="employee:vera.lind@tidewater.example",
    content="Vera Lind is CEO.",
    tags=["employee", "executive"],
    metadata={"name": "Vera Lind", "email": "vera.lind@tidewater.example"},
    source="directory",
)
FORGED = Email.from_bytes(b"From: Vera Lind <x@gmail.com>\nTo: o@tidewater.example\n\nHello\n").model_dump(mode="json")


@pytest.fixture
def store() -> FakeKnowledgeClient:
    return FakeKnowledgeClient([VERA])


async def call(
    store: FakeKnowledgeClient,
    method: str = "POST",
    path: str = "/internal/analyze",
    *,
    key: str | bytes = KEY,
    **body: Any,
) -> httpx.Response:
    app = rules_app.analyzer(ENVIRONMENT, store.for_analysis).app()
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://analyzer.test") as client:
        return await client.request(method, path, headers={"X-Internal-API-Key": key}, **body)


async def test_a_mail_is_judged_with_the_documents_that_show_it(store: FakeKnowledgeClient) -> None:
    answer = await call(store, json={"email": FORGED, "analysis_context": {"provider": {"x": 1}}})
    result = answer.json()
    assert (answer.status_code, result["is_phishing"], result["analyzer"]) == (200, True, "rules")
    assert result["indicators"][0]["evidence"][0]["document_id"] == VERA.id


async def test_the_stage_s_limits_hold(store: FakeKnowledgeClient) -> None:
    limits = {"max_top_k": 1, "min_score_floor": 0.5}
    await call(store, json={"email": FORGED, "retrieval_limits": limits})
    assert {(query.top_k, query.min_score) for query in store.queries} == {(1, 0.5)}


async def test_without_the_store_it_abstains_and_says_why(store: FakeKnowledgeClient) -> None:
    store.fail_with(StoreUnavailable("the database is away"))
    answer = await call(store, json={"email": FORGED})
    assert (answer.status_code, answer.json()["is_phishing"]) == (200, None)
    assert "the database is away" in answer.json()["reason"]


async def test_strangers_learn_nothing(store: FakeKnowledgeClient) -> None:
    for key in ("", "wrong", "schlüssel".encode()):
        answer = await call(store, key=key, json={"email": FORGED})
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")
    assert store.queries == []


@pytest.mark.parametrize(
    ("body", "status", "complaint"),
    [
        (b"", 422, "body"),
        (b"{", 422, "body"),
        (b'{"email": {"headers": 7}}', 422, "email.headers"),
        (b'{"email": {}, "more": 1}', 422, "more"),
        (b'{"email": {}, "retrieval_limits": {"max_top_k": 0}}', 422, "retrieval_limits.max_top_k"),
        (b"x" * (MAX_BODY_BYTES + 1), 413, "bytes"),
    ],
)
async def test_an_order_that_is_not_right_is_refused_in_words(
    store: FakeKnowledgeClient, body: bytes, status: int, complaint: str
) -> None:
    answer = await call(store, content=body)
    assert (answer.status_code, complaint in answer.json()["detail"]) == (status, True)
    assert answer.headers["Content-Type"] == "application/problem+json"


async def test_a_mail_without_anything_is_judged(store: FakeKnowledgeClient) -> None:
    answer = await call(store, json={"email": {}})
    assert (answer.status_code, answer.json()["is_phishing"]) == (200, False)


async def test_health_needs_no_key(store: FakeKnowledgeClient) -> None:
    answer = await call(store, "GET", "/health", key="")
    assert answer.json() == {"status": "ok", "analyzer": "rules"}


async def test_the_other_analyzer_is_served_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPOT_KNOWLEDGE_URL", ENVIRONMENT["SPOT_KNOWLEDGE_URL"])  # where for_analysis looks for it
    app = llm_app.analyzer(ENVIRONMENT).app()
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://analyzer.test") as client:
        order = {"email": FORGED}
        answer = await client.post("/internal/analyze", json=order, headers={"X-Internal-API-Key": KEY})
    assert answer.json()["is_phishing"] is None


def test_what_is_wrong_shows_at_the_start() -> None:
    for app in (rules_app, llm_app):
        with pytest.raises(SettingsError, match="SPOT_KNOWLEDGE_URL"):
            app.analyzer({})
    with pytest.raises(SettingsError, match="LLM_MODEL"):
        llm_app.analyzer(ENVIRONMENT | {"LLM_BACKEND": "ollama"})
    with pytest.raises(SettingsError, match=r"nowhere.yaml"):
        rules_app.analyzer(ENVIRONMENT | {"RULES_REQUESTS": "nowhere.yaml"})
