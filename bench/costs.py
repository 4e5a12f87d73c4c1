"""What running costs besides a query's time: memory of the database server, and starting the query function."""

from __future__ import annotations

import subprocess
import sys
import time

import psutil


def server_rss_mb(pid: int) -> float:
    """Resident memory of the PostgreSQL server ``pid`` and its backends; pages that they share count in each."""
    server = psutil.Process(pid)
    return sum(process.memory_info().rss for process in (server, *server.children(recursive=True))) / 2**20


def cold_start_s(attempts: int = 3) -> float:
    """The least time of some to start an interpreter and import the query handler."""
    return min(_import_s() for _ in range(attempts))


def _import_s() -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import functions.query.app"], check=True)
    return time.perf_counter() - started
