"""The stage runner: what analyzers are sent, what they say, and what one of them in trouble changes for the others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from examples.analyzers.rules import app as rules_app
from examples.workflow.__main__ import SPOT_FILE
from examples.workflow.runner import MAX_ANSWER_BYTES, StageRunner
from examples.workflow.stages import StagesError, read_stages
from spot_sdk.documents import KnowledgeDocument, RetrievalLimits
from spot_sdk.email import Email
from spot_sdk.testing import FakeKnowledgeClient
from spot_sdk.workflow import StageAnalyzer, WorkflowStage

pytestmark = pytest.mark.anyio

KEY = "key-of-the-platform"
MAIL = Email.from_bytes(b"From: Vera Lind <x@gmail.com>\nTo: o@tidewater.example\nSubject: Hi\n\nHello\n")
CLEAN = {"is_phishing": False, "confidence": 0.5, "analyzer": "other"}
EMPLOYEES = [
    KnowledgeDocument(
        id=f"employee:{name}.lind@tidewater.example",
        content=f"{name.title()} Lind is CEO.",
        tags=["employee", "executive"],
        metadata={"name": f"{name.title()} Lind", "email": f"{name}.lind@tidewater.example"},
    )
    for name in ("vera", "vero", "veri")
]

Answer = Callable[[httpx.Request], "httpx.Response | Any"]


class Network(httpx.AsyncBaseTransport):
    """Hosts by name, each with how it answers; what they were sent is kept."""

    def __init__(self, hosts: dict[str, Answer | httpx.ASGITransport]) -> None:
        self._hosts = hosts
        self.sent: list[tuple[str, httpx.Request, dict[str, Any]]] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.sent.append((request.url.host, request, json.loads(await request.aread())))
        host = self._hosts[request.url.host]
        if isinstance(host, httpx.ASGITransport):
            return await host.handle_async_request(request)
        answer = host(request)
        return await answer if asyncio.iscoroutine(answer) else answer


def stage(*ids: str, **fields: Any) -> WorkflowStage:
    analyzers = [StageAnalyzer(id=each, url=f"http://{each}/") for each in ids]
    return WorkflowStage.model_validate({"name": "triage", "analyzers": analyzers} | fields)


async def run(network: Network, *stages: WorkflowStage, context: dict[str, Any] | None = None) -> list[Any]:
    async with StageRunner(stages, {}, KEY, transport=network) as runner:
        return await runner.run(MAIL, context)


async def test_each_analyzer_is_sent_mail_context_and_the_limits_of_its_stage() -> None:
    network = Network({"a": lambda _: httpx.Response(200, json=CLEAN), "b": lambda _: httpx.Response(200, json=CLEAN)})
    first = stage("a", retrieval_limits=RetrievalLimits(max_top_k=1, min_score_floor=0.5))
    outcomes = await run(network, first, stage("a", "b", name="later"), context={"provider": {"x": 1}})

    assert [(host, str(request.url), request.headers["X-Internal-API-Key"]) for host, request, _ in network.sent] == [
        ("a", "http://a/internal/analyze", KEY),
        ("a", "http://a/internal/analyze", KEY),
        ("b", "http://b/internal/analyze", KEY),
    ]
    bodies = [body for _, _, body in network.sent]
    assert bodies[0].keys() == {"email", "analysis_context", "retrieval_limits"}
    assert bodies[0]["retrieval_limits"] == {"max_top_k": 1, "min_score_floor": 0.5}
    assert bodies[0]["analysis_context"] == {"provider": {"x": 1}}
    assert "retrieval_limits" not in bodies[1]
    assert "retrieval_limits" not in bodies[1]["email"]
    assert Email.model_validate(bodies[0]["email"]) == MAIL
    assert [(each.stage, [one.analyzer for one in each.outcomes]) for each in outcomes] == [
        ("triage", ["a"]),
        ("later", ["a", "b"]),
    ]
    assert all(one.result.is_phishing is False for each in outcomes for one in each.outcomes)


async def test_an_analyzer_in_trouble_is_an_outcome_and_the_others_are_asked() -> None:
    async def sleep(_: httpx.Request) -> httpx.Response:
        await asyncio.sleep(30)
        raise AssertionError("it was waited for")

    def refuse(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("connection refused")

    network = Network(
        {
            "away": refuse,
            "late": sleep,
            "broken": lambda _: httpx.Response(500, text="oh"),
            "odd": lambda _: httpx.Response(200, json={"is_phishing": "perhaps"}),
            "loud": lambda _: httpx.Response(200, content=b" " * (MAX_ANSWER_BYTES + 1)),
            "fine": lambda _: httpx.Response(200, json=CLEAN | {"new_in_a_later_sdk": 1}),
        }
    )
    unknown = StageAnalyzer(id="unknown")
    names = ("away", "late", "broken", "odd", "loud", "fine")
    for mode in ("parallel", "sequential"):
        declared = stage(*names, mode=mode, timeout_ms=200)
        [outcome] = await run(network, declared.model_copy(update={"analyzers": [*declared.analyzers, unknown]}))
        errors = {each.analyzer: each.error for each in outcome.outcomes}
        assert errors == {
            "away": "connection refused",
            "late": "no answer within 0.2 s",
            "broken": "it answered 500",
            "odd": errors["odd"],
            "loud": "its answer has more than 2,000,000 bytes",
            "fine": None,
            "unknown": "nobody says where it listens",
        }
        assert "is_phishing" in (errors["odd"] or "")


async def test_in_a_parallel_stage_all_are_asked_at_once_in_a_sequential_one_in_order() -> None:
    met = asyncio.Barrier(2)

    async def meet(_: httpx.Request) -> httpx.Response:
        async with asyncio.timeout(0.5):
            await met.wait()
        return httpx.Response(200, json=CLEAN)

    network = Network({"a": meet, "b": meet})
    [together] = await run(network, stage("a", "b", mode="parallel"))
    assert [each.error for each in together.outcomes] == [None, None]
    [in_turn] = await run(network, stage("a", "b", mode="sequential", timeout_ms=100))
    assert all(each.error for each in in_turn.outcomes)


async def test_the_limits_reach_the_store_and_an_analyzer_without_it_is_unaffected() -> None:
    store = FakeKnowledgeClient(EMPLOYEES)
    environment = {"SPOT_KNOWLEDGE_URL": "http://store/api/v1/knowledge", "SPOT_INTERNAL_API_KEY": KEY}
    rules = rules_app.analyzer(environment, store.for_analysis).app()
    network = Network(
        {
            "rules": httpx.ASGITransport(rules),
            "other": lambda _: httpx.Response(200, json=CLEAN),
        }
    )
    limited = stage("rules", "other", retrieval_limits=RetrievalLimits(max_top_k=1))
    [capped] = await run(network, limited)
    assert {query.top_k for query in store.queries} == {1}
    [free] = await run(network, stage("rules", "other"))
    assert max(query.top_k for query in store.queries) > 1
    assert capped.outcomes[0].result.is_phishing is True
    assert capped.outcomes[1].result == free.outcomes[1].result


def test_the_shipped_file_has_stages_with_limits() -> None:
    stages = read_stages(SPOT_FILE)
    assert [each.name for each in stages] == ["triage", "enrichment"]
    assert stages[0].retrieval_limits == RetrievalLimits(max_top_k=3, min_score_floor=0.5)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("stages: [", "spot.yaml"),
        ("stages: 1", "stages: Input should be a valid list"),
        ("stages: [{name: a, retrieval_limits: {max_topk: 1}}]", "stages.0.retrieval_limits.max_topk: Extra inputs"),
        ("stages: [{name: a, analyzers: [{id: A B}]}]", "stages.0.analyzers.0.id: String should match"),
        ("stages: [{name: a, mode: sometimes}]", "stages.0.mode"),
    ],
)
def test_stages_that_are_not_right_are_refused_by_field(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "spot.yaml"
    path.write_text(text)
    with pytest.raises(StagesError, match=complaint.replace("[", r"\[")):
        read_stages(path)


def test_a_file_without_stages_has_none(tmp_path: Path) -> None:
    path = tmp_path / "spot.yaml"
    path.write_text("plugins: {}\n")
    assert read_stages(path) == []
    path.write_text("")
    assert read_stages(path) == []
