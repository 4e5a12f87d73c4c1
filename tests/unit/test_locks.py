"""The locks: pinned with hashes, naming no host, agreeing with each other, and enough for what runs on them."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

CHECKOUT = Path(__file__).resolve().parents[2]
LOCKS = ("run", "dev", "layer", "sam", "scan", "bench", "providers", "localstack")
OURS = {
    "spot_sdk",
    "knowledge",
    "functions",
    "local",
    "cli",
    "console",
    "mcp_server",
    "examples",
    "tests",
    "bench",
    "eval",
}
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())


def locked(name: str) -> dict[str, str]:
    """Package and version of each line of a lock."""
    pins = re.findall(r"^([a-z0-9-]+)==([^\s;]+)", lock_text(name), re.MULTILINE)
    return dict(pins)


def lock_text(name: str) -> str:
    return (CHECKOUT / "locks" / f"{name}.txt").read_text()


def left_out() -> set[str]:
    lines = lock_text("left-out").splitlines()
    return {line.partition("#")[0].strip() for line in lines} - {""}


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_names_no_host_and_no_place(name: str) -> None:
    text = lock_text(name)
    assert not re.findall(r".*(?:://|--(?:extra-)?index-url|--find-links).*", text)
    assert not re.findall(r"(?:^|\s)[/~]\w.*", text, re.MULTILINE)


@pytest.mark.parametrize("name", LOCKS)
def test_every_line_of_a_lock_is_pinned_and_hashed(name: str) -> None:
    entries = re.split(r"^(?=[^\s#])", lock_text(name), flags=re.MULTILINE)[1:]
    assert len(entries) == len(locked(name)) > 5
    assert not [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry]


@pytest.mark.parametrize(
    ("name", "requirements"),
    [
        ("run", [*PROJECT["project"]["dependencies"], *PROJECT["dependency-groups"]["workspace"]]),
        ("dev", PROJECT["dependency-groups"]["dev"]),
        ("sam", PROJECT["dependency-groups"]["sam"]),
        ("scan", PROJECT["dependency-groups"]["scan"]),
        ("bench", PROJECT["dependency-groups"]["bench"]),
        ("providers", PROJECT["dependency-groups"]["providers"]),
        ("localstack", PROJECT["dependency-groups"]["localstack"]),
        ("layer", re.findall(r"^[a-z].*", (CHECKOUT / "layers" / "requirements.in").read_text(), re.MULTILINE)),
    ],
)
def test_a_lock_holds_what_is_declared_in_a_version_that_is_allowed(name: str, requirements: list[str]) -> None:
    pins = locked(name)
    for requirement in map(Requirement, requirements):
        version = pins.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement}: run `make lock`"
        assert requirement.specifier.contains(version, prereleases=True), f"{requirement}: run `make lock`"


@pytest.mark.parametrize(("name", "of"), [("run", "dev"), ("layer", "run"), ("providers", "run")])
def test_one_package_has_one_version_wherever_our_code_runs(name: str, of: str) -> None:
    assert locked(name).items() <= locked(of).items()


@pytest.mark.parametrize("name", ["run", "dev"])
def test_what_is_left_out_is_not_locked(name: str) -> None:
    assert left_out()
    assert not left_out() & locked(name).keys()


def imports(file: Path) -> set[str]:
    """Top-level names that a module imports at run time, late imports included."""
    found: set[str] = set()
    for node in runtime_nodes(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def runtime_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those that only a type checker sees."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        yield child
        yield from runtime_nodes(child)


def third_party(*folders: str) -> Iterator[tuple[str, str]]:
    """Module file and distribution, for each import of a package that is neither ours nor Python's."""
    distributions = importlib.metadata.packages_distributions()
    for folder in folders:
        for file in sorted((CHECKOUT / folder).rglob("*.py")):
            for name in sorted(imports(file) - OURS - sys.stdlib_module_names):
                yield file.relative_to(CHECKOUT).as_posix(), canonicalize_name(distributions.get(name, [name])[0])


def test_the_sdk_needs_pydantic_and_httpx_and_for_front_matter_yaml() -> None:
    used = list(third_party("layers/spot_sdk"))
    assert ("layers/spot_sdk/documents.py", "pydantic") in used
    assert {distribution for _, distribution in used} <= {"pydantic", "httpx", "pyyaml"}
    assert {file for file, distribution in used if distribution == "pyyaml"} <= {"layers/spot_sdk/front_matter.py"}


def test_running_imports_nothing_that_the_run_lock_lacks() -> None:
    """Tests run in the larger environment, so a package that only tests install would go unnoticed otherwise."""
    pins = locked("run")
    used = list(third_party("layers", "functions", "local", "cli", "console", "mcp_server", "examples"))
    assert ("layers/knowledge/db/migrate.py", "psycopg") in used
    assert not [(file, distribution) for file, distribution in used if distribution not in pins]


def test_tests_import_nothing_that_the_dev_lock_lacks() -> None:
    helpers = {canonicalize_name(file.stem) for file in (CHECKOUT / "tests").rglob("*.py")}
    known = locked("dev").keys() | helpers
    used = [pair for pair in third_party("tests", "tools") if "/fixtures_functions/" not in pair[0]]
    assert ("tests/unit/test_locks.py", "pytest") in used
    assert not [(file, distribution) for file, distribution in used if distribution not in known]


def test_functions_import_nothing_that_lambda_lacks() -> None:
    """The layer and the runtime's boto3 are all there is; the embedded model, with its numpy, runs elsewhere."""
    there = locked("layer").keys() | {"boto3", "botocore"}
    elsewhere = {"layers/knowledge/embedding/minilm.py"}
    used = list(third_party("layers", "functions"))
    assert ("layers/knowledge/embedding/minilm.py", "numpy") in used
    assert not [
        (file, distribution) for file, distribution in used if distribution not in there and file not in elsewhere
    ]
