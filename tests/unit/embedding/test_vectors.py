from __future__ import annotations

import math
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.embedding.vectors import unit, weighted_mean
from spot_sdk.errors import EmbeddingFailed


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=3, max_size=3).filter(any))
def test_any_finite_direction_becomes_a_unit_vector(values: list[float]) -> None:
    vector = unit(values, 3)
    assert vector == array("f", vector).tolist()
    assert len(vector) == 3
    assert math.hypot(*vector) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("values", "rule"),
    [
        ([1.0, math.nan], "not finite"),
        ([1.0, math.inf], "not finite"),
        ([1.0, None], "not a list of numbers"),
        ([0.0, -0.0], "zero in every dimension"),
        ([1.0], "1 numbers, not 2"),
        ([1.0, 2.0, 3.0], "3 numbers, not 2"),
        ([[1.0, 2.0]], "not a list of numbers"),
        ([True, False], "not a list of numbers"),
        ([[1.0], [1.0, 2.0]], "not a list of numbers"),
        (["1", "2"], "not a list of numbers"),
        ([1, 10**400], "not a list of numbers"),
        ({"a": 1}, "not a list of numbers"),
    ],
)
def test_what_is_no_vector_is_refused_by_the_rule_it_breaks(values: object, rule: str) -> None:
    with pytest.raises(EmbeddingFailed, match=rule):
        unit(values, 2)  # type: ignore[arg-type]


def test_the_mean_leans_to_the_heavier_vector() -> None:
    east, north = unit([1, 0], 2), unit([0, 1], 2)
    assert weighted_mean([east, north], [3, 4]) == pytest.approx([0.6, 0.8], abs=1e-6)


def test_one_vector_alone_keeps_every_bit() -> None:
    vector = unit([1, 2, 3], 3)
    assert weighted_mean([vector], [7]) is vector
