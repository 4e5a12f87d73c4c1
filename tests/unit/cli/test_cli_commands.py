"""Deleting, counting, versions, finding the store, and how commands end."""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

import cli.store
from cli.exits import describe, exit_code
from cli.main import run
from cli.reference import reference
from local.home import Home, StackState
from local.settings import CHECKOUT
from spot_sdk.documents import KnowledgeDocument
from spot_sdk.errors import (
    Conflict,
    DeadlineExceeded,
    EmbeddingFailed,
    InternalError,
    InvalidDocument,
    InvalidTagExpression,
    KnowledgeError,
    MethodNotAllowed,
    ModelMismatch,
    NotFound,
    Overloaded,
    Problem,
    StoreUnavailable,
    SyncRunning,
    Unauthorized,
    Unavailable,
)
from spot_sdk.testing import FakeKnowledgeClient

Knowledge = Callable[..., Any]

STACK = StackState(
    pid=os.getpid(),
    port=9000,
    url="http://127.0.0.1:9000",
    knowledge_url="http://127.0.0.1:9000/api/v1/knowledge",
    aws_endpoint_url="http://127.0.0.1:9001",
    processes=[],
)


@pytest.fixture
def two_documents(store: FakeKnowledgeClient) -> FakeKnowledgeClient:
    moment = datetime(2026, 2, 16, tzinfo=UTC)
    documents = [
        KnowledgeDocument(id="a", content="One", tags=["policy"], source="handbook", updated_at=moment),
        KnowledgeDocument(id="b", content="Two", tags=["policy", "odd"], updated_at=moment.replace(day=20)),
    ]
    asyncio.run(store.bulk_upsert(documents))
    return store


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """The home of a stack that seems to run."""
    home = Home(tmp_path / "home")
    home.make()
    home.ensure_api_key()
    home.write_state(STACK)
    home.functions_path.write_text(
        json.dumps({"Parameters": {"DATABASE_URL": "postgresql://u:p@127.0.0.1:1/knowledge"}})
    )
    home.lock.acquire()
    yield home
    home.lock.release()


class TestDelete:
    def test_asks_first(
        self, knowledge: Knowledge, two_documents: FakeKnowledgeClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
        declined = knowledge("delete", "a", "b")
        assert (declined.code, declined.out, len(two_documents.documents)) == (1, "", 2)
        assert "Remove 2 documents for good?" in declined.err
        assert "nothing was done" in declined.err

        monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
        assert knowledge("delete", "a", "b").out == "2 documents removed\n"
        assert two_documents.documents == []

    def test_does_not_take_silence_for_consent(
        self, knowledge: Knowledge, two_documents: FakeKnowledgeClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO(""))

        ended = knowledge("delete", "a")

        assert ended.code == 2
        assert (
            ended.err.splitlines()[-1]
            == "knowledge: nothing was done, for nobody answered; --yes goes on without asking"
        )
        assert len(two_documents.documents) == 2

    def test_says_what_was_not_there(self, knowledge: Knowledge, two_documents: FakeKnowledgeClient) -> None:
        ended = knowledge("delete", "a", "nobody", "--yes")

        assert (ended.code, ended.out) == (0, "1 document removed\n")
        assert ended.err == "1 id was not there\n"
        assert knowledge("delete", "x", "y", "y", "--yes").err == "2 ids were not there\n"
        assert knowledge("delete", "b", "b", "--yes").err == ""

    def test_json(self, knowledge: Knowledge, two_documents: FakeKnowledgeClient) -> None:
        assert json.loads(knowledge("delete", "a", "-y", "--json").out) == {"deleted": 1}


class TestStats:
    def test_tables(self, knowledge: Knowledge, two_documents: FakeKnowledgeClient) -> None:
        out = knowledge("stats").out

        assert out.startswith("2 documents, updated 2026-02-16 to 2026-02-20\n")
        assert "handbook" in out
        assert "(none)" in out
        assert "policy" in out
        assert "employee" not in out

    def test_json(self, knowledge: Knowledge, two_documents: FakeKnowledgeClient) -> None:
        assert json.loads(knowledge("stats", "--json").out)["documents"] == 2

    def test_names_are_no_markup(self, knowledge: Knowledge, store: FakeKnowledgeClient) -> None:
        asyncio.run(store.upsert(KnowledgeDocument(id="a", content="One", source="[red]team[/red] :key:")))

        assert "[red]team[/red] :key:" in knowledge("stats").out

    def test_what_waits_and_what_is_not_counted(self, knowledge: Knowledge, two_documents: FakeKnowledgeClient) -> None:
        gone = [KnowledgeDocument(id=f"x{n}", content="x", expires_at=datetime(2026, 1, 1, tzinfo=UTC)) for n in "ab"]

        asyncio.run(two_documents.upsert(gone[0]))
        out = knowledge("stats").out
        assert "1 more has expired and waits for removal" in out
        assert "odd" not in out
        assert "Other tags are not counted here" in out

        asyncio.run(two_documents.upsert(gone[1]))
        assert "2 more have expired and wait for removal" in knowledge("stats").out

    def test_an_empty_store(self, knowledge: Knowledge, store: FakeKnowledgeClient) -> None:
        assert knowledge("stats").out == "0 documents, updated never\n"


class TestVersion:
    def test_with_a_store(self, knowledge: Knowledge, store: FakeKnowledgeClient) -> None:
        ended = knowledge("version")

        assert ended.code == 0
        assert "words-and-trigrams" in ended.out
        assert "chunk to 2000 characters" in ended.out

    def test_without_a_store(self, knowledge: Knowledge) -> None:
        ended = knowledge("version", "--json")

        assert ended.code == 0
        assert json.loads(ended.out)["store"] is None
        assert "no local stack runs" in ended.err

    def test_a_store_that_was_named_must_answer(self, knowledge: Knowledge, store: FakeKnowledgeClient) -> None:
        store.fail_with(Unavailable("gone"))

        assert knowledge("version", "--url", "http://127.0.0.1:9000").code == 3


class TestFindingTheStore:
    def headers(self, url: str | None) -> tuple[str, str | None]:
        connection = cli.store.open_client(url)._connection
        return connection.url, connection._headers.get("X-Internal-API-Key")

    def test_the_stack_that_runs_with_its_own_key(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SPOT_INTERNAL_API_KEY", "of-another-store")

        assert self.headers(None) == (STACK.knowledge_url, home.api_key())

    def test_an_address_with_the_key_of_the_environment(self, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
        assert self.headers("http://store.example/api") == ("http://store.example/api", None)
        monkeypatch.setenv("SPOT_INTERNAL_API_KEY", "its-key")
        assert self.headers("http://store.example/api") == ("http://store.example/api", "its-key")

    def test_the_stack_s_address_with_its_key(self, home: Home) -> None:
        assert self.headers(f"{STACK.knowledge_url}/") == (STACK.knowledge_url, home.api_key())

    def test_nothing_runs(self, knowledge: Knowledge, tmp_path: Path) -> None:
        for command in (["query", "x"], ["stats"], ["delete", "x", "-y"], ["migrate"], ["export", "-"], ["dsn"]):
            ended = knowledge(*command)
            assert (ended.code, ended.out) == (3, "")
            assert f"no local stack runs in {tmp_path / 'home'}" in ended.err
            assert len(ended.err.splitlines()) == 1

    def test_the_address_of_the_database(self, knowledge: Knowledge, home: Home) -> None:
        assert knowledge("dsn").out == "postgresql://u:p@127.0.0.1:1/knowledge\n"

    def test_a_database_that_does_not_answer(self, knowledge: Knowledge, home: Home) -> None:
        ended = knowledge("migrate", "--embedding-backend", "hash")

        assert ended.code == 3
        assert "port 1 failed" in ended.err

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--database", "nonsense"], "not the address of a database"),
            (["--database", "host=127.0.0.1", "--embedding-backend", "nonsense"], "EMBEDDING_BACKEND"),
        ],
    )
    def test_settings_that_are_not_right(self, knowledge: Knowledge, options: list[str], message: str) -> None:
        ended = knowledge("migrate", *options)

        assert ended.code == 2
        assert message in ended.err


class TestEnding:
    @pytest.mark.parametrize(
        ("error", "code"),
        [
            (InvalidDocument(), 2),
            (InvalidTagExpression(), 2),
            (Conflict(), 2),
            (SyncRunning(), 2),
            (NotFound(), 2),
            (MethodNotAllowed(), 2),
            (Unavailable(), 3),
            (StoreUnavailable(), 3),
            (Overloaded(), 3),
            (DeadlineExceeded(), 3),
            (ModelMismatch(), 1),
            (EmbeddingFailed(), 1),
            (Unauthorized(), 1),
            (InternalError(), 1),
        ],
    )
    def test_exit_codes(self, error: KnowledgeError, code: int) -> None:
        assert exit_code(error) == code

    def test_an_error_of_the_store_is_one_line(self, knowledge: Knowledge, store: FakeKnowledgeClient) -> None:
        store.fail_with(Unauthorized("send a valid key"))

        ended = knowledge("stats")

        assert (ended.code, ended.out, ended.err) == (1, "", "knowledge: send a valid key\n")

    def test_debug_shows_where_it_came_from(self, knowledge: Knowledge, store: FakeKnowledgeClient) -> None:
        store.fail_with(Unauthorized("send a valid key"))

        assert "Traceback" in knowledge("--debug", "stats").err

    def test_a_fault_of_ours_is_a_line_too(
        self, knowledge: Knowledge, store: FakeKnowledgeClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def broken() -> None:
            raise LookupError("oops")

        monkeypatch.setattr(store, "stats", broken)

        ended = knowledge("stats")

        assert ended.code == 1
        assert ended.err == "knowledge: something broke: LookupError: oops (`knowledge --debug ...` shows where)\n"

    def test_interrupted(
        self, knowledge: Knowledge, store: FakeKnowledgeClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def interrupted() -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(store, "stats", interrupted)

        assert knowledge("stats") == (130, "", "")

    def test_problems_are_lines_and_a_few(self) -> None:
        problems = [Problem(document=f"d{n}\x1b", field="tags.0", message="is no tag") for n in range(30)]

        lines = describe(InvalidDocument("30 documents\nare not right", problems=problems)).splitlines()

        assert lines[:3] == ["30 documents", "are not right", "  d0: tags.0: is no tag"]
        assert len(lines) == 23
        assert lines[-1] == "  ... and 10 more"

    def test_nobody_knows_how_many_problems_were_not_listed(self) -> None:
        problems = [Problem(document=f"d{n}", message="is bad") for n in range(500)]

        assert describe(InvalidDocument("d0: is bad (and 499 more)", problems=problems)).endswith("\n  ...")

    def test_one_problem_was_told_in_the_message(self) -> None:
        assert describe(InvalidDocument("d: bad", problems=[Problem(document="d", message="bad")])) == "d: bad"

    def test_what_finds_an_error_in_the_log(self) -> None:
        assert describe(InternalError("broke", correlation_id="r-1")).splitlines()[1] == "  correlation id: r-1"

    def test_what_the_driver_says_of_the_database(self) -> None:
        error = StoreUnavailable("cannot be reached")
        error.__cause__ = psycopg.OperationalError("connection refused\nIs the server running?")

        assert describe(error).splitlines() == ["cannot be reached", "  connection refused"]

    def test_a_reader_that_has_seen_enough_is_no_news(self) -> None:
        """In a process of its own: stdout is closed for real."""
        program = "import sys; from cli.main import run; sys.exit(run(['--help']))"
        reading, writing = os.pipe()
        os.close(reading)

        ended = subprocess.run([sys.executable, "-c", program], stdout=writing, stderr=subprocess.PIPE, check=False)

        os.close(writing)
        assert (ended.returncode, ended.stderr) == (1, b"")


class TestHelp:
    def test_no_command_shows_the_help(self, knowledge: Knowledge) -> None:
        ended = knowledge()

        assert (ended.code, ended.out) == (2, "")
        assert "Exit codes: 0 done" in ended.err

    def test_a_group_without_a_command_shows_its_help(self, knowledge: Knowledge) -> None:
        ended = knowledge("runs")

        assert (ended.code, ended.out) == (2, "")
        assert ended.err.startswith("Usage: knowledge runs")

    def test_every_command_teaches_by_example(self) -> None:
        for section in reference().split("\n## ")[2:]:
            name = section.splitlines()[0]
            if "\nCommands:\n" not in section:
                assert name in section.split("  Examples:\n\n    ")[1], name

    def test_help_of_a_command(self, knowledge: Knowledge) -> None:
        ended = knowledge("ingest", "--help")

        assert (ended.code, ended.err) == (0, "")
        assert "--skip-unreadable" in ended.out

    def test_the_reference_is_what_help_says(self) -> None:
        page = (CHECKOUT / "docs/reference/cli.md").read_text(encoding="utf-8")

        assert page == reference(), "run: python -m cli.reference > docs/reference/cli.md"

    def test_help_needs_none_of_the_heavy_parts(self) -> None:
        program = "import cli.main, sys; print(*sorted({m.partition('.')[0] for m in sys.modules}))"

        loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout

        assert not set(loaded.split()) & {"numpy", "onnxruntime", "tokenizers", "boto3", "psycopg", "moto"}


def test_run_is_what_the_command_runs() -> None:
    assert run(["--help"]) == 0
