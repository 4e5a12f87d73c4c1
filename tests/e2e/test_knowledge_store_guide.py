"""docs/guides/KNOWLEDGE-STORE.md: every block of code is run, and says what stands beneath it."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from knowledge.sync.config import parse
from local.settings import CHECKOUT
from tests.e2e.conftest import Stack

GUIDE = CHECKOUT / "docs" / "guides" / "KNOWLEDGE-STORE.md"
RUN = ("python", "shell", "yaml", "text")


class Block(NamedTuple):
    line: int
    language: str
    text: str


def blocks() -> list[Block]:
    guide = GUIDE.read_text(encoding="utf-8")
    found = re.finditer(r"^```(\w*)\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    return [Block(guide.count("\n", 0, each.start()) + 2, each[1], each[2]) for each in found]


@pytest.fixture
def plugin(empty_stack: Stack, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    """The environment that the platform gives a plugin."""
    monkeypatch.setenv("SPOT_KNOWLEDGE_URL", empty_stack.api)
    monkeypatch.setenv("SPOT_INTERNAL_API_KEY", empty_stack.key)
    yield empty_stack
    empty_stack.post("/delete", {"ids": sorted(empty_stack.ids("policy"))})


@pytest.mark.timeout(180)
def test_every_block_is_run_and_says_what_stands_beneath_it(plugin: Stack, tmp_path: Path) -> None:
    names: dict[str, object] = {"__name__": "guide"}
    said = ""
    for block in blocks():
        assert block.language in RUN, block
        if block.language == "python":
            code = compile("\n" * (block.line - 1) + block.text, str(GUIDE), "exec")
            with contextlib.redirect_stdout(io.StringIO()) as stdout:
                exec(code, names)
            said = stdout.getvalue()
        elif block.language == "text":
            assert said == block.text, f"line {block.line}"
        elif block.language == "yaml":
            config = parse(block.text)
            assert config.providers or config.stages
        else:
            path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
            ran = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", block.text],
                env={**os.environ, "PATH": path, "HOME": str(tmp_path)},
                capture_output=True,
                text=True,
                check=False,
            )
            assert ran.returncode == 0, ran.stdout + ran.stderr
            assert "Paying invoices" in ran.stdout
            assert '"guide:9#chunk-0"' in ran.stdout
    assert {block.language for block in blocks()} == set(RUN)


def test_each_promise_of_output_follows_code() -> None:
    languages = [block.language for block in blocks()]
    assert all(languages[at - 1] == "python" for at, language in enumerate(languages) if language == "text")
    assert languages.count("text") == languages.count("python")
