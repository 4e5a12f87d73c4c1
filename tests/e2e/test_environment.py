"""tools/environment.py on real virtual environments, with a wheel of our own so that no registry is asked."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]


class Checkout:
    """A folder with the tool, one lock and the environment that the tool makes of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = folder / ".venv"
        self.lock = folder / "locks" / "run.txt"
        for name in ("tools", "locks"):
            (folder / name).mkdir(parents=True)
        shutil.copy(CHECKOUT / "tools" / "environment.py", folder / "tools")

    def write_lock(self, version: str, *, digest: str | None = None) -> None:
        wheel = self.folder / f"sample-{version}-py3-none-any.whl"
        about = f"sample-{version}.dist-info"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("sample.py", f"version = {version!r}\n")
            archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: sample\nVersion: {version}\n")
            archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr(f"{about}/RECORD", "")
        digest = digest or hashlib.sha256(wheel.read_bytes()).hexdigest()
        self.lock.write_text(f"sample @ {wheel.as_uri()} --hash=sha256:{digest}\n")

    def install(self, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
        command = [python, "tools/environment.py", ".venv", "locks/run.txt"]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)

    def installed(self) -> str:
        program = "import sample; print(sample.version, end='')"
        python = self.environment / "bin" / "python"
        return subprocess.run([python, "-c", program], capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    checkout = Checkout(tmp_path_factory.mktemp("a checkout"))
    checkout.write_lock("1")
    first = checkout.install()
    assert first.returncode == 0, first.stderr
    return checkout


def test_the_first_run_installs_what_the_lock_says(checkout: Checkout) -> None:
    assert checkout.installed() == "1"


def test_a_second_run_has_nothing_to_do_and_says_nothing(checkout: Checkout) -> None:
    before = checkout.environment.stat().st_mtime_ns
    again = checkout.install()
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    assert checkout.environment.stat().st_mtime_ns == before


def test_asked_by_its_own_python_it_is_kept_too(checkout: Checkout) -> None:
    assert checkout.install(str(checkout.environment / "bin" / "python")).stdout == ""


def test_a_changed_lock_is_installed_into_the_same_environment(checkout: Checkout) -> None:
    checkout.write_lock("2")
    run = checkout.install()
    assert run.stdout.splitlines() == ["installing 1 packages of locks/run.txt into .venv"]
    assert checkout.installed() == "2"


def test_an_install_that_fails_or_is_interrupted_is_done_again(checkout: Checkout) -> None:
    checkout.write_lock("3", digest="0" * 64)
    failed = checkout.install()
    assert failed.returncode != 0
    assert failed.stderr.splitlines()[-1].startswith("pip could not install locks/run.txt")
    assert checkout.installed() == "2"
    checkout.write_lock("3")
    assert checkout.install().returncode == 0
    assert checkout.installed() == "3"


@pytest.mark.parametrize("changed", [{"python": "3.0"}, {"place": "/elsewhere/.venv"}])
def test_another_python_or_a_checkout_that_moved_makes_it_anew(checkout: Checkout, changed: dict[str, str]) -> None:
    made = checkout.environment / "made.json"
    made.write_text(json.dumps({**json.loads(made.read_text()), **changed}))
    left_behind = checkout.environment / "left-behind"
    left_behind.touch()
    run = checkout.install(str(checkout.environment / "bin" / "python"))
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("making .venv with Python 3.")
    assert not left_behind.exists()
    assert checkout.installed() == checkout.lock.read_text().split("sample-")[1][0]
