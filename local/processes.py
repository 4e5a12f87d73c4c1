"""Child processes: started so that they die with us, listened to, stopped within a bound."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from logging.handlers import RotatingFileHandler
from pathlib import Path

import psutil
from pydantic import BaseModel

from spot_sdk.errors import Unavailable

_EXEC_CHILD = Path(__file__).with_name("exec_child.py")
_LOG_BYTES = 5_000_000
_LOG_FILES_KEPT = 3
_LINES_REMEMBERED = 50
_LIVENESS_CHECK_S = 0.1
_LAST_WORDS_S = 1.0
_CLOCK_PRECISION_S = 10.0  # start times are kept relative to a boot time that clock corrections move


@dataclass(frozen=True, slots=True)
class Account:
    """The numeric user and group that a child runs under."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Terms:
    """What ``exec_child`` does before it becomes the program."""

    uid: int | None
    gid: int | None
    death_signal: int | None
    """Sent to the child by the kernel when we die; None where there is no such thing."""
    parent: int
    nameless: bool
    """Lend a user without an entry in /etc/passwd the name of the overflow user (see ``postgres.cluster``)."""


def child_command(
    program: Sequence[str | Path],
    *,
    account: Account | None = None,
    death_signal: signal.Signals = signal.SIGTERM,
    nameless: bool = False,
) -> list[str]:
    """The command that runs ``program`` (its path first) under ``account``, bound to this process's life.

    Linux ties a death signal to the thread that starts the child, and threads other than the main one may end early:
    children started from those are not bound.
    """
    bound = sys.platform == "linux" and threading.current_thread() is threading.main_thread()
    terms = Terms(
        uid=account.uid if account else None,
        gid=account.gid if account else None,
        death_signal=int(death_signal) if bound else None,
        parent=os.getpid(),
        nameless=nameless,
    )
    return [sys.executable, "-I", "-S", str(_EXEC_CHILD), json.dumps(asdict(terms)), *map(str, program)]


class ProcessMark(BaseModel):
    """Tells one process from another that got its number later."""

    pid: int
    started: float
    """Seconds since the epoch."""
    program: list[str]

    @classmethod
    def of(cls, pid: int) -> ProcessMark:
        process = psutil.Process(pid)
        return cls(pid=pid, started=process.create_time(), program=process.cmdline())

    def stop(self, *, grace_s: float = 10.0) -> None:
        """Stop the process if it still is the one that was marked; nothing happens when it has ended."""
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(self.pid)
            if abs(process.create_time() - self.started) > _CLOCK_PRECISION_S or process.cmdline() != self.program:
                return
            process.terminate()
            try:
                process.wait(grace_s)
            except psutil.TimeoutExpired:
                process.kill()
                process.wait(grace_s)


class Child:
    """A running child process whose output goes, line by line, to a log file that is rotated at 5 MB.

    It runs in a session of its own, so that Ctrl-C in the terminal reaches only us and we decide the order of
    stopping. Only its pid is ever signalled.
    """

    def __init__(self, name: str, process: subprocess.Popen[bytes], *, log_path: Path, ready_text: str) -> None:
        self.name = name
        self.log_path = log_path
        self._process = process
        self._ready_text = ready_text
        self._ready_line: str | None = None
        self._last_lines: deque[str] = deque(maxlen=_LINES_REMEMBERED)
        self._line_read = threading.Condition()
        self._reader = threading.Thread(target=self._read_output, name=f"{name}-output", daemon=True)
        self._reader.start()

    @classmethod
    def start(
        cls,
        name: str,
        program: Sequence[str | Path],
        *,
        log_path: Path,
        ready_text: str,
        account: Account | None = None,
        death_signal: signal.Signals = signal.SIGTERM,
        environment: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> Child:
        """Start ``program`` (its path first), which is ready once a line of its output contains ``ready_text``.

        ``environment`` None is ours; ``pass_fds`` keep their numbers.
        """
        log_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        process = subprocess.Popen(  # noqa: S603 - our own programs
            child_command(program, account=account, death_signal=death_signal),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            pass_fds=pass_fds,
            start_new_session=True,
        )
        return cls(name, process, log_path=log_path, ready_text=ready_text)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def last_lines(self) -> list[str]:
        """The end of its output, oldest line first."""
        with self._line_read:
            return list(self._last_lines)

    def wait_until_ready(self, timeout_s: float) -> str:
        """The line that says it is ready.

        Raises Unavailable when the child ends first, or when ``timeout_s`` have passed.
        """
        deadline = time.monotonic() + timeout_s
        with self._line_read:
            while self._ready_line is None and self.running and time.monotonic() < deadline:
                self._line_read.wait(_LIVENESS_CHECK_S)
            if self._ready_line is not None:
                return self._ready_line
        if not self.running:
            raise Unavailable(self.obituary())
        raise Unavailable(f"{self.name} was not ready within {timeout_s:.0f} s; its output is in {self.log_path}")

    def wait(self) -> int:
        """Wait for its end; its exit code, negative for a signal."""
        code = self._process.wait()
        self._reader.join(_LAST_WORDS_S)
        return code

    def ending(self) -> str:
        """Wait for its end; how that came, in a few words."""
        code = self.wait()
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return f"{self.name} {how}"

    def obituary(self) -> str:
        """Wait for its end; one line on how that came, with the last thing that it said."""
        ending = self.ending()
        said = next((line.strip() for line in reversed(self.last_lines) if line.strip()), None)
        return ending + (f": {said}" if said else "") + f" (log: {self.log_path})"

    def stop(self, *signals: signal.Signals, grace_s: float = 10.0) -> int:
        """Stop it and return its exit code: each signal (default SIGTERM) in turn, ``grace_s`` apart, then SIGKILL."""
        for each in signals or (signal.SIGTERM,):
            self._process.send_signal(each)
            try:
                self._process.wait(grace_s)
                break
            except subprocess.TimeoutExpired:
                continue
        else:
            self._process.kill()
        return self.wait()

    def _read_output(self) -> None:
        output = self._process.stdout
        assert output is not None
        log = RotatingFileHandler(
            self.log_path, maxBytes=_LOG_BYTES, backupCount=_LOG_FILES_KEPT, encoding="utf-8", delay=True
        )
        with output:
            for raw in output:
                line = raw.decode("utf-8", "replace").rstrip("\r\n")
                log.emit(logging.makeLogRecord({"msg": line}))
                with self._line_read:
                    self._last_lines.append(line)
                    if self._ready_line is None and self._ready_text in line:
                        self._ready_line = line
                    self._line_read.notify_all()
        log.close()
