"""Who may call which route: one table, and the check of a key against it."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from enum import IntEnum

from spot_sdk.errors import Unauthorized


class Role(IntEnum):
    """What a caller may do; each role may do what the ones before it may."""

    ANYONE = 0
    READER = 1
    WRITER = 2


ROLES: dict[tuple[str, str], Role] = {
    ("POST", "/api/v1/knowledge/query"): Role.READER,
    ("GET", "/api/v1/knowledge/stats"): Role.READER,
    ("GET", "/version"): Role.READER,
    ("GET", "/health"): Role.ANYONE,
}
"""Routes that need less than the internal key; every other route needs Role.WRITER."""


class Keyring:
    """The valid keys, and what a caller without one may do.

    Keys are compared as SHA-256 digests in constant time, whatever bytes a caller sends.
    """

    def __init__(self, keys: Iterable[str], *, without_key: Role) -> None:
        self._digests = [_digest(key) for key in keys if key]
        self._without_key = without_key

    def authorize(self, method: str, path: str, key: str | None) -> None:
        """Raise Unauthorized unless the caller of this route may call it."""
        needed = ROLES.get((method, path), Role.WRITER)
        if needed <= self._without_key and not key:
            return
        if needed is Role.ANYONE or self._is_valid(key):
            return
        raise Unauthorized("send a valid key in the header X-Internal-API-Key")

    def _is_valid(self, key: str | None) -> bool:
        offered = _digest(key or "")
        matches = [hmac.compare_digest(offered, digest) for digest in self._digests]
        return any(matches)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
