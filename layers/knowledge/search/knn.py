"""Filtered nearest neighbours, exact in effect and never short.

An HNSW index answers "nearest" fast and "nearest that match" badly: with a selective filter it returns too few rows,
and where nothing near the query matches, the wrong ones (pgvector issues 259, 716, 740). So an index is believed only
for what it does well. Three ways, the cheapest that can be right first:

``index``        The rows nearest to the query of all rows; where enough of these few match, they are the answer. It
                 fails for rare tags, and for queries in whose neighbourhood nothing matches.
``tag_indexes``  The same within the rows of a frequent tag, for each alternative of the expression, merged. These
                 are inverted-file indexes (``documents.tag_indexes``): unlike a graph's, their answer does not get
                 worse when the query is far from all rows that they hold.
``exact``        Every matching row is read. Right always, and cheapest for few of them.

What a way returns short of ``top_k`` is not believed, and the next one is taken. Tags' indexes with few rows to read
come first. docs/adr/0007 has the figures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

Row = TypeVar("Row")
Group = tuple[str, ...]
"""Tags that a row must all have; a filter is a list of groups of which it must match one, or None for every row."""
Step = Literal["index", "tag_indexes", "exact"]

EXACT_UP_TO_ROWS = 4_000
"""Where reading all matching rows of 384 dimensions costs about what the indexes cost."""
_MEASURED_DIMENSIONS = 384

TAG_INDEXES_UP_TO_ROWS = 10_000
"""Up to how many rows that tags' indexes would read these cost no more than the index over all, which may fail."""

REACH = 100
"""How many nearest rows an index is asked for lightly ..."""
LONG_REACH = 300
"""... and how many at most, where only the exact scan is left."""
_SHORT_REACH = 20  # below it one row is wanted, of a broad filter or none
_MAX_EF = 1000  # pgvector's limit for hnsw.ef_search
_RESORTED = 20  # rows beyond top_k from an index of rounded vectors, before they are sorted exactly


def exact_up_to_rows(dimensions: int) -> int:
    """Up to how many matching rows the exact scan is taken at once: fewer, the longer the vectors to read."""
    return round(EXACT_UP_TO_ROWS * min(1.0, _MEASURED_DIMENSIONS / dimensions))


@dataclass(frozen=True, slots=True)
class TagIndex:
    """A usable index over the vectors of the rows that have ``tag``: about ``rows`` of them in ``lists`` cells."""

    tag: str
    rows: int
    lists: int

    def probes(self, reach: int) -> int:
        """How many cells to read for a recall of .99 and more, also after a tenth of the vectors moved (ADR 7)."""
        return min(self.lists, math.ceil((9 if reach <= 40 else 12) * math.sqrt(self.lists)))


@dataclass(frozen=True, slots=True)
class VectorIndexes:
    """What can be asked: the number of ``rows`` in all, whether the index over all is usable, and those of tags."""

    rows: int
    has_index: bool
    by_tag: Mapping[str, TagIndex]


class FilteredVectors(Protocol[Row]):
    """Rows with vectors, one query vector and one filter already bound. All results are best first."""

    @property
    def groups(self) -> Sequence[Group] | None:
        """The filter."""
        ...

    def estimate_matches(self, groups: Sequence[Group] | None) -> int:
        """How many rows the planner expects to match."""
        ...

    def indexes(self) -> VectorIndexes:
        """The indexes that could help with this filter."""
        ...

    def scan(self, groups: Sequence[Group] | None, limit: int) -> list[Row]:
        """The nearest matching rows by reading every match."""
        ...

    def search_index(self, reach: int, ef: int, limit: int) -> list[Row]:
        """Of the ``reach`` nearest of all rows, those that match."""
        ...

    def search_tag_index(
        self, index: TagIndex, groups: Sequence[Group], *, probes: int, reach: int, limit: int
    ) -> list[Row]:
        """Of the ``reach`` nearest rows that have the index's tag, those that match."""
        ...


@dataclass(frozen=True, slots=True)
class Plan:
    """How a search was done: the ways taken, the last of which answered, and the matches it was chosen for."""

    steps: tuple[Step, ...]
    expected_rows: int

    @property
    def path(self) -> str:
        """``exact``, ``index``, ``index_then_tag_indexes`` and so on."""
        return "_then_".join(self.steps)

    @property
    def fell_short(self) -> bool:
        """True when the index over all rows was asked, and held too few matches among those it gave."""
        return "index" in self.steps[:-1]


@dataclass(frozen=True, slots=True)
class Neighbours(Generic[Row]):
    rows: list[Row]
    plan: Plan


def nearest(
    vectors: FilteredVectors[Row], top_k: int, *, exact_up_to: int, order: Callable[[Row], tuple[Any, ...]]
) -> Neighbours[Row]:
    """The ``top_k`` nearest matching rows, best first; fewer only when fewer match.

    ``order`` sorts rows as the results are sorted, and is different for different rows.
    """
    expected = vectors.estimate_matches(vectors.groups)
    steps: list[Step] = []

    def found(step: Step, rows: list[Row]) -> Neighbours[Row]:
        return Neighbours(rows, Plan((*steps, step), expected))

    if expected <= exact_up_to:
        return found("exact", vectors.scan(vectors.groups, top_k))
    indexes = vectors.indexes()
    shares = share_out(vectors.groups or (), indexes.by_tag)
    has_tag_index = bool(shares.of_indexes)
    reach = reach_for(top_k, expected / max(indexes.rows, expected))
    is_cheaper_by_tag = has_tag_index and not shares.of_scan and shares.rows_read(top_k) <= TAG_INDEXES_UP_TO_ROWS
    if indexes.has_index and not is_cheaper_by_tag and reach <= (REACH if has_tag_index else LONG_REACH):
        rows = vectors.search_index(reach, effort_for(reach), top_k)
        if len(rows) == top_k:
            return found("index", rows)
        steps.append("index")
    if not has_tag_index:
        return found("exact", vectors.scan(vectors.groups, top_k))
    parts, to_scan = _search_tag_indexes(vectors, indexes.by_tag, top_k)
    if parts:
        steps.append("tag_indexes")
    if to_scan:
        parts.append(vectors.scan(to_scan, top_k))
        steps.append("exact")
    best = {order(row): row for part in parts for row in part}
    return Neighbours([best[place] for place in sorted(best)[:top_k]], Plan(tuple(steps), expected))


def reach_for(top_k: int, share: float) -> int:
    """How many nearest rows hold ``top_k`` matches almost surely, where a ``share`` of rows matches by chance."""
    return math.ceil((top_k + 2.5 * math.sqrt(top_k) + 4) / share)


def effort_for(reach: int) -> int:
    """``hnsw.ef_search`` at which the first ``reach`` rows are the nearest in effect."""
    return min(_MAX_EF, max(200 if reach < _SHORT_REACH else 300, 6 * reach))


@dataclass(frozen=True, slots=True)
class Shares:
    """Each alternative of a filter, given to the index of one of its tags, or to the scan when none has one."""

    of_indexes: Mapping[TagIndex, list[Group]]
    of_scan: list[Group]

    def rows_read(self, top_k: int) -> float:
        """How many rows the indexes read for ``top_k`` of each."""
        reach = top_k + _RESORTED
        return sum(index.rows * index.probes(reach) / index.lists for index in self.of_indexes)


def share_out(groups: Sequence[Group], by_tag: Mapping[str, TagIndex]) -> Shares:
    """Every group goes to the smallest index among those of its tags."""
    of_indexes: dict[TagIndex, list[Group]] = {}
    of_scan: list[Group] = []
    for group in groups:
        candidates = [by_tag[tag] for tag in group if tag in by_tag]
        if candidates:
            of_indexes.setdefault(min(candidates, key=lambda index: index.rows), []).append(group)
        else:
            of_scan.append(group)
    return Shares(of_indexes, of_scan)


def _search_tag_indexes(
    vectors: FilteredVectors[Row], by_tag: Mapping[str, TagIndex], top_k: int
) -> tuple[list[list[Row]], list[Group]]:
    """The nearest of each alternative that an index answers, and the alternatives that must be scanned.

    The nearest of a union are among the nearest of its parts. Where the index of one tag of an alternative does not
    reach ``top_k`` of its rows, that of another of its tags may.
    """
    parts: list[list[Row]] = []
    to_scan: list[Group] = []
    usable = dict(by_tag)
    pending = vectors.groups or ()
    while pending:
        shares = share_out(pending, usable)
        to_scan.extend(shares.of_scan)
        pending = []
        for index, groups in shares.of_indexes.items():
            rows = _search_tag_index(vectors, index, groups, top_k)
            if len(rows) == top_k:
                parts.append(rows)
            else:
                del usable[index.tag]
                pending.extend(groups)
    return parts, to_scan


def _search_tag_index(vectors: FilteredVectors[Row], index: TagIndex, groups: Sequence[Group], top_k: int) -> list[Row]:
    """What an index finds of some alternatives; nothing where they are too rare among its rows for a search."""
    reach = top_k + _RESORTED
    if (index.tag,) not in groups:  # the index holds rows that do not match
        share = vectors.estimate_matches(groups) / max(index.rows, 1)
        reach = reach_for(top_k, min(1.0, share)) if share else LONG_REACH + 1
    if reach > LONG_REACH:
        return []
    return vectors.search_tag_index(index, groups, probes=index.probes(reach), reach=reach, limit=top_k)
