"""Fusion and maximal marginal relevance: what holds for any scores."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from knowledge.search import fusion, mmr

share = st.floats(0, 1)
scores = st.dictionaries(st.sampled_from("abcdef"), share)


@given(dense=scores, lexical=scores, weight=share)
def test_fused_scores_are_in_range_and_each_its_own(dense, lexical, weight):
    fused = fusion.fuse(dense, lexical, weight)
    assert fused.keys() == dense.keys() | lexical.keys()
    assert all(0 <= score <= 1 + 1e-12 for score in fused.values())
    for id_, score in fused.items():
        own = fusion.fuse(
            {k: v for k, v in dense.items() if k == id_}, {k: v for k, v in lexical.items() if k == id_}, weight
        )
        assert own == {id_: score}, "what else was found changes nothing"


@given(dense=share, lexical=share, more=share, weight=share)
def test_more_of_either_never_lowers_a_score(dense, lexical, more, weight):
    before = fusion.fuse({"a": dense}, {"a": lexical}, weight)["a"]
    assert fusion.fuse({"a": max(dense, more)}, {"a": lexical}, weight)["a"] >= before
    assert fusion.fuse({"a": dense}, {"a": max(lexical, more)}, weight)["a"] >= before


@given(scores, st.integers(0, 7), share, st.sets(st.sampled_from("abcdef")))
def test_the_best_are_the_highest_above_the_floor(all_scores, limit, least, first):
    best = fusion.best(all_scores, limit, least, first=first)
    assert len(best) == min(limit, sum(score >= least for score in all_scores.values()))
    assert list(best.values()) == sorted(best.values(), reverse=True)
    left_out = [score for id_, score in all_scores.items() if id_ not in best]
    assert len(best) < limit or all(score <= min(best.values(), default=1) for score in left_out)
    for one, other in itertools.pairwise(best):
        assert best[one] > best[other] or (one not in first, one) < (other not in first, other)


@st.composite
def candidates(draw: st.DrawFn) -> tuple[list[float], list[list[float]]]:
    count = draw(st.integers(0, 6))
    likeness = [[1.0] * count for _ in range(count)]
    for one, other in itertools.combinations(range(count), 2):
        likeness[one][other] = likeness[other][one] = draw(share)
    return draw(st.lists(share, min_size=count, max_size=count)), likeness


def by_the_book(relevance: Sequence[float], likeness: Sequence[Sequence[float]], wanted: int, part: float) -> list[int]:
    taken: list[int] = []
    while len(taken) < min(wanted, len(relevance)):
        left = [i for i in range(len(relevance)) if i not in taken]
        value = {i: part * relevance[i] - (1 - part) * max((likeness[i][j] for j in taken), default=0.0) for i in left}
        taken.append(min(left, key=lambda i: (-value[i], i)))
    return taken


@given(candidates(), st.integers(0, 9), share)
def test_mmr_takes_as_the_formula_says(found, wanted, part):
    relevance, likeness = found
    assert mmr.diverse(relevance, likeness, wanted, part) == by_the_book(relevance, likeness, wanted, part)


def test_a_repeat_waits_for_something_else_and_a_stranger_does_not_come_in_for_it():
    likeness = [[1, 1, 0.3], [1, 1, 0.3], [0.3, 0.3, 1]]
    assert mmr.diverse([0.9, 0.9, 0.6], likeness, 2) == [0, 2]
    assert mmr.diverse([0.9, 0.9, 0.1], likeness, 2) == [0, 1]
    assert mmr.diverse([0.5] * 3, [[1.0] * 3] * 3, 9) == [0, 1, 2], "all the same"
