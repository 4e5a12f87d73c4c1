"""What a cache is here: a place that may forget at any time, and never fails."""

from __future__ import annotations

from typing import Protocol


class Cache(Protocol):
    """Bytes under a key, for a while. No method raises; a cache that is out of order forgets."""

    def get(self, key: str) -> bytes | None: ...

    def put(self, key: str, value: bytes, ttl_s: float) -> None: ...


class NoCache:
    """Forgets at once."""

    def get(self, key: str) -> bytes | None:
        return None

    def put(self, key: str, value: bytes, ttl_s: float) -> None:
        pass
