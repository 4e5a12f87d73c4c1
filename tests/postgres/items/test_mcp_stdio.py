"""`knowledge mcp` over real stdio: with the official client, with libraries that print, and where it cannot start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters

from knowledge.items.layer import KnowledgeLayer
from knowledge.settings import SettingsError
from local.settings import CHECKOUT
from mcp_server.settings import McpSettings
from tests.postgres.items.conftest import OWNER

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

RUN = "from cli.main import main; main()"
NOISY = """
import ctypes, os, subprocess, sys, warnings
import mcp_server.tools as tools

def kl_brief(desk, arguments):
    print("a print")
    sys.stdout.write('{"jsonrpc": "2.0", "id": 1, "result": {}}\\n')
    sys.stdout.flush()
    os.write(1, b"bytes\\n")
    ctypes.CDLL(None).puts(b"from C")
    ctypes.CDLL(None).fflush(None)
    subprocess.run(["echo", "a child"], check=True)
    return {"items": []}

brief = next(tool for tool in tools.TOOLS if tool.name == "kl_brief")
object.__setattr__(brief, "run", kl_brief)
"""
STORED = {"type": "fact", "title": "Old", "body": {"text": "x"}, "compartment": "work"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def session(layer: KnowledgeLayer, database_url: str) -> dict[str, str]:
    """The environment of a session that sees one compartment."""
    return {
        "KL_DSN": database_url,
        "KL_AGENT_IDENTITY": "muse",
        "KL_AGENT_CLASS": "fleet",
        "KL_GRANTS": "work",
    }


def environment(**more: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("KL_")}
    return {**inherited, "PYTHONPATH": f"{CHECKOUT}{os.pathsep}{CHECKOUT / 'layers'}", **more}


@asynccontextmanager
async def connected(variables: dict[str, str], *arguments: str, before: str = "") -> AsyncIterator[Client]:
    code = f"{before}\nimport sys; sys.argv = ['knowledge', 'mcp', *{list(arguments)!r}]\n{RUN}"
    server = StdioServerParameters(command=sys.executable, args=["-c", code], env=environment(**variables))
    async with Client(server) as client:
        yield client


async def call(client: Client, tool: str, /, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    return json.loads(result.content[0].text)  # type: ignore[union-attr]


async def test_an_agent_stores_and_reads_over_stdio(session: dict[str, str]) -> None:
    async with connected(session) as client:
        stored = (await call(client, "kl_store", **STORED))["data"]["stored"]
        assert (await call(client, "kl_get", id=stored["id"]))["data"]["item"]["title"] == "Old"
        assert (await call(client, "kl_search", question="old"))["data"]["results"][0]["id"] == stored["id"]
        assert "kl_delete" not in {tool.name for tool in (await client.list_tools()).tools}


async def test_whatever_a_library_prints_the_protocol_goes_on(session: dict[str, str]) -> None:
    async with connected(session, before=NOISY) as client:
        for _ in range(3):
            assert (await call(client, "kl_brief"))["data"] == {"items": []}
        assert (await call(client, "kl_store", **STORED))["data"]["stored"]["version"] == 1


async def test_two_servers_that_write_one_item_at_once_lose_nothing(
    session: dict[str, str], layer: KnowledgeLayer
) -> None:
    each = 12
    async with connected(session) as one, connected(session) as other:
        id_ = (await call(one, "kl_store", **STORED))["data"]["stored"]["id"]
        acknowledged: list[int] = []

        async def write(client: Client, name: str) -> None:
            for number in range(each):
                answer = await call(client, "kl_store", **(STORED | {"id": id_, "title": f"{name} {number}"}))
                acknowledged.append(answer["data"]["stored"]["version"])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write, one, "one")
            tasks.start_soon(write, other, "other")
    assert sorted(acknowledged) == list(range(2, 2 * each + 2))
    kept = [version.title for version in layer.store.versions(id_, OWNER)] + [layer.store.look([id_], OWNER)[0].title]
    assert sorted(kept) == sorted(["Old", *(f"{name} {n}" for name in ("one", "other") for n in range(each))])
    assert layer.provenance.verify(OWNER).findings == []


def ended(variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", f"import sys; sys.argv = ['knowledge', 'mcp']\n{RUN}"]
    return subprocess.run(
        command, env=environment(**variables), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"KL_DSN": ""}, ["KL_DSN"]),
        ({"KL_DSN": "nonsense://secret-word@host"}, ["KL_DSN"]),
        ({"KL_AGENT_IDENTITY": " "}, ["KL_AGENT_IDENTITY"]),
        ({"KL_AGENT_CLASS": "king"}, ["KL_AGENT_CLASS", "owner, chief"]),
        ({"KL_GRANTS": ""}, ["KL_GRANTS"]),
        ({"KL_GRANTS": "Home Sweet"}, ["KL_GRANTS"]),
        ({"KL_WRITE_ENABLED": "maybe"}, ["KL_WRITE_ENABLED"]),
        ({"KL_DSN": "", "KL_GRANTS": "", "KL_AGENT_CLASS": ""}, ["KL_DSN", "KL_GRANTS", "KL_AGENT_CLASS"]),
    ],
)
def test_what_is_wrong_with_the_environment_is_named(change: dict[str, str], named: list[str]) -> None:
    right = {
        "KL_DSN": "postgresql://x:y@h/d",
        "KL_AGENT_IDENTITY": "muse",
        "KL_AGENT_CLASS": "fleet",
        "KL_GRANTS": "work",
    }
    assert McpSettings.from_environment(right).session.identity == "muse"
    with pytest.raises(SettingsError) as caught:
        McpSettings.from_environment(right | change)
    assert all(name in str(caught.value) for name in named)
    assert "secret-word" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "named"),
    [({"KL_DSN": "", "KL_AGENT_CLASS": "king"}, "KL_AGENT_CLASS"), ({"KL_GRANTS": "nowhere"}, "nowhere")],
)
def test_a_wrong_environment_is_told_on_stderr_and_nothing_is_served(
    session: dict[str, str], change: dict[str, str], named: str
) -> None:
    run = ended(session | change)
    assert (run.returncode, run.stdout) == (2, "")
    assert named in run.stderr


def test_a_database_that_is_away_is_told(session: dict[str, str]) -> None:
    run = ended(session | {"KL_DSN": "postgresql://x:y@127.0.0.1:1/x"})
    assert (run.returncode, run.stdout) == (3, "")
    assert run.stderr.startswith("knowledge: ")


def test_it_ends_with_its_stdin(session: dict[str, str]) -> None:
    run = ended(session)
    assert (run.returncode, run.stdout) == (0, "")


async def test_the_demonstration_needs_one_command_and_is_filled_once(tmp_path: Path) -> None:
    variables = {"KNOWLEDGE_HOME": str(tmp_path / "home"), "EMBEDDING_BACKEND": "hash"}
    titles: list[list[str]] = []
    for _ in range(2):
        async with connected(variables, "--demo") as client:
            items = (await call(client, "kl_brief"))["data"]["items"]
            titles.append(sorted(item["title"] for item in items))
            found = (await call(client, "kl_search", question="where is the water turned off"))["data"]["results"]
            assert found[0]["id"] == "demo:stopcock"
    assert titles[0] == titles[1]
    assert {item["compartment"] for item in items} == {"home", "work", "divorce"}
