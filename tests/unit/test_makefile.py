"""The Makefile as the index of commands: complete help, clear words without Python, settings passed through."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
MAKEFILE = (CHECKOUT / "Makefile").read_text()
TARGETS = re.findall(r"^([a-z][\w-]*):(?!=)", MAKEFILE, re.MULTILINE)


def make(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], **variables}
    return subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=CHECKOUT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_help_lists_every_target_with_one_line_each() -> None:
    lines = make("help").stdout.splitlines()
    assert [line.split()[1] for line in lines] == TARGETS
    assert all(len(line.split(maxsplit=2)) == 3 and len(line) <= 120 for line in lines)


def test_make_alone_is_help() -> None:
    assert make().stdout == make("help").stdout


def test_every_target_is_phony() -> None:
    phony = re.findall(r"^\.PHONY: (.*)", MAKEFILE, re.MULTILINE)
    assert set(TARGETS) <= set(" ".join(phony).split())


@pytest.mark.parametrize("target", ["up", "demo", "test", "check", "format", "lock", "build", "validate", "clean"])
def test_the_commands_of_the_readme_exist(target: str) -> None:
    assert target in TARGETS


def test_without_a_python_that_is_new_enough_one_line_says_so(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    pretend = "import sys; sys.version_info = (3, 10, 14); exec(sys.argv[1])"
    old.write_text(f"#!/bin/sh\nexec '{sys.executable}' -c '{pretend}' \"$2\"\n")
    old.chmod(0o755)
    run = make("up", f"PYTHON={old}")
    assert run.returncode != 0
    complaint = [line for line in run.stderr.splitlines() if not line.startswith("make: ***")]
    assert complaint == [
        f"Python 3.11 or newer is needed, and none of these is: {old}. Name one: make up PYTHON=/path/to/python3"
    ]


@pytest.mark.parametrize(
    ("arguments", "variables", "seen"),
    [
        ([], {}, f"8787 {CHECKOUT}/.knowledge"),
        (["PORT=9000"], {"KNOWLEDGE_HOME": "/srv/k"}, "9000 /srv/k"),
    ],
)
def test_a_recipe_sees_port_and_home(
    tmp_path: Path, arguments: list[str], variables: dict[str, str], seen: str
) -> None:
    probe = tmp_path / "probe.mk"
    probe.write_text('probe:\n\t@echo "$$PORT $$KNOWLEDGE_HOME"\n')
    run = make("-f", "Makefile", "-f", str(probe), "probe", *arguments, **variables)
    assert run.stdout == f"{seen}\n"
