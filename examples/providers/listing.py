"""What reading a source yields: documents and remarks, or the reason why there is no complete listing."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from spot_sdk.documents import KnowledgeDocument
from spot_sdk.errors import DeadlineExceeded


class SourceFailed(Exception):
    """The source could not be read to its end; the message says why, for an operator.

    A listing with holes is no listing: what is missing from it would be taken for gone and removed from the store.
    """


@dataclass(frozen=True, slots=True)
class Listing:
    """Everything that a source has now; ``remarks`` tell the operator what is odd about it."""

    documents: list[KnowledgeDocument]
    remarks: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Deadline:
    """The moment, on the monotonic clock, after which nobody waits for the result."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        return cls(time.monotonic() + seconds)

    @property
    def remaining_s(self) -> float:
        """Seconds left, 0 when it has passed."""
        return max(0.0, self.at - time.monotonic())

    def check(self) -> None:
        """Raises DeadlineExceeded when it has passed."""
        if not self.remaining_s:
            raise DeadlineExceeded("the time for this sync is over; it was stopped, and nothing was removed")
