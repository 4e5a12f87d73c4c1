"""Record a session of the official MCP client with `knowledge mcp --demo` in docs/reference/mcp-session.md.

    .venv/bin/python tools/mcp_transcript.py

Starts the demonstration in a temporary folder. Ids and moments, which differ each time, are written as <id> and <time>.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

from local.settings import CHECKOUT, child_environment

TARGET = CHECKOUT / "docs" / "reference" / "mcp-session.md"
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("kl_brief", {"scope": ["work"]}),
    ("kl_search", {"question": "where is the water turned off", "limit": 1}),
    ("kl_get", {"id": "demo:stopcock"}),
    ("kl_ask", {"question": "what does the depot charge", "types": ["document"], "limit": 1}),
    (
        "kl_store",
        {
            "type": "fact",
            "title": "The stopcock was replaced",
            "body": {"text": "It is a lever now; down is shut."},
            "compartment": "home",
            "links": [{"to": "demo:stopcock", "relation": "updates"}],
        },
    ),
    ("kl_store", {"type": "fact", "title": "x", "body": {"text": "x"}, "compartment": "office"}),
    ("kl_link", {"from_id": "demo:stopcock", "to_id": "nothing", "relation": "about"}),
    ("kl_get", {"id": "demo:stopcock", "identity": "somebody else"}),
    ("kl_delete", {"id": "demo:stopcock"}),
    ("kl_get", {"id": "demo:stopcock"}),
]


def same_each_time(text: str) -> str:
    text = re.sub(r"\b[0-9a-f]{32}\b", "<id>", text)
    return re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|\+00:00)", "<time>", text)


def shown(result: Any) -> str:
    content = json.loads(result.content[0].text)
    if "notice" in content:
        content["notice"] = content["notice"].partition(".")[0] + ". ..."
    return same_each_time(json.dumps(content, ensure_ascii=False, indent=1))


async def record(home: Path) -> list[str]:
    code = "import sys; sys.argv = ['knowledge', 'mcp', '--demo']; from cli.main import main; main()"
    environment = child_environment(KNOWLEDGE_HOME=str(home), EMBEDDING_BACKEND="hash")
    lines: list[str] = []
    async with Client(StdioServerParameters(command=sys.executable, args=["-c", code], env=environment)) as client:
        tools = (await client.list_tools()).tools
        lines += [
            "The owner is offered:",
            "",
            *(f"- `{tool.name}`: {first_line(tool.description)}" for tool in tools),
            "",
        ]
        for tool, arguments in CALLS:
            result = await client.call_tool(tool, arguments)
            lines += [
                f"## {tool}",
                "",
                *block(json.dumps(arguments, ensure_ascii=False)),
                "",
                *block(shown(result)),
                "",
            ]
    return lines


def first_line(text: str | None) -> str:
    return (text or "").partition("\n")[0]


def block(text: str) -> Iterator[str]:
    yield "```json"
    yield from text.splitlines()
    yield "```"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        lines = asyncio.run(record(Path(folder) / "home"))
    head = [
        "# A session over MCP",
        "",
        "Recorded by `tools/mcp_transcript.py`: the official client, `knowledge mcp --demo`, real stdio. What is sent,",
        "and what comes back.",
        "",
    ]
    TARGET.write_text("\n".join([*head, *lines]).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
