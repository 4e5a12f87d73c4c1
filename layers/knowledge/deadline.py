"""The moment until which the request at hand may take, known to whoever waits for something on its behalf."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

_deadline: ContextVar[float | None] = ContextVar("deadline", default=None)


@contextmanager
def deadline_in(seconds: float) -> Generator[None]:
    """Whatever waits inside the block waits ``seconds`` at most, counted from here."""
    token = _deadline.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _deadline.reset(token)


def remaining_s() -> float | None:
    """Seconds left, not less than 0; None when there is no deadline."""
    until = _deadline.get()
    return None if until is None else max(0.0, until - time.monotonic())
