"""Make a virtual environment hold exactly what a lock file says, and do nothing when it already does.

    python tools/environment.py .venv locks/run.txt --workspace

Standard library only, since it runs before anything is installed. What was installed is written into the environment
after the last step, so an interrupted run is simply done again; two runs at once wait for each other. An environment
made by another Python version, or in a checkout that has moved since, is made anew.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
SIGN_OF_LIFE_S = 15


def digest(*files: Path) -> str:
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()


@contextlib.contextmanager
def alone(environment: Path) -> Iterator[None]:
    """Hold the lock of this environment; it stands beside it, because making it anew empties the folder."""
    with environment.with_name(environment.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def identity(environment: Path) -> dict[str, str]:
    """What decides whether an environment can be kept. Asked from inside it, its own Python is the one wanted."""
    return {"python": f"{sys.version_info.major}.{sys.version_info.minor}", "place": str(environment)}


def read(record: Path) -> dict[str, str]:
    try:
        return json.loads(record.read_text())
    except (OSError, ValueError):
        return {}


def write(record: Path, content: dict[str, str]) -> None:
    fresh = record.with_name(record.name + ".new")
    fresh.write_text(json.dumps(content))
    fresh.replace(record)


def make(environment: Path) -> None:
    print(f"making {environment.name} with Python {sys.version.split()[0]}", flush=True)
    try:
        venv.create(environment, clear=True, with_pip=True)
    except subprocess.CalledProcessError:
        sys.exit("Python cannot make virtual environments here; on Debian and Ubuntu: apt install python3-venv")


def run_patiently(command: list[str]) -> int:
    """Run it and return its exit code, saying now and then that it is still at it: pip is silent for minutes."""
    started = time.monotonic()
    with subprocess.Popen(command) as process:
        while True:
            try:
                return process.wait(SIGN_OF_LIFE_S)
            except subprocess.TimeoutExpired:
                print(f"  {time.monotonic() - started:.0f} s; pip is still downloading and unpacking", flush=True)


def install(environment: Path, lock: Path, *, workspace: bool) -> None:
    pip = [str(environment / "bin" / "python"), "-I", "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
    packages = sum("==" in line or " @ " in line for line in lock.read_text(encoding="utf-8").splitlines())
    print(f"installing {packages} packages of {lock.relative_to(CHECKOUT)} into {environment.name}", flush=True)
    steps = [[*pip, "--no-deps", "--require-hashes", "--requirement", str(lock)]]
    if workspace:
        steps.append([*pip, "--no-deps", "--no-index", "--no-build-isolation", "--editable", str(CHECKOUT)])
    for step in steps:
        if code := run_patiently(step):
            sys.exit(
                f"pip could not install {lock.relative_to(CHECKOUT)} (exit code {code}); its own words stand above"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environment", type=Path)
    parser.add_argument("lock", type=Path)
    parser.add_argument("--workspace", action="store_true", help="install this checkout itself as well, editable")
    arguments = parser.parse_args()
    environment: Path = arguments.environment.absolute()
    lock: Path = arguments.lock.resolve()

    with alone(environment):
        made, installed = environment / "made.json", environment / f"installed-{lock.stem}.json"
        if read(made) != identity(environment):
            make(environment)
            write(made, identity(environment))
        sources = [lock, CHECKOUT / "pyproject.toml"] if arguments.workspace else [lock]
        wanted = {"sha256": digest(*sources)}
        if read(installed) != wanted:
            install(environment, lock, workspace=arguments.workspace)
            write(installed, wanted)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
