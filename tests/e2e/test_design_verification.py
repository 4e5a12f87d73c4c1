"""The design's section "Verification", its points 2 to 14, on the embedded stack as `knowledge up` starts it.

Each test is named by its point. They follow each other in one store, as the section does.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from examples.workflow.runner import StageOutcome, StageRunner
from spot_sdk import AnalysisRequest, AnalysisResult, Email, KnowledgeClient, RetrievalLimits, WorkflowStage
from spot_sdk.workflow import StageAnalyzer
from tests.e2e.conftest import Stack

pytestmark = pytest.mark.timeout(300)

PATIENCE_S = 100.0
FAKE_SOURCE = "provider-fake"

EXECUTIVE = {"id": "e:1", "content": "Ada is the chief executive.", "tags": ["employee", "executive"]}
CLERK = {"id": "e:2", "content": "Ben pays the invoices.", "tags": ["employee", "finance"]}
DIRECTOR = {"id": "d:1", "content": "Cleo directs the board.", "tags": ["director"]}
WIKI = [
    {
        "id": f"wiki:1#{number}",
        "content": f"How invoices are paid, part {number}.",
        "tags": ["wiki_page"],
        "metadata": {"parent_id": "wiki:1"},
    }
    for number in range(2)
]
POLICY = {"id": "p:1", "content": "Gift cards are never bought by mail.", "tags": ["policy"]}
BY_HAND = [EXECUTIVE, CLERK, DIRECTOR, *WIKI, POLICY]


@pytest.fixture(scope="module")
def filled(empty_stack: Stack) -> Iterator[Stack]:
    for document in BY_HAND:
        empty_stack.post("/upsert", document)
    yield empty_stack
    empty_stack.post("/delete", {"ids": [document["id"] for document in BY_HAND]})


class FakeProvider(ThreadingHTTPServer):
    """Answers ``POST /internal/sync`` as a provider does: it sends its documents to the store."""

    def __init__(self, stack: Stack) -> None:
        self.calls: list[dict[str, Any]] = []
        self.called = threading.Event()
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                provider.calls.append({"path": self.path, "key": self.headers["X-Internal-API-Key"], **order})
                documents = [
                    {
                        "id": f"fake:{number}",
                        "content": f"Fake news {number}.",
                        "tags": ["ticket"],
                        "source": FAKE_SOURCE,
                    }
                    for number in range(3)
                ]
                stack.post("/bulk-upsert", {"documents": documents})
                body = json.dumps({"upserted": len(documents)}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                provider.called.set()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


# Analyzers of the test: the first asks the store, the second does not.

_log = logging.getLogger("throwaway")


async def ask_the_store(request: Request) -> JSONResponse:
    email = AnalysisRequest.model_validate_json(await request.body()).email
    found = await KnowledgeClient.for_analysis(email).fetch(tags="employee", top_k=3)
    _log.warning("decided by %s", [document.id for document in found])
    return JSONResponse(AnalysisResult(is_phishing=bool(found), reason=f"{len(found)} documents").model_dump())


async def ask_nobody(request: Request) -> JSONResponse:
    context = AnalysisRequest.model_validate_json(await request.body()).analysis_context
    reputation = context.get("url-reputation", {}).get("score")
    return JSONResponse(AnalysisResult(is_phishing=reputation == "bad", reason="of the context").model_dump())


def analyze(*stages: WorkflowStage, context: dict[str, Any] | None = None) -> list[StageOutcome]:
    app = Starlette(
        routes=[
            Route("/asks/internal/analyze", ask_the_store, methods=["POST"]),
            Route("/asks-not/internal/analyze", ask_nobody, methods=["POST"]),
        ]
    )
    urls = {"asks": "http://analyzers.test/asks", "asks-not": "http://analyzers.test/asks-not"}
    email = Email.from_bytes(b"From: a@x.example\nTo: b@y.example\n\nWho pays the invoices of the chief executive?\n")

    async def run() -> list[StageOutcome]:
        async with StageRunner(stages, urls, transport=httpx.ASGITransport(app)) as runner:
            outcomes = await runner.run(email, context)
        await KnowledgeClient.close_shared()
        return outcomes

    return asyncio.run(run())


def stage(limits: RetrievalLimits | None = None) -> WorkflowStage:
    analyzers = [StageAnalyzer(id="asks"), StageAnalyzer(id="asks-not")]
    return WorkflowStage(name="trial", retrieval_limits=limits, analyzers=analyzers)


@pytest.fixture
def of_the_stack(filled: Stack, monkeypatch: pytest.MonkeyPatch) -> Stack:
    """What every plugin is told by the platform."""
    monkeypatch.setenv("SPOT_KNOWLEDGE_URL", filled.api)
    monkeypatch.setenv("SPOT_INTERNAL_API_KEY", filled.key)
    return filled


# The section's points


def test_2_the_service_is_healthy(empty_stack: Stack) -> None:
    assert httpx.get(f"{empty_stack.url}/health").json() == {"status": "ok"}


def test_3_documents_put_in_by_hand_are_rows_with_embeddings(filled: Stack) -> None:
    with psycopg.connect(filled.variables["DATABASE_URL"]) as connection:
        rows = connection.execute(
            "SELECT id, tags, parent_id, vector_dims(embedding) > 0 AND vector_norm(embedding) > 0.99 "
            "FROM knowledge_documents ORDER BY id"
        ).fetchall()
    wanted = [(d["id"], d["tags"], d.get("metadata", {}).get("parent_id"), True) for d in BY_HAND]
    assert rows == sorted(wanted)


def test_5_employee_finds_all_employees(filled: Stack) -> None:
    assert filled.ids("employee") == {"e:1", "e:2"}


def test_6_employee_and_executive_finds_only_executives(filled: Stack) -> None:
    assert filled.ids("employee+executive") == {"e:1"}


def test_7_wiki_page_or_policy_finds_both(filled: Stack) -> None:
    assert filled.ids("wiki_page|policy") == {"wiki:1#0", "wiki:1#1", "p:1"}


def test_8_and_binds_tighter_than_or(filled: Stack) -> None:
    assert filled.ids("employee+executive|director") == {"e:1", "d:1"}


@pytest.mark.parametrize("tags", ["", None])
def test_9_without_tags_everything_is_found_by_similarity(filled: Stack, tags: str | None) -> None:
    assert filled.ids(tags) == {document["id"] for document in BY_HAND}
    body = {"text": "Gift cards are never bought by mail.", "tags": tags or "", "top_k": 1}
    [best] = filled.post("/query", body)["documents"]
    assert best["id"] == "p:1"


def test_10_a_schedule_calls_the_provider_and_the_clean_up_removes_what_expired(filled: Stack) -> None:
    with FakeProvider(filled) as provider:
        threading.Thread(target=provider.serve_forever, daemon=True).start()
        filled.home.spot_path.write_text(
            "plugins:\n  context_providers:\n    fake:\n"
            f'      url: {provider.url}\n      sync_schedule: "* * * * *"\n'
            "sync:\n  allow_http_hosts: [127.0.0.1]\n"
        )
        filled.invoke("MigrateFunction")
        assert provider.called.wait(PATIENCE_S)
        provider.shutdown()
    assert provider.calls[0]["path"] == "/internal/sync"
    assert provider.calls[0]["key"] == filled.variables["SYNC_CALL_KEY"]
    assert filled.ids("ticket") == {"fake:0", "fake:1", "fake:2"}

    past = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    for number in range(3):
        document = {"id": f"fake:{number}", "content": f"Fake news {number}.", "tags": ["ticket"]}
        filled.post("/upsert", document | {"source": FAKE_SOURCE, "expires_at": past})
    assert filled.ids("ticket") == set()
    assert filled.invoke("TtlCleanupFunction")["deleted"] == 3
    with psycopg.connect(filled.variables["DATABASE_URL"]) as connection:
        left = connection.execute("SELECT count(*) FROM knowledge_documents WHERE source = %s", [FAKE_SOURCE])
        assert left.fetchone() == (0,)


def test_11_metrics_count_queries_and_caches(filled: Stack) -> None:
    for _ in range(2):
        filled.ids("policy", "asked twice")
    wanted = {"knowledge_query_duration_seconds_count", "knowledge_embed_cache_hits_total"}
    wanted |= {"knowledge_embed_cache_misses_total", "knowledge_upserts_total"}
    until = time.monotonic() + PATIENCE_S
    values: dict[str, float] = {}
    while not wanted <= values.keys() and time.monotonic() < until:  # workers' lines take a moment to be read
        text = httpx.get(f"{filled.url}/metrics").text
        families = text_string_to_metric_families(text)
        samples = [sample for family in families for sample in family.samples]
        values = {sample.name: sample.value for sample in samples if sample.value > 0}
    assert wanted <= values.keys()
    hits = [
        s.value
        for s in samples
        if s.name == "knowledge_query_duration_seconds_count" and s.labels["cache_hit"] == "true"
    ]
    assert sum(hits) > 0


def test_12_an_analyzer_decides_by_what_it_fetched(of_the_stack: Stack, caplog: pytest.LogCaptureFixture) -> None:
    [outcome] = analyze(stage())
    result = outcome.outcomes[0].result
    assert result is not None, outcome
    assert (result.is_phishing, result.reason) == (True, "2 documents")
    [said] = [record.getMessage() for record in caplog.records if record.name == "throwaway"]
    assert set(EMPLOYEE_IDS) == {id_ for id_ in EMPLOYEE_IDS if id_ in said}


def test_13_the_stages_limit_holds_though_more_was_asked_for(of_the_stack: Stack) -> None:
    [outcome] = analyze(stage(RetrievalLimits(max_top_k=1)))
    result = outcome.outcomes[0].result
    assert result is not None
    assert result.reason == "1 documents"


def test_14_analyzers_that_do_not_ask_and_context_of_providers_are_unaffected(of_the_stack: Stack) -> None:
    context = {"url-reputation": {"score": "bad"}}
    limited, free = (
        analyze(stage(limits), context=context)[0].outcomes[1].result for limits in (RetrievalLimits(max_top_k=1), None)
    )
    assert limited == free
    assert limited is not None
    assert (limited.is_phishing, limited.reason) == (True, "of the context")


EMPLOYEE_IDS = ("e:1", "e:2")
