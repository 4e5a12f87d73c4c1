"""Filtered nearest neighbours, exact in effect and never short.

An HNSW index answers "nearest" fast and "nearest that match" badly: with a selective filter it returns too few rows
or the wrong ones (pgvector issues 259, 716, 740). An exact scan over the matching rows is right at any selectivity and
wins below about ten thousand of them. So the plan follows the number of matching rows that PostgreSQL expects: few,
scan them; many, ask the index for more than wanted and sort again. An index that comes back short is not believed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, Protocol, TypeVar

Row = TypeVar("Row")

EXACT_UP_TO_ROWS = 12_000
"""Measured crossing of the two plans on 384 dimensions (docs/performance.md)."""

OVERFETCH = 40


class FilteredVectors(Protocol[Row]):
    """Rows with vectors, one query vector and one filter already bound."""

    def estimate_matches(self) -> int:
        """How many rows the planner expects to match the filter."""
        ...

    def scan(self, limit: int) -> list[Row]:
        """The nearest matching rows by reading every match; best first."""
        ...

    def search_index(self, limit: int) -> list[Row]:
        """Near matching rows from the approximate index; best first, possibly short or not quite the nearest."""
        ...


@dataclass(frozen=True, slots=True)
class Plan:
    """How a search was done: the path taken, and the number of matching rows it was chosen for."""

    path: Literal["exact", "index", "index_then_exact"]
    expected_rows: int


@dataclass(frozen=True, slots=True)
class Neighbours(Generic[Row]):
    rows: list[Row]
    plan: Plan


def nearest(vectors: FilteredVectors[Row], top_k: int) -> Neighbours[Row]:
    """The ``top_k`` nearest matching rows, best first; fewer only when fewer match."""
    expected = vectors.estimate_matches()
    if expected <= EXACT_UP_TO_ROWS:
        return Neighbours(vectors.scan(top_k), Plan("exact", expected))
    rows = vectors.search_index(top_k + OVERFETCH)[:top_k]
    if len(rows) == top_k:
        return Neighbours(rows, Plan("index", expected))
    return Neighbours(vectors.scan(top_k), Plan("index_then_exact", expected))
