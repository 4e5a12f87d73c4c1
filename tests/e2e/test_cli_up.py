"""``knowledge demo`` and ``knowledge up`` as a person runs them, and other commands beside them."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import psutil
import psycopg
import pytest

from local.home import Home
from local.settings import CHECKOUT, child_environment

PATIENCE_S = 240.0

pytestmark = pytest.mark.timeout(3 * PATIENCE_S)


class Shell(NamedTuple):
    """Where a person types commands: with a home and a port of their own."""

    environment: dict[str, str]
    home: Home

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", "from cli.main import main; main()", *arguments],
            env=self.environment,
            cwd=CHECKOUT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str) -> tuple[int, str, str]:
        process = self.start(*arguments)
        out, err = process.communicate(timeout=PATIENCE_S)
        return process.returncode, out, err


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    home = tmp_path_factory.mktemp("cli") / "home"
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    environment = child_environment(KNOWLEDGE_HOME=str(home), PORT=str(port), EMBEDDING_BACKEND="hash", COLUMNS="120")
    return Shell(environment, Home(home))


def test_the_demo_loads_the_company_and_shows_an_answer(shell: Shell) -> None:
    code, out, err = shell.run("demo")

    assert code == 0, err
    assert "Who may approve a payment to a new bank account?  (tags: policy+finance)" in out
    assert out.count("[policy, finance") == 3
    assert "loading the example company: employee-dir, wiki" in err
    assert shell.home.running_stack() is None


def test_up_stays_and_other_commands_find_it(shell: Shell, tmp_path: Path) -> None:
    up = shell.start("up")
    try:
        said = _read_until(up, "Ctrl-C stops everything")
        state = shell.home.running_stack()
        assert state is not None, said

        code, out, _ = shell.run("query", "Who may approve a payment?", "--tags", "policy", "--json")
        assert (code, len(json.loads(out)["documents"])) == (0, 5)

        code, out, _ = shell.run("dsn")
        with psycopg.connect(out.strip()) as database:
            stored = database.execute("SELECT count(*) FROM knowledge_documents").fetchone()
        assert stored is not None

        archive = tmp_path / "documents.jsonl"
        assert shell.run("export", str(archive), "--with-vectors")[0] == 0
        assert len(archive.read_text().splitlines()) == 1 + stored[0]
        code, out, _ = shell.run("import", str(archive), "--json")
        assert (code, json.loads(out)["unchanged"]) == (0, stored[0])

        code, _, err = shell.run("up")
        assert code == 2
        assert "is in use by another stack" in err
    finally:
        up.send_signal(signal.SIGINT)
        out, err = up.communicate(timeout=PATIENCE_S)

    assert up.returncode == 0, err
    assert f"API       {state.knowledge_url}" in out
    assert f"health    {state.url}/health" in out
    assert f"key       {shell.home.api_key_path}" in out
    assert f"KNOWLEDGE_HOME={shell.home.path}" in out
    assert not [process.pid for process in state.processes if psutil.pid_exists(process.pid)]


def _read_until(process: subprocess.Popen[str], text: str) -> str:
    """What ``process`` says on stderr up to the line with ``text``, or up to its end."""
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if text in line:
            break
    return said
