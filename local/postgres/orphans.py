"""Servers that lost their supervisor, found by what they do and not by what a pid file says."""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path

import psutil

from spot_sdk.errors import StoreUnavailable

_PATIENCE_S = 20.0


def stop_orphans(data_dir: Path) -> None:
    """Stop every process of PostgreSQL that works in ``data_dir``, and remove a pid file that nobody stands behind.

    Call it while holding the folder's lock: whoever is found then has no supervisor. A pid file alone proves nothing:
    after a crash its number may be a zombie's, or another program's.

    Raises StoreUnavailable when one does not end.
    """
    orphans = _processes_in(data_dir)
    ids = {orphan.pid for orphan in orphans}
    heads = [orphan for orphan in orphans if _parent(orphan) not in ids]
    for how in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
        for orphan in heads if how is not signal.SIGKILL else orphans:
            with suppress(psutil.NoSuchProcess):
                orphan.send_signal(how)
        _, remaining = psutil.wait_procs(orphans, timeout=_PATIENCE_S)
        orphans = [orphan for orphan in remaining if _works_in(orphan, data_dir)]
        if not orphans:
            break
    else:
        raise StoreUnavailable(f"an older PostgreSQL server (pid {orphans[0].pid}) in {data_dir} does not end")
    (data_dir / "postmaster.pid").unlink(missing_ok=True)


def _processes_in(data_dir: Path) -> list[psutil.Process]:
    """Live processes named ``postgres`` with ``data_dir`` as working directory, which all of a server's have."""
    if not data_dir.is_dir():
        return []
    return [process for process in psutil.process_iter(["name"]) if _works_in(process, data_dir)]


def _works_in(process: psutil.Process, data_dir: Path) -> bool:
    try:
        return (
            process.name() == "postgres"
            and process.status() != psutil.STATUS_ZOMBIE
            and Path(process.cwd()).samefile(data_dir)
        )
    except (psutil.Error, OSError):  # ended meanwhile, or another user's
        return False


def _parent(process: psutil.Process) -> int | None:
    try:
        return process.ppid()
    except psutil.NoSuchProcess:
        return None
