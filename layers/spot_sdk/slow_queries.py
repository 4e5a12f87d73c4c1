"""What operators see of queries that took long."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel

from spot_sdk.documents import LegDebug, Strategy


class SlowQuery(BaseModel):
    """A query that took long: what was asked for, and where the time went.

    ``text_hash`` stands for the text, which is not kept: the same text asked again has the same hash, here and in the
    logs. ``embedding_ms`` is the time for the question's vector, and ``legs`` are the searches in the database. A query
    that failed has the code of its ``error``.
    """

    asked_at: datetime
    correlation_id: str | None = None
    text_hash: str
    tags: str | None = None
    strategy: Strategy
    top_k: int
    min_score: float
    hits: int
    milliseconds: float
    cache: Literal["hit", "miss", "off"]
    embedding_cache: Literal["hit", "miss", "unused"]
    embedding_ms: float
    legs: list[LegDebug] = []
    error: str | None = None


class SlowQueries(BaseModel):
    """Answer of ``GET /debug/slow-queries``: the last fifty that took ``threshold_ms`` or longer, newest first."""

    threshold_ms: float
    queries: list[SlowQuery]
