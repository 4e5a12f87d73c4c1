"""Hangs up on a database that does not answer by the deadline: a server that is frozen keeps no time-out of its own."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from threading import Condition, Thread
from typing import Protocol

_GRACE_S = 0.3
"""The server's own time-out says more than a broken connection, so it goes first."""


class Line(Protocol):
    """A connection that has a socket."""

    def fileno(self) -> int: ...


class Watchdog:
    """Watches one connection at a time, from a thread that sleeps unless a deadline comes.

    A deadline that is later than the one slept towards wakes nobody, so that watching a request costs next to nothing.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._line: Line | None = None
        self._until = 0.0
        self._wakes_at: float | None = None
        self._thread: Thread | None = None

    @contextmanager
    def watch(self, line: Line, seconds: float | None) -> Generator[None]:
        """Break the connection off when the block takes longer than ``seconds`` and a moment; None watches nothing."""
        if seconds is None:
            yield
            return
        with self._changed:
            self._line, self._until = line, time.monotonic() + seconds + _GRACE_S
            if self._thread is None or not self._thread.is_alive():  # none yet, or none in a process that was forked
                self._wakes_at = None
                self._thread = Thread(target=self._sleep, name="database-watchdog", daemon=True)
                self._thread.start()
            elif self._wakes_at is None or self._until < self._wakes_at:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._line = None

    def _sleep(self) -> None:
        with self._changed:
            while True:
                if self._line is None:
                    self._wakes_at = None
                elif time.monotonic() < self._until:
                    self._wakes_at = self._until
                else:
                    _hang_up(self._line)
                    self._line = self._wakes_at = None
                self._changed.wait(None if self._wakes_at is None else self._wakes_at - time.monotonic())


def _hang_up(line: Line) -> None:
    """Whoever waits for the server finds the connection lost."""
    with suppress(OSError), socket.socket(fileno=os.dup(line.fileno())) as waiting:
        waiting.shutdown(socket.SHUT_RDWR)
