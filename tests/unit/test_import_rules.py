"""The import contracts of pyproject.toml catch what they are there to catch: forbidden imports, planted in a copy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
PACKAGES = (
    "layers/spot_sdk",
    "layers/knowledge",
    "functions",
    "local",
    "cli",
    "console",
    "mcp_server",
    "examples/providers",
    "examples/analyzers",
    "examples/workflow",
)
CONTRACTS = [
    contract["name"]
    for contract in tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
]

# Where a module is planted, what it says, and the contract that this breaks.
OFFENCES = [
    ("spot_sdk", "import knowledge.settings", "spot_sdk imports nothing of ours"),
    ("spot_sdk", "def late():\n    import local.settings", "spot_sdk imports nothing of ours"),
    ("knowledge", "import functions.query.app", "knowledge imports only spot_sdk of ours"),
    ("functions.query", "import boto3", "functions import knowledge and spot_sdk only"),
    ("functions.query", "import psycopg", "functions import knowledge and spot_sdk only"),
    ("functions.admin", "import local.settings", "functions import knowledge and spot_sdk only"),
    ("functions.query", "import functions.upsert.app", "functions do not know each other"),
    (
        "knowledge.search",
        "import knowledge.documents.store",
        "search, tags, embedding and db know nothing of the rooms that use them",
    ),
    (
        "knowledge.embedding",
        "import knowledge.wiring",  # which imports documents
        "search, tags, embedding and db know nothing of the rooms that use them",
    ),
    (
        "knowledge.search",
        "import knowledge.items.store",
        "search, tags, embedding and db know nothing of the rooms that use them",
    ),
    ("knowledge.items", "import knowledge.documents.store", "documents and items do not know each other"),
    ("knowledge.documents", "import knowledge.items.model", "documents and items do not know each other"),
    ("knowledge.items", "import psycopg", "only stores and db touch psycopg"),
    ("knowledge.documents", "import psycopg.rows", "only stores and db touch psycopg"),
    ("cli", "import psycopg", "only stores and db touch psycopg"),
    ("local", "import cli.exits", "nothing imports a leaf"),
    ("knowledge", "import local.settings", "nothing imports a leaf"),
    ("local", "import examples.providers.service", "nothing imports a leaf"),
    ("console", "import knowledge.settings", "the console knows the SDK only"),
    ("local", "import console.session", "nothing but its function imports the console"),
    ("mcp_server", "import knowledge.documents.store", "the MCP server knows the items only"),
    ("mcp_server", "import psycopg", "the MCP server knows the items only"),
    ("examples.providers", "import knowledge.settings", "example providers know the SDK only, as anybody's do"),
    ("local", "import examples.analyzers.settings", "nothing imports a leaf"),
    ("examples.analyzers", "import knowledge.settings", "example analyzers know the SDK only, as anybody's do"),
    (
        "examples.workflow",
        "import examples.analyzers.settings",
        "the example workflow knows the SDK only, and no analyzer",
    ),
    ("examples.analyzers.llm", "import examples.analyzers.rules.weights", "example analyzers do not know each other"),
]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What import-linter says of each broken contract, in a copy of the code that holds every offence."""
    tree = tmp_path_factory.mktemp("checkout")
    for package in PACKAGES:
        shutil.copytree(CHECKOUT / package, tree / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(CHECKOUT / "pyproject.toml", tree)
    for number, (package, text, _) in enumerate(OFFENCES):
        top = tree / "layers" if package.partition(".")[0] in ("spot_sdk", "knowledge") else tree
        (top / package.replace(".", "/") / f"offence_{number}.py").write_text(text + "\n")

    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tree), str(tree / "layers")])}
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as lint; lint()", "--no-cache"]
    run = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 1, run.stdout + run.stderr
    _, _, details = run.stdout.partition("Broken contracts")
    starts = sorted((details.find(f"\n{name}\n---"), name) for name in CONTRACTS)
    ends = [start for start, _ in starts[1:]] + [len(details)]
    return {name: details[start:end] for (start, name), end in zip(starts, ends, strict=True) if start >= 0}


@pytest.mark.parametrize("number", range(len(OFFENCES)))
def test_a_forbidden_import_is_caught(report: dict[str, str], number: int) -> None:
    package, _, contract = OFFENCES[number]
    assert f"{package}.offence_{number} -> " in report[contract]


def test_each_contract_is_shown_to_catch_something() -> None:
    assert {contract for _, _, contract in OFFENCES} == set(CONTRACTS)
