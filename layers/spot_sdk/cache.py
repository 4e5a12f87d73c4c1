"""An answer asked for twice within a short while: kept in the process, for analyzers that judge many like e-mails."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from spot_sdk.documents import KnowledgeDocument


class _Entry(NamedTuple):
    documents: list[KnowledgeDocument]
    stale_at: float  # on the clock
    expires_at: datetime | None  # when the first of the documents does


def _utc_now() -> datetime:
    return datetime.now(UTC)


class KnowledgeCache:
    """The answers to the last ``max_entries`` different queries, each for ``ttl_s`` seconds.

    Give one to ``KnowledgeClient(..., cache=...)``, or the same one to many. No document is served beyond its
    ``expires_at``; documents that others change or delete are seen up to ``ttl_s`` late. Writing through a client
    forgets everything. ``clock`` (seconds, monotonic) and ``now`` (UTC) are there to be replaced in tests.

    For use within one thread.
    """

    def __init__(
        self,
        max_entries: int = 256,
        ttl_s: float = 60.0,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = _utc_now,
    ) -> None:
        if max_entries < 1 or not ttl_s > 0:
            raise ValueError("a cache needs room for at least one entry and a time to keep it")
        self._max_entries = max_entries
        self._ttl_s = ttl_s
        self._clock = clock
        self._now = now
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._generation = 0

    @property
    def generation(self) -> int:
        """Counts the times that everything was forgotten. What was asked before may be stale after."""
        return self._generation

    def get(self, key: Hashable) -> list[KnowledgeDocument] | None:
        """Copies of the documents kept under ``key``, or None; none that has expired is among them."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if self._clock() >= entry.stale_at or self._has_come(entry.expires_at):
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return _copies(entry.documents)

    def put(self, key: Hashable, documents: Sequence[KnowledgeDocument], generation: int) -> None:
        """Keep the answer to a query that was sent in ``generation``; not if a write came in between."""
        expires_at = min((document.expires_at for document in documents if document.expires_at), default=None)
        if generation != self._generation or self._has_come(expires_at):
            return
        self._entries[key] = _Entry(_copies(documents), self._clock() + self._ttl_s, expires_at)
        self._entries.move_to_end(key)
        while len(self._entries) > self._max_entries:
            self._entries.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        self._generation += 1
        self._entries.clear()

    def __len__(self) -> int:
        return len(self._entries)

    def _has_come(self, moment: datetime | None) -> bool:
        """By the calendar, and not by the clock: that one may stand still while a process does."""
        return moment is not None and self._now() >= moment


def _copies(documents: Sequence[KnowledgeDocument]) -> list[KnowledgeDocument]:
    return [document.model_copy(deep=True) for document in documents]
