"""Start and stop the server of one data folder."""

from __future__ import annotations

import os
import re
import signal
import socket
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from local.locks import FileLock
from local.postgres import cluster
from local.postgres.account import hand_over, server_account
from local.postgres.binaries import Binaries, binaries_for
from local.postgres.cluster import Access
from local.postgres.orphans import stop_orphans
from local.processes import Account, Child
from spot_sdk.errors import Conflict, StoreUnavailable, Unavailable

StopMode = Literal["smart", "fast", "immediate"]

_HOST = "127.0.0.1"
_START_TIMEOUT_S = 120.0  # recovery after a crash is part of the start
_STOP_TIMEOUT_S = 60.0
_PORTS_TRIED = 5
_SHARED_MEMORY_WANTED = 1 << 30
_PORT_TAKEN = "could not bind"

_SETTINGS = {
    "listen_addresses": _HOST,
    "unix_socket_directories": "",
    "shared_buffers": "256MB",
    "effective_cache_size": "1GB",
    "work_mem": "16MB",
    "maintenance_work_mem": "512MB",  # an HNSW graph that does not fit is built several times slower
    "autovacuum_work_mem": "64MB",
    "max_connections": "100",
    "random_page_cost": "1.1",
    "jit": "off",
    "wal_level": "minimal",  # nobody replicates from here
    "max_wal_senders": "0",
    "max_wal_size": "2GB",
    "wal_compression": "on",
    "log_destination": "stderr",
    "logging_collector": "off",  # stderr is ours to write and to rotate
    "log_line_prefix": "%m [%p] ",
    "log_checkpoints": "off",
    "lc_messages": "C",
    "log_timezone": "UTC",
    "timezone": "UTC",
}
_FORGETFUL_SETTINGS = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}
_STOP_SIGNALS: dict[StopMode, signal.Signals] = {
    "smart": signal.SIGTERM,
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
}


class EmbeddedPostgres:
    """PostgreSQL 18 with pgvector on a data folder, reached over TCP on 127.0.0.1 with a password (scram-sha-256).

    The first start makes the folder, with a database ``knowledge`` and a role ``knowledge`` that owns it. Beside the
    folder lie ``<name>.json`` (port and passwords, mode 0600) and ``<name>.lock``. Nothing that was committed is lost
    when the server or this process is killed, unless ``durable`` is False, which is for tests.

    Start it from the main thread: then the kernel stops the server should this process be killed (on Linux). Where it
    could not, the next start finds the orphan and stops it.
    """

    def __init__(
        self, data_dir: Path, *, port: int | None = None, log_path: Path | None = None, durable: bool = True
    ) -> None:
        """``port`` None takes a free one and keeps it while it can; ``log_path`` None is in ``logs/`` beside."""
        self.data_dir = data_dir.absolute()
        self.log_path = log_path or self.data_dir.parent / "logs" / "postgres.log"
        self._wanted_port = port
        self._durable = durable
        self._access_path = self.data_dir.with_name(f"{self.data_dir.name}.json")
        self._lock = FileLock(self.data_dir.with_name(f"{self.data_dir.name}.lock"), guards=str(self.data_dir))
        self._access: Access | None = None
        self._child: Child | None = None

    @property
    def dsn(self) -> str:
        """The address of the application's database, password included; StoreUnavailable before a first start."""
        access = self._access or Access.read(self._access_path)
        return f"postgresql://{cluster.ROLE}:{access.password}@{_HOST}:{access.port}/{cluster.DATABASE}"

    @property
    def superuser_dsn(self) -> str:
        """The same database for its superuser, for what the application's role may not do (``amcheck``, say)."""
        access = self._access or Access.read(self._access_path)
        return f"postgresql://{cluster.SUPERUSER}:{access.superuser_password}@{_HOST}:{access.port}/{cluster.DATABASE}"

    @property
    def child(self) -> Child:
        """The running server."""
        if self._child is None:
            raise StoreUnavailable("the server was not started")
        return self._child

    def start(self) -> None:
        """Start the server and return when it takes connections; the data folder is made when there is none.

        Raises Conflict when another stack runs on the folder or the port asked for is taken, StoreUnavailable when the
        folder is not usable: broken, of another version, or somebody else's. Nothing in it is removed.
        """
        try:
            self.data_dir.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock.acquire()
        except OSError as error:
            raise StoreUnavailable(f"{error.filename} cannot be written: {error.strerror}") from error
        try:
            self._child = self._start_on_a_port(*self._prepared())
        except OSError as error:
            raise StoreUnavailable(f"PostgreSQL cannot be started: {error}") from error
        finally:
            if self._child is None:
                self._lock.release()

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server, ``fast`` by default: open transactions are rolled back, all that was committed is kept.

        ``smart`` waits for clients to leave, ``immediate`` leaves recovery to the next start. Nothing happens when it
        does not run.
        """
        if self._child is None:
            return
        self._child.stop(_STOP_SIGNALS[mode], signal.SIGQUIT, grace_s=_STOP_TIMEOUT_S)
        self._child = None
        self._lock.release()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _prepared(self) -> tuple[Binaries, Account | None]:
        """The data folder there and usable, ``self._access`` known; with what and as whom to run it."""
        account = server_account(self.data_dir)
        binaries = binaries_for(account)
        if cluster.has_cluster(self.data_dir, binaries):
            stop_orphans(self.data_dir)
            self._access = Access.read(self._access_path)
            if account is not None and self.data_dir.stat().st_uid != account.uid:
                hand_over(self.data_dir, account)
        else:
            self._access = Access(_free_port(), cluster.new_password(), cluster.new_password())
            cluster.create_cluster(self.data_dir, self._access, self._access_path, account, durable=self._durable)
        return binaries, account

    def _start_on_a_port(self, binaries: Binaries, account: Account | None) -> Child:
        assert self._access is not None
        port = self._wanted_port or self._access.port
        for _ in range(_PORTS_TRIED):
            child = self._launch(binaries, account, port)
            try:
                child.wait_until_ready(_START_TIMEOUT_S)
            except BaseException as error:
                child.stop(signal.SIGINT, signal.SIGQUIT)
                if not isinstance(error, Unavailable):
                    raise
                if not any(_PORT_TAKEN in line for line in child.last_lines):
                    raise StoreUnavailable(_reason(child) or str(error)) from error
                if self._wanted_port is not None:
                    raise Conflict(f"port {port} is taken; PostgreSQL needs another") from error
                port = _free_port()
                continue
            if port != self._access.port:
                self._access = replace(self._access, port=port)
                self._access.write(self._access_path)
            return child
        raise StoreUnavailable(f"no free port for PostgreSQL on {_HOST} after {_PORTS_TRIED} tries")

    def _launch(self, binaries: Binaries, account: Account | None, port: int) -> Child:
        settings = _SETTINGS | {"port": str(port), "dynamic_shared_memory_type": _shared_memory_type()}
        if not self._durable:
            settings |= _FORGETFUL_SETTINGS
        with cluster.reachable(self.data_dir, account) as (path, descriptors):
            return Child.start(
                "PostgreSQL",
                [
                    binaries.postgres,
                    "-D",
                    path,
                    *(part for name, value in settings.items() for part in ("-c", f"{name}={value}")),
                ],
                log_path=self.log_path,
                ready_text="database system is ready to accept connections",
                account=account,
                death_signal=signal.SIGINT,
                environment=cluster.ENVIRONMENT,
                pass_fds=descriptors,
            )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return int(probe.getsockname()[1])


def _shared_memory_type() -> str:
    """``posix``, unless /dev/shm is as small as containers have it (64 MB): index builds in parallel need more."""
    try:
        status = os.statvfs("/dev/shm")  # noqa: S108 - only measured
    except OSError:
        return "posix"
    return "posix" if status.f_bavail * status.f_frsize >= _SHARED_MEMORY_WANTED else "mmap"


def _reason(child: Child) -> str | None:
    """PostgreSQL's own words on why it did not start, as one line."""
    for line in reversed(child.last_lines):
        match = re.search(r"\b(?:FATAL|PANIC|ERROR):\s+(.*)", line)
        if match:
            return f"PostgreSQL does not start on its data folder: {match[1]} (log: {child.log_path})"
    return None
