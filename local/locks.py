"""Locks that a crash releases."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from spot_sdk.errors import Conflict


class FileLock:
    """An exclusive lock on a file, which the kernel releases when its holder ends, however it ends.

    The file holds the holder's pid and stays behind: removing it would let two holders lock two files of one name.
    """

    def __init__(self, path: Path, *, guards: str) -> None:
        """``guards`` names what is locked, for the message that another process gets."""
        self.path = path
        self._guards = guards
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock, or raise Conflict with the pid of its holder."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 20).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            raise Conflict(
                f"{self._guards} is in use by another stack (pid {holder}). Stop that one, or set KNOWLEDGE_HOME to "
                "another folder."
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._descriptor = descriptor

    def is_held(self) -> bool:
        """Whether anybody holds the lock now."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def release(self) -> None:
        """Give the lock back; nothing happens when it is not held."""
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = None
