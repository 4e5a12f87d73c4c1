"""Commands as a person runs them, on a store in memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import cli.store
from cli.main import run
from spot_sdk.testing import FakeKnowledgeClient


class Ended(NamedTuple):
    """How a command ended: its exit code, and what it said."""

    code: int
    out: str
    err: str


Knowledge = Callable[..., Ended]


@pytest.fixture(autouse=True)
def _nothing_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KNOWLEDGE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "120")
    for name in ("SPOT_KNOWLEDGE_URL", "SPOT_INTERNAL_API_KEY", "DATABASE_URL", "EMBEDDING_BACKEND", "PORT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def knowledge(capsys: pytest.CaptureFixture[str]) -> Knowledge:
    """``knowledge("query", "text")`` runs the command line."""

    def knowledge(*arguments: str) -> Ended:
        code = run(arguments)
        said = capsys.readouterr()
        return Ended(int(code), said.out, said.err)

    return knowledge


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> FakeKnowledgeClient:
    """The store that all commands reach, whatever their --url."""
    store = FakeKnowledgeClient()
    monkeypatch.setattr(cli.store, "open_client", lambda url: store)
    return store
