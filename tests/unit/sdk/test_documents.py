"""What a document may be: every refusal names its field."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from spot_sdk.documents import (
    MAX_CONTENT_LENGTH,
    MAX_ID_LENGTH,
    MAX_METADATA_BYTES,
    MAX_TAGS,
    KnowledgeDocument,
    RetrievalLimits,
    UpsertResult,
)

NESTED: dict[str, Any] = {}
for _ in range(40):
    NESTED = {"deeper": NESTED}


def make(**fields: Any) -> KnowledgeDocument:
    return KnowledgeDocument.model_validate({"id": "a", "content": "text", **fields})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", ""),
        ("id", "x" * (MAX_ID_LENGTH + 1)),
        ("id", "a\nb"),
        ("id", "a\0b"),
        ("id", " a"),
        ("id", "\ud800"),
        ("id", 7),
        ("content", ""),
        ("content", " \n\t"),
        ("content", "a\0b"),
        ("content", "\udfff"),
        ("content", "x" * (MAX_CONTENT_LENGTH + 1)),
        ("tags", ["r&d"]),
        ("tags", ["human resources"]),
        ("tags", [""]),
        ("tags", ["qualita\u0308t"]),
        ("tags", [f"t{n}" for n in range(MAX_TAGS + 1)]),
        ("tags", "employee"),
        ("metadata", {"x": float("nan")}),
        ("metadata", {"x": [float("inf")]}),
        ("metadata", {"x": 10**4299}),
        ("metadata", {"x": 2**63}),
        ("metadata", {"x": "a\0b"}),
        ("metadata", {"\ud800": 1}),
        ("metadata", {1: "x"}),
        ("metadata", {"x": datetime.now(UTC)}),
        ("metadata", NESTED),
        ("metadata", {"x": "y" * MAX_METADATA_BYTES}),
        ("metadata", {"parent_id": ""}),
        ("metadata", {"parent_id": 7}),
        ("metadata", {"parent_id": "x" * (MAX_ID_LENGTH + 1)}),
        ("source", "a\tb"),
        ("source", "x" * 129),
        ("expires_at", "tomorrow"),
        ("type", "employee"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else ascii(value)[:20],
)
def test_what_is_refused_names_its_field(field: str, value: Any):
    with pytest.raises(ValidationError) as caught:
        make(**{field: value})
    assert {error["loc"][0] for error in caught.value.errors()} == {field}


def test_a_label_in_place_of_a_tag_gets_advice():
    with pytest.raises(ValidationError, match="to_tag\\(\\) makes 'r_and_d' of it"):
        make(tags=["R&D"])


def test_assignment_is_checked_too():
    document = make()
    with pytest.raises(ValidationError):
        document.tags = ["r&d"]
    assert document.tags == []


def test_tags_are_held_once_in_their_order():
    assert make(tags=["b", "a", "b"]).tags == ["b", "a"]


def test_moments_without_a_zone_are_utc_and_others_keep_theirs():
    cet = timezone(timedelta(hours=1))
    document = make(expires_at=datetime(2026, 1, 1, 12), updated_at=datetime(2026, 1, 1, 12, tzinfo=cet))  # noqa: DTZ001
    assert document.expires_at == datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert document.updated_at == datetime(2026, 1, 1, 11, tzinfo=UTC)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(-1e15, 1e15)
    | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abé", max_size=3), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("number", [1e300, -1e19, 2.0**63])
def test_a_whole_number_that_would_come_back_as_another_is_refused(number: float):
    with pytest.raises(ValidationError, match="beyond 64 bits"):
        make(metadata={"a": number})


@given(st.dictionaries(st.text("abé", max_size=3), json_values, max_size=4))
def test_metadata_survives_the_journey(metadata: dict[str, Any]):
    document = make(metadata=metadata)
    assert KnowledgeDocument.model_validate_json(document.model_dump_json()) == document


@given(st.integers(1, 100), st.floats(0, 1), st.none() | st.integers(1, 100), st.none() | st.floats(0, 1))
def test_limits_only_ever_shrink(top_k: int, min_score: float, max_top_k: int | None, floor: float | None):
    limits = RetrievalLimits(max_top_k=max_top_k, min_score_floor=floor)
    assert limits.cap_top_k(top_k) <= top_k
    assert limits.floor_min_score(min_score) >= min_score
    assert max_top_k is None or limits.cap_top_k(top_k) <= max_top_k
    assert floor is None or limits.floor_min_score(min_score) >= floor


def test_results_of_several_requests_are_one():
    part = UpsertResult.model_validate(
        {
            "results": [{"id": "a", "status": "created"}, {"id": "b", "status": "failed"}],
            "embedded": 1,
            "over_window": 1,
        }
    )
    merged = UpsertResult.merged([part, part])
    assert [outcome.id for outcome in merged.results] == ["a", "b", "a", "b"]
    assert (merged.created, merged.failed, merged.updated, merged.embedded, merged.over_window) == (2, 2, 0, 2, 2)
    assert len(part.results) == 2
