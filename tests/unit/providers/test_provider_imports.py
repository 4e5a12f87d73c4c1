"""A provider is written against the SDK: whoever copies one needs nothing else of ours."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import examples.providers

ALLOWED = {"examples", "spot_sdk", "anyio", "ldap3", "pydantic", "starlette", "uvicorn", "yaml"}


def imports(path: Path) -> set[str]:
    """The top-level packages that a module imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    assert not {name for name in found if name.startswith("examples") and not name.startswith("examples.providers")}
    return {name.partition(".")[0] for name in found}


def test_providers_import_the_sdk_and_libraries_only() -> None:
    modules = [*Path(examples.providers.__file__).parent.rglob("*.py")]
    assert len(modules) > 15
    assert set().union(*map(imports, modules)) - sys.stdlib_module_names <= ALLOWED
