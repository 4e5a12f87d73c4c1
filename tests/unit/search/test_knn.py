"""Which way nearest neighbours are searched, and when a way is not believed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from knowledge.search.knn import (
    EXACT_UP_TO_ROWS,
    LONG_REACH,
    Group,
    Plan,
    TagIndex,
    VectorIndexes,
    effort_for,
    exact_up_to_rows,
    nearest,
    reach_for,
    share_out,
)

BROAD, BROADER = TagIndex("broad", 20_000, 200), TagIndex("broader", 50_000, 500)


@dataclass
class Line:
    """Points 0, 1, 2, … on a line, asked for those nearest to 0, each with tags; indexes see what tests let them."""

    tags: list[set[str]]
    groups: Sequence[Group] | None = None
    has_index: bool = True
    by_tag: dict[str, TagIndex] = field(default_factory=dict)
    blind: set[str] = field(default_factory=set)  # tags whose index finds nothing
    scanned: list[Sequence[Group] | None] = field(default_factory=list)

    def _matching(self, groups: Sequence[Group] | None) -> list[int]:
        return [n for n, held in enumerate(self.tags) if groups is None or any(held.issuperset(g) for g in groups)]

    def estimate_matches(self, groups: Sequence[Group] | None) -> int:
        return len(self._matching(groups))

    def indexes(self) -> VectorIndexes:
        return VectorIndexes(len(self.tags), self.has_index, self.by_tag)

    def scan(self, groups: Sequence[Group] | None, limit: int) -> list[int]:
        self.scanned.append(groups)
        return self._matching(groups)[:limit]

    def search_index(self, reach: int, ef: int, limit: int) -> list[int]:
        assert reach <= ef
        return [n for n in self._matching(self.groups) if n < reach][:limit]

    def search_tag_index(
        self, index: TagIndex, groups: Sequence[Group], *, probes: int, reach: int, limit: int
    ) -> list[int]:
        assert 0 < probes <= index.lists
        held = [] if index.tag in self.blind else self._matching([(index.tag,)])[:reach]
        return [n for n in held if n in set(self._matching(groups))][:limit]


def search(line: Line, top_k: int = 10, exact_up_to: int = 100) -> tuple[list[int], Plan]:
    found = nearest(line, top_k, exact_up_to=exact_up_to, order=lambda row: (row,))
    assert found.rows == line._matching(line.groups)[:top_k]  # whatever the way
    return found.rows, found.plan


def every(step: int, first: int = 0, rows: int = 10_000, tag: str = "broad") -> list[set[str]]:
    return [{tag} if n >= first and n % step == 0 else set() for n in range(rows)]


def test_few_matches_are_read_all() -> None:
    assert search(Line(every(200), [("broad",)]))[1] == Plan(("exact",), 50)


def test_a_broad_tag_is_found_among_the_nearest_of_all() -> None:
    assert search(Line(every(2), [("broad",)]))[1] == Plan(("index",), 5_000)


def test_without_a_filter_the_index_answers() -> None:
    assert search(Line(every(2)))[1].steps == ("index",)


def test_a_query_far_from_all_matches_is_scanned_where_the_tag_has_no_index() -> None:
    assert search(Line(every(1, first=5_000), [("broad",)]))[1].path == "index_then_exact"


def test_a_query_far_from_all_matches_asks_the_index_of_the_tag() -> None:
    line = Line(every(1, first=5_000), [("broad",)], by_tag={"broad": BROAD})
    assert search(line)[1].path == "index_then_tag_indexes"
    assert line.scanned == []


def test_an_index_of_a_tag_with_few_rows_to_read_is_asked_first() -> None:
    line = Line(every(2), [("broad",)], by_tag={"broad": TagIndex("broad", 5_000, 50)})
    assert search(line)[1].path == "tag_indexes"


def test_the_index_over_all_comes_first_where_an_alternative_has_no_index() -> None:
    tags = [{"broad"} if n % 2 else {"other"} for n in range(10_000)]
    line = Line(tags, [("broad",), ("other",)], by_tag={"broad": TagIndex("broad", 5_000, 50)})
    assert search(line)[1].path == "index"


def test_an_index_of_a_tag_that_comes_back_short_is_not_believed() -> None:
    line = Line(every(1, first=5_000), [("broad",)], by_tag={"broad": BROAD}, blind={"broad"})
    assert search(line)[1].path == "index_then_exact"


def test_without_the_index_over_all_rows_nothing_is_asked_of_it() -> None:
    assert search(Line(every(2), [("broad",)], has_index=False))[1].path == "exact"


def test_alternatives_are_searched_each_by_the_cheapest_way_and_merged() -> None:
    tags = [{"broad"} if n >= 5_000 else {"rare"} if n % 100 == 99 else set() for n in range(10_000)]
    line = Line(tags, [("broad",), ("rare",)], by_tag={"broad": TagIndex("broad", 5_000, 50)})
    rows, plan = search(line, top_k=60)
    assert plan.path == "tag_indexes_then_exact"  # 60 of 10,000 need too long a reach in the index over all
    assert line.scanned == [[("rare",)]]
    assert 99 in rows
    assert 5_000 in rows


def test_a_document_of_two_alternatives_is_found_once() -> None:
    tags = [{"broad", "also"} if n >= 5_000 else set() for n in range(10_000)]
    line = Line(tags, [("broad",), ("also",)], by_tag={t: TagIndex(t, 5_000, 50) for t in ("broad", "also")})
    assert len(set(search(line)[0])) == 10


def test_a_rare_part_of_a_tag_is_not_looked_for_in_its_index() -> None:
    tags = [{"broad", "part"} if n % 40 == 0 else {"broad"} for n in range(10_000)]
    line = Line(tags, [("broad", "part")], has_index=False, by_tag={"broad": TagIndex("broad", 10_000, 100)})
    assert search(line)[1].path == "exact"


def test_where_the_index_of_one_tag_does_not_reach_that_of_another_does() -> None:
    tags = [({"near"} if n < 5_000 else {"far"}) | {"all"} for n in range(10_000)]
    by_tag = {"all": TagIndex("all", 19_000, 190), "far": TagIndex("far", 20_000, 200)}  # as far as the planner knows
    line = Line(tags, [("all", "far")], by_tag=by_tag)
    assert search(line)[1].path == "index_then_tag_indexes"


def test_each_alternative_goes_to_the_smallest_index_of_its_tags() -> None:
    shares = share_out(
        [("broad", "broader"), ("broader",), ("rare",), ("broad", "x")], {"broad": BROAD, "broader": BROADER}
    )
    assert shares.of_indexes == {BROAD: [("broad", "broader"), ("broad", "x")], BROADER: [("broader",)]}
    assert shares.of_scan == [("rare",)]


@pytest.mark.parametrize(
    ("top_k", "share", "reach"), [(1, 1.0, 8), (10, 1.0, 22), (10, 0.5, 44), (100, 1.0, 129), (100, 0.5, 258)]
)
def test_the_reach_grows_with_what_is_wanted_and_with_rarity(top_k: int, share: float, reach: int) -> None:
    assert reach_for(top_k, share) == reach


def test_the_effort_is_six_times_the_reach_within_pgvectors_limits() -> None:
    assert [effort_for(reach) for reach in (8, 20, 100, LONG_REACH)] == [200, 300, 600, 1000]


def test_longer_vectors_are_scanned_for_fewer_rows() -> None:
    assert exact_up_to_rows(384) == exact_up_to_rows(64) == EXACT_UP_TO_ROWS
    assert exact_up_to_rows(1024) == 1_500


def test_more_neighbours_need_more_cells() -> None:
    assert [BROADER.probes(reach) for reach in (30, 120)] == [202, 269]
    assert TagIndex("small", 500, 5).probes(10) == 5
