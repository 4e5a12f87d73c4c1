from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.embedding.windows import spread, window_spans

costs_and_limits = st.integers(2, 30).flatmap(
    lambda budget: st.tuples(st.lists(st.integers(1, 40), max_size=80), st.just(budget), st.integers(0, budget - 1))
)


@given(costs_and_limits)
def test_windows_cover_everything_in_order_within_the_budget(case: tuple[list[int], int, int]) -> None:
    costs, budget, overlap = case
    spans = window_spans(costs, budget, overlap)
    assert spans[0][0] == 0
    assert spans[-1][1] == len(costs)
    for start, end in spans:
        assert sum(costs[start:end]) <= budget or end - start == 1
    for (start, end), (next_start, next_end) in pairwise(spans):
        assert start < next_start <= end < next_end
        assert sum(costs[next_start:end]) <= overlap


def test_windows_overlap_by_what_fits() -> None:
    assert window_spans([1] * 10, budget=4, overlap=1) == [(0, 4), (3, 7), (6, 10)]
    assert window_spans([1] * 4, budget=4, overlap=1) == [(0, 4)]
    assert window_spans([], budget=4, overlap=1) == [(0, 0)]


@pytest.mark.parametrize("overlap", [-1, 4, 5])
def test_an_overlap_that_would_never_end_is_refused(overlap: int) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        window_spans([1, 1], budget=4, overlap=overlap)


@given(st.lists(st.integers(), max_size=60), st.integers(2, 40))
def test_of_too_many_windows_some_are_taken_from_the_first_to_the_last(items: list[int], at_most: int) -> None:
    numbered = list(enumerate(items))
    taken = spread(numbered, at_most)
    assert len(taken) == min(len(items), at_most)
    assert taken == sorted(set(taken))
    assert taken[:1] == numbered[:1]
    assert taken[-1:] == numbered[-1:]
    assert all(later[0] - earlier[0] <= -(-len(items) // (at_most - 1)) for earlier, later in pairwise(taken))
