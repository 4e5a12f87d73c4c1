"""What `up` and `demo` do with a stack that runs; tests/e2e/test_cli_up.py starts a real one."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cli.stack
from cli.company import Company
from local.home import Home
from local.settings import LocalSettings
from local.stack import RunningStack
from spot_sdk.documents import KnowledgeDocument
from spot_sdk.errors import Unavailable
from spot_sdk.testing import FakeKnowledgeClient

Knowledge = Callable[..., Any]


@pytest.fixture(autouse=True)
def _running_stack(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A stack that is ready at once, with a store in memory that knows one policy."""
    stack = RunningStack(
        home=Home(tmp_path / "home"),
        url="http://127.0.0.1:9000",
        knowledge_url="http://127.0.0.1:9000/api/v1/knowledge",
        api_key="key",
        sync_key="sync-key",
        dsn="",
        aws_endpoint_url="",
        migrations=[],
    )

    def run_stack(settings: LocalSettings, *, on_ready: Callable[[RunningStack], None], **_: Any) -> None:
        on_ready(stack)

    policy = KnowledgeDocument(id="p", content="Two people approve a payment.", tags=["policy", "finance"])
    aurelia = KnowledgeDocument(
        id="e",
        content="Aurelia Nkemelu is Chief Executive Officer.",
        tags=["employee", "executive"],
        metadata={"name": "Aurelia Nkemelu", "email": "aurelia.nkemelu@halmere.example"},
    )
    monkeypatch.setattr(cli.stack, "run_stack", run_stack)
    monkeypatch.setattr(cli.stack, "KnowledgeClient", lambda url, key: FakeKnowledgeClient([policy, aurelia]))
    monkeypatch.setattr(Company, "sync", lambda self, stack: None)
    monkeypatch.setattr(Company, "functions", lambda self: {})


def fail_to_sync(*_: object) -> None:
    raise Unavailable("the wiki does not answer")


def test_up_shows_an_answer_and_the_next_question(knowledge: Knowledge, tmp_path: Path) -> None:
    ended = knowledge("up")

    assert ended.code == 0
    assert "Two people approve a payment." in ended.out
    assert "API       http://127.0.0.1:9000/api/v1/knowledge\n" in ended.out
    ask = next(line for line in ended.out.splitlines() if line.startswith("ask "))
    home, _, *arguments = shlex.split(ask.removeprefix("ask "))
    assert home == f"KNOWLEDGE_HOME={tmp_path / 'home'}"
    assert arguments[0] == "query"


def test_up_judges_a_forged_mail_and_tells_how_to_judge_another(knowledge: Knowledge) -> None:
    ended = knowledge("up")

    assert "PHISHING" in ended.out
    assert "the display name is that of Aurelia Nkemelu" in " ".join(ended.out.split())
    judge = next(line for line in ended.out.splitlines() if line.startswith("judge "))
    _, _, command, mail = shlex.split(judge.removeprefix("judge "))
    assert command == "analyze"
    assert Path(mail).is_file()


def test_yesterdays_documents_answer_before_todays_come_in(
    knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(Company, "sync", lambda self, stack: told.append("synced"))
    monkeypatch.setattr(cli.stack, "_tell_where_things_are", lambda stack: told.append("ready"))

    knowledge("up")

    assert told == ["ready", "synced"]


def test_a_store_without_documents_is_loaded_before_it_is_asked(
    knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    store = FakeKnowledgeClient()
    monkeypatch.setattr(cli.stack, "KnowledgeClient", lambda url, key: store)
    monkeypatch.setattr(Company, "sync", lambda self, stack: told.append("synced"))
    monkeypatch.setattr(cli.stack, "_tell_where_things_are", lambda stack: told.append("ready"))

    knowledge("up")

    assert told == ["synced", "ready"]


def test_up_is_up_even_when_the_company_cannot_be_loaded(knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Company, "sync", fail_to_sync)

    ended = knowledge("up")

    assert ended.code == 0
    assert "The example company is not all there: the wiki does not answer" in ended.err
    assert "API " in ended.out


def test_a_demo_that_cannot_load_the_company_has_failed(knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Company, "sync", fail_to_sync)

    ended = knowledge("demo")

    assert ended.code == 3
    assert ended.err.endswith("knowledge: the wiki does not answer\n")


def test_an_empty_store_asks_nothing(knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Company, "sync", pytest.fail)

    ended = knowledge("up", "--empty")

    assert ended.code == 0
    assert ended.out.startswith("API ")
