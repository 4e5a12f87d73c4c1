"""The SDK as plugins get it: a wheel of its own, which needs pydantic and httpx and nothing else."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[3] / "layers" / "spot_sdk"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-P", "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=PACKAGE, check=True, capture_output=True)
    [wheel] = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which only the wheel, pydantic, httpx and what these two need can be imported."""
    folder = tmp_path_factory.mktemp("site")
    zipfile.ZipFile(wheel).extractall(folder)
    for name in with_dependencies("pydantic", "httpx"):
        for file in distribution(name).files or []:
            top = file.parts[0]
            if top not in ("..", "__pycache__") and not (folder / top).exists():
                (folder / top).symlink_to(distribution(name).locate_file(top))
    return folder


def with_dependencies(*names: str) -> set[str]:
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        for requirement in distribution(name).requires or []:
            if ";" not in requirement:
                waiting.append("".join(c if c.isalnum() or c in "-_" else " " for c in requirement).split()[0])
    return found | {"typing_extensions"}


def run_in(site: Path, code: str) -> str:
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(site)!r})\n{code}"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_its_name_and_version_and_dependencies(wheel: Path):
    assert wheel.name == "spot_sdk-2.20.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read("spot_sdk-2.20.0.dist-info/METADATA").decode()
        names = set(archive.namelist())
    required = [line for line in metadata.splitlines() if line.startswith("Requires-Dist") and "extra ==" not in line]
    assert [line.split()[1].partition("<")[0] for line in required] == ["httpx", "pydantic"]
    modules = {f"spot_sdk/{path.relative_to(PACKAGE).as_posix()}" for path in PACKAGE.rglob("*.py")}
    assert {name for name in names if ".dist-info/" not in name} == {*modules, "spot_sdk/py.typed"}


def test_every_module_imports_with_nothing_else_installed(site: Path):
    modules = sorted(
        "spot_sdk." + ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        for path in PACKAGE.rglob("*.py")
        if path.name != "__init__.py"
    )
    run_in(site, "\n".join(f"import {module}" for module in [*modules, "spot_sdk.testing"]))
    assert run_in(site, "import spot_sdk; print(spot_sdk.__file__)").startswith(str(site))


def test_the_isolation_is_real(site: Path):
    run_in(site, "import importlib.util as u; assert not any(map(u.find_spec, ['yaml', 'psycopg', 'knowledge']))")
