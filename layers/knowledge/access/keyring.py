"""Whose key is it? The internal key from the environment, or one that an operator issued."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterable
from typing import NamedTuple

from knowledge.access.roles import Caller, Role, role_for
from spot_sdk.errors import Forbidden, Unauthorized

_REMEMBER_S = 30.0


class _Remembered(NamedTuple):
    caller: Caller | None
    until: float


class Keyring:
    """Tells callers by their keys.

    ``internal_keys`` (two during a rotation, asked for each time) may do everything. Any other key is looked up by its
    SHA-256 with ``find``, and the answer is remembered for half a minute, so that a revoked key works no longer than
    that. Digests are compared in constant time, whatever bytes a caller sends. A caller without a key is ``anonymous``.
    """

    def __init__(
        self,
        internal_keys: Callable[[], Iterable[str]],
        *,
        anonymous: Role,
        find: Callable[[bytes], Caller | None],
        clock: Callable[[], float],
    ) -> None:
        self._internal_keys = internal_keys
        self._anonymous = Caller(anonymous)
        self._find = find
        self._clock = clock
        self._remembered: dict[bytes, _Remembered] = {}

    def authorize(self, method: str, path: str, key: str | None) -> Caller:
        """Who calls this route.

        Raises Unauthorized without a valid key where one is needed, Forbidden when the key's role is not enough.
        """
        needed = role_for(method, path)
        if needed is Role.ANYONE:
            return self._anonymous
        caller = self._identify(key) if key else self._anonymous
        if caller is None or (not key and caller.role < needed):
            raise Unauthorized("send a valid key in the header X-Internal-API-Key")
        if caller.role < needed:
            raise Forbidden(f"this key's role is {caller.role.name.lower()}; {needed.name.lower()} is needed here")
        return caller

    def _identify(self, key: str) -> Caller | None:
        offered = digest(key)
        matches = [hmac.compare_digest(offered, digest(internal)) for internal in self._internal_keys()]
        if any(matches):
            return Caller(Role.OPERATOR)
        now = self._clock()
        known = self._remembered.get(offered)
        if known is None or known.until <= now:
            if len(self._remembered) > 1_000:  # wrong keys without end must not fill the memory
                self._remembered.clear()
            known = self._remembered[offered] = _Remembered(self._find(offered), now + _REMEMBER_S)
        return known.caller


def digest(key: str) -> bytes:
    """The SHA-256 under which a key is known."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
