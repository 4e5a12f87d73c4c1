"""The name of the request at hand, by which its lines in all logs and its sessions in the database are found."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

_correlation_id: ContextVar[str | None] = ContextVar("correlation_id", default=None)


@contextmanager
def correlated_as(correlation_id: str) -> Generator[None]:
    """Whatever happens inside the block happens for this request."""
    token = _correlation_id.set(correlation_id)
    try:
        yield
    finally:
        _correlation_id.reset(token)


def current() -> str | None:
    """The name of the request at hand; None outside of one."""
    return _correlation_id.get()
