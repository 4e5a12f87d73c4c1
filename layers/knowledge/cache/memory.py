"""A cache in the process: as large as it may be, and then what was asked for longest ago goes."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

from knowledge.cache.base import Cache, NoCache

_ENTRY_BYTES = 200  # what an entry costs beside its key and value, about


class _Entry(NamedTuple):
    value: bytes
    stale_at: float


class MemoryCache:
    """Holds ``max_bytes`` at most, and asks ``behind`` for what it does not have. Safe for threads."""

    def __init__(
        self, max_bytes: int, behind: Cache | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._max_bytes = max_bytes
        self._behind = behind or NoCache()
        self._clock = clock
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def get(self, key: str) -> bytes | None:
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None and self._clock() < entry.stale_at:
                self._entries.move_to_end(key)
                return entry.value
            if entry is not None:
                self._forget(key)
        return self._behind.get(key)

    def put(self, key: str, value: bytes, ttl_s: float) -> None:
        with self._lock:
            self._forget(key)
            self._entries[key] = _Entry(value, self._clock() + ttl_s)
            self._bytes += _size(key, value)
            while self._bytes > self._max_bytes:
                self._forget(next(iter(self._entries)))
        self._behind.put(key, value, ttl_s)

    def _forget(self, key: str) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._bytes -= _size(key, entry.value)


def _size(key: str, value: bytes) -> int:
    return len(key) + len(value) + _ENTRY_BYTES
