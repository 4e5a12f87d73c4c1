"""A cache in Redis or Valkey, shared by all environments of a function. Out of order, it costs next to nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from knowledge.telemetry import logger

if TYPE_CHECKING:
    import redis

PREFIX = "spot:knowledge:"
_TIMEOUT_S = 0.1
_LEFT_ALONE_S = 30.0


class RedisCache:
    """Keys below ``spot:knowledge:``. After a failure it is left alone for half a minute, so that a dead or slow server
    costs one time-out in that time and not one for each question.

    ``url`` is redis://, rediss:// or unix://. Raises ValueError when it is none of these.
    """

    def __init__(self, url: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        import redis

        self._client: redis.Redis = redis.Redis.from_url(
            url,
            socket_connect_timeout=_TIMEOUT_S,
            socket_timeout=_TIMEOUT_S,
            retry=None,
            health_check_interval=0,
        )
        self._error: type[Exception] = redis.RedisError
        self._clock = clock
        self._left_alone_until = 0.0

    def get(self, key: str) -> bytes | None:
        found = self._ask(lambda client: client.get(PREFIX + key))
        return found if isinstance(found, bytes) else None

    def put(self, key: str, value: bytes, ttl_s: float) -> None:
        if ttl_s >= 0.001:
            self._ask(lambda client: client.set(PREFIX + key, value, px=int(ttl_s * 1000)))

    def close(self) -> None:
        """Close the connection; the next use opens another."""
        self._client.close()

    def _ask(self, work: Callable[[redis.Redis], Any]) -> Any:
        if self._clock() < self._left_alone_until:
            return None
        try:
            return work(self._client)
        except (self._error, OSError) as error:
            self._left_alone_until = self._clock() + _LEFT_ALONE_S
            logger.warning("the cache is left alone", reason=type(error).__name__, seconds=_LEFT_ALONE_S)
            return None
