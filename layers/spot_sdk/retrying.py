"""When a request is sent again, and after how long."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential back-off with full jitter: the n-th wait is random, up to ``first_wait_s * 2**n``.

    A server's Retry-After is waited for, and then as long again as the first wait may be, so that many clients do not
    come back in one moment. If it is more than ``longest_wait_s``, the error is raised at once: the caller knows better
    what to do with the time. ``attempts`` counts the first one; 1 never repeats.
    """

    attempts: int = 4
    first_wait_s: float = 0.25
    longest_wait_s: float = 10.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Callable[[], float] = random.random

    def wait_s(self, attempt: int, retry_after_s: float | None) -> float | None:
        """Seconds to wait after the failed ``attempt`` (from 1), or None to give up."""
        if attempt >= self.attempts:
            return None
        if retry_after_s is not None:
            wait_s = retry_after_s + self.random() * self.first_wait_s
            return wait_s if retry_after_s <= self.longest_wait_s else None
        return self.random() * min(self.longest_wait_s, self.first_wait_s * 2 ** (attempt - 1))


def parse_retry_after(header: str | None, now: datetime | None = None) -> float | None:
    """Seconds that a Retry-After header asks for, a number or a date (RFC 9110); None when it says nothing sensible."""
    if not header:
        return None
    if header.strip().isdecimal():
        seconds = float(header)
        return seconds if math.isfinite(seconds) else None
    try:
        moment = parsedate_to_datetime(header)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - (now or datetime.now(UTC))).total_seconds())
