"""What plugins may import, and what an import must not cost."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import spot_sdk
import spot_sdk.knowledge
from spot_sdk.client import KnowledgeClient
from spot_sdk.errors import errors_by_code
from spot_sdk.testing import FakeKnowledgeClient

FOR_TESTS_ONLY = {"documents", "queries", "fail_with", "refuse_to_embed"}


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_the_package_exports_the_designs_names():
    design = {"KnowledgeClient", "KnowledgeDocument", "KnowledgeTag", "RetrievalLimits", "chunk_text"}
    analysis = {"AnalysisIndicator", "AnalysisRequest", "AnalysisResult", "DocumentEvidence", "Email", "WorkflowStage"}
    assert set(spot_sdk.__all__) == design | analysis
    for name in spot_sdk.__all__:
        assert getattr(spot_sdk, name).__name__ == name
        assert name in dir(spot_sdk)
    for name in design:
        assert getattr(spot_sdk, name) is getattr(spot_sdk.knowledge, name)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = spot_sdk.nothing  # type: ignore[attr-defined]


def test_spot_sdk_knowledge_exports_these():
    errors = {kind.__name__ for kind in errors_by_code().values()}
    assert set(spot_sdk.knowledge.__all__) - errors == {
        "BatchLimits",
        "KnowledgeCache",
        "KnowledgeClient",
        "KnowledgeDocument",
        "KnowledgeTag",
        "MarkdownChunk",
        "Problem",
        "RemovalLimits",
        "RetrievalLimits",
        "RetryPolicy",
        "SyncResult",
        "SyncRun",
        "UpsertOutcome",
        "UpsertResult",
        "chunk_markdown",
        "chunk_spans",
        "chunk_text",
        "to_tag",
    }
    assert errors <= set(spot_sdk.knowledge.__all__)


def test_the_client_has_these_methods():
    assert public(KnowledgeClient) == {
        "ask",
        "bulk_upsert",
        "close",
        "close_shared",
        "delete",
        "delete_many",
        "fetch",
        "for_analysis",
        "from_environment",
        "replace_children",
        "stats",
        "sync_run",
        "upsert",
        "version",
    }
    assert [*inspect.signature(KnowledgeClient).parameters][:3] == ["url", "api_key", "retrieval_limits"]


@pytest.mark.parametrize("name", sorted(public(KnowledgeClient)))
def test_the_fake_has_the_clients_methods_with_the_same_parameters(name: str):
    real, fake = (inspect.signature(getattr(kind, name)).parameters for kind in (KnowledgeClient, FakeKnowledgeClient))
    fake_parameters = [(p.name, p.kind, p.default) for p in fake.values() if p.name != "self"]
    assert fake_parameters == [(p.name, p.kind, p.default) for p in real.values() if p.name != "self"]


def test_the_fake_has_nothing_more_but_what_tests_need():
    assert public(FakeKnowledgeClient) - public(KnowledgeClient) == FOR_TESTS_ONLY


@pytest.mark.parametrize(
    "module", ["spot_sdk", "spot_sdk.tag_expression", "spot_sdk.documents", "spot_sdk.problems", "spot_sdk.chunking"]
)
def test_what_the_server_imports_brings_no_http_client(module: str):
    code = f"import sys, {module}; print([name for name in ('httpx', 'yaml', 'numpy') if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
