"""Who is signed in: a cookie that holds nothing but when it was issued, signed with the internal key.

A session ends after eight hours, and with the key it was signed by. Forms carry a token made from the session, so that
no other site can send them on an operator's behalf.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Iterable

COOKIE = "knowledge_console"
LIFETIME_S = 8 * 3600


class Sessions:
    """Issues and checks sessions and their form tokens. ``keys`` are the keys valid now, the current one first."""

    def __init__(self, keys: Callable[[], Iterable[str]], clock: Callable[[], float] = time.time) -> None:
        self._keys = keys
        self._clock = clock

    def is_key(self, offered: str) -> bool:
        """True for a valid internal key. Digests are compared in constant time."""
        given = hashlib.sha256(offered.encode("utf-8", "surrogatepass")).digest()
        return any(hmac.compare_digest(given, hashlib.sha256(key.encode()).digest()) for key in self._keys())

    def issue(self) -> str:
        """A new session, as the cookie's value. Raises LookupError when there is no key to sign it with."""
        current = next(iter(self._keys()), None)
        if current is None:
            raise LookupError("there is no internal key")
        claim = f"{int(self._clock())}.{secrets.token_hex(16)}"
        return f"{claim}.{_sign(current, 'session', claim)}"

    def is_valid(self, cookie: str) -> bool:
        """True for a session that was issued here within the last hours and that nobody altered."""
        claim, _, signature = cookie.rpartition(".")
        issued = claim.partition(".")[0]
        if not (issued.isascii() and issued.isdigit()) or not self._is_signed(signature, "session", claim):
            return False
        return 0 <= self._clock() - int(issued) < LIFETIME_S

    def form_token(self, cookie: str) -> str:
        """What the forms of a session must carry."""
        return _sign(next(iter(self._keys()), ""), "form", cookie)

    def is_form_token(self, token: str, cookie: str) -> bool:
        return self._is_signed(token, "form", cookie)

    def _is_signed(self, signature: str, purpose: str, text: str) -> bool:
        given = signature.encode("utf-8", "surrogatepass")
        return any(hmac.compare_digest(given, _sign(key, purpose, text).encode()) for key in self._keys())


def _sign(key: str, purpose: str, text: str) -> str:
    message = f"knowledge console {purpose}\n{text}".encode("utf-8", "surrogatepass")
    return hmac.new(key.encode(), message, hashlib.sha256).hexdigest()
