"""A whole stack without documents, as `knowledge up --empty` starts it, for all tests that want one."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import pytest

from cli.database import stack_variables
from local.home import Home
from local.settings import CHECKOUT, child_environment


class Stack(NamedTuple):
    """Where it is, and what its functions were told."""

    url: str
    api: str
    key: str
    variables: dict[str, str]
    home: Home

    def post(self, path: str, body: Any) -> dict[str, Any]:
        answer = httpx.post(f"{self.api}{path}", json=body, headers={"X-Internal-API-Key": self.key}, timeout=30)
        assert answer.is_success, answer.text
        return answer.json()

    def ids(self, tags: str | None, text: str = "invoices and gift cards") -> set[str]:
        asked = {"text": text, "top_k": 50} | ({} if tags is None else {"tags": tags})
        return {document["id"] for document in self.post("/query", asked)["documents"]}

    def invoke(self, function: str) -> dict[str, Any]:
        answer = httpx.post(f"{self.url}/2015-03-31/functions/{function}/invocations", content=b"{}", timeout=60)
        assert "X-Amz-Function-Error" not in answer.headers, answer.text
        return answer.json()


@pytest.fixture(scope="session")
def empty_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    home = Home(tmp_path_factory.mktemp("empty-stack") / "home")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    environment = child_environment(KNOWLEDGE_HOME=str(home.path), PORT=str(port), EMBEDDING_BACKEND="hash")
    command = [sys.executable, "-c", "from cli.main import main; main()", "up", "--empty"]
    with subprocess.Popen(command, env=environment, cwd=CHECKOUT, stderr=subprocess.PIPE, text=True) as up:
        try:
            assert up.stderr is not None
            said = ""
            for line in up.stderr:
                said += line
                if "Ctrl-C stops everything" in line:
                    break
            running = home.running_stack()
            assert running is not None, said
            variables = dict(stack_variables((home, running)))
            yield Stack(running.url, running.knowledge_url, home.api_key(), variables, home)
        finally:
            up.send_signal(signal.SIGINT)
            up.communicate(timeout=120)
