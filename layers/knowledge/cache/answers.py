"""Answers as they are kept: with the moment from which on they are not true any more."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError

from spot_sdk.documents import QueryResult


class KeptAnswer(BaseModel):
    """An answer, and until when it may be given by the database's clock."""

    model_config = ConfigDict(defer_build=True)

    until: datetime
    answer: QueryResult

    @classmethod
    def of(cls, answer: QueryResult, now: datetime, keep_s: float) -> Self:
        """To be kept for ``keep_s`` seconds, and no longer than each of its documents lives."""
        ends = [document.expires_at for document in answer.documents if document.expires_at is not None]
        return cls.model_construct(until=min([now + timedelta(seconds=keep_s), *ends]), answer=answer)

    @classmethod
    def read(cls, kept: bytes | None, now: datetime) -> QueryResult | None:
        """The answer in what a cache gave back, if it is one and may still be given."""
        if kept is None:
            return None
        try:
            found = cls.model_validate_json(kept)
        except ValidationError:  # of another release, or not ours
            return None
        return found.answer if now < found.until else None

    def lifetime_s(self, now: datetime) -> float:
        return max(0.0, (self.until - now).total_seconds())
