"""Expiry: documents whose time is over are removed in small steps, beside writers and queries."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import BaseModel

from knowledge import metrics
from knowledge.documents.store import DocumentStore
from knowledge.telemetry import record

BATCH = 1_000


class Expired(BaseModel):
    """What one clean-up did. ``finished``: it stopped because nothing was left, and not for want of time."""

    deleted: int
    batches: int
    finished: bool


class Expiry:
    """Removes expired documents. Queries never return them, so how soon this runs decides about space alone."""

    def __init__(self, store: DocumentStore) -> None:
        self._store = store

    def clean_up(self, has_time: Callable[[], bool]) -> Expired:
        """Remove batch after batch, each its own transaction, until nothing is left or ``has_time`` says no.

        Rows that a writer holds are passed over, and a row refreshed meanwhile stays.
        """
        deleted = batches = 0
        while has_time():
            batch = self._store.delete_expired(BATCH)
            record(metrics.CLEANUP_DELETED, batch)
            deleted += batch
            batches += 1
            if batch < BATCH:
                return Expired(deleted=deleted, batches=batches, finished=True)
        return Expired(deleted=deleted, batches=batches, finished=False)
