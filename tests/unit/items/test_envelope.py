"""The envelope is exactly its fields, each of them right, and what is wrong is named."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.items.model import ITEM_TYPES, MAX_BODY_BYTES, TIERS, ItemDraft, searchable_text
from spot_sdk.errors import InvalidItem

GOOD: dict[str, Any] = {"type": "fact", "title": "Keys", "body": "under the mat", "compartment": "home"}


def test_the_fields_are_these() -> None:
    assert set(ItemDraft.model_fields) == {
        "id",
        "type",
        "title",
        "summary",
        "body",
        "body_ref",
        "compartment",
        "tier",
        "tags",
        "links",
        "domain_at",
    }


def test_types_and_tiers_are_closed() -> None:
    assert ITEM_TYPES == (
        "fact",
        "preference",
        "decision",
        "project",
        "document",
        "episode",
        "person",
        "commitment",
    )
    assert TIERS == ("working", "short-term", "long-term", "archive")
    for kind in ITEM_TYPES:
        assert ItemDraft.parse(GOOD | {"type": kind}).type == kind


def test_what_may_be_left_out_is() -> None:
    draft = ItemDraft.parse(GOOD)
    assert (draft.id, draft.summary, draft.tier, draft.tags, draft.links, draft.domain_at) == (
        None,
        "",
        None,
        [],
        [],
        None,
    )


@pytest.mark.parametrize("body", ["text", 0, False, 1.5, [], {}, {"any": [{"shape": None}]}])
def test_any_json_is_a_body(body: Any) -> None:
    assert ItemDraft.parse(GOOD | {"body": body}).body == body


@pytest.mark.parametrize(
    "moment", ["2027-01-05T09:00:00Z", "2027-01-05T10:00:00+01:00", datetime(2027, 1, 5, 9, tzinfo=UTC)]
)
def test_domain_time_has_a_zone(moment: Any) -> None:
    assert ItemDraft.parse(GOOD | {"domain_at": moment}).domain_at == datetime(2027, 1, 5, 9, tzinfo=UTC)


WRONG: list[tuple[dict[str, Any], str | None]] = [
    ({"colour": "red"}, "colour"),
    ({"gate_state": "admitted"}, "gate_state"),
    ({"version": 7}, "version"),
    ({"created_at": "2020-01-01T00:00:00Z"}, "created_at"),
    ({"type": "note"}, "type"),
    ({"type": "Fact"}, "type"),
    ({"tier": "hot"}, "tier"),
    ({"title": "  "}, "title"),
    ({"title": 5}, "title"),
    ({"title": "x" * 501}, "title"),
    ({"title": "a\0b"}, "title"),
    ({"title": "\ud800"}, "title"),
    ({"summary": "x" * 4001}, "summary"),
    ({"summary": None}, "summary"),
    ({"body": None}, None),
    ({"body_ref": "s3://x"}, None),
    ({"body": None, "body_ref": " "}, "body_ref"),
    ({"body": {"deep": "a\0b"}}, "body"),
    ({"body": {"a\0b": 1}}, "body"),
    ({"body": float("nan")}, "body"),
    ({"body": [float("inf")]}, "body"),
    ({"body": {"no": object()}}, "body"),
    ({"body": "x" * MAX_BODY_BYTES}, "body"),
    ({"compartment": ["home", "work"]}, "compartment"),
    ({"compartment": "Home"}, "compartment"),
    ({"compartment": "home\n"}, "compartment"),
    ({"compartment": None}, "compartment"),
    ({"id": "a b"}, "id"),
    ({"id": "-a"}, "id"),
    ({"id": "a" * 129}, "id"),
    ({"id": 7}, "id"),
    ({"tags": "garden"}, "tags"),
    ({"tags": [""]}, "tags.0"),
    ({"tags": ["ok", 1]}, "tags.1"),
    ({"tags": ["x"] * 65}, "tags"),
    ({"links": ["abc"]}, "links.0"),
    ({"links": [{"to": "abc"}]}, "links.0.relation"),
    ({"links": [{"to": "abc", "relation": "About"}]}, "links.0.relation"),
    ({"links": [{"to": "abc", "relation": "about", "to_version": 1}]}, "links.0.to_version"),
    ({"domain_at": "2027-01-05T09:00:00"}, "domain_at"),
    ({"domain_at": "tomorrow"}, "domain_at"),
]


@pytest.mark.parametrize(("change", "field"), WRONG)
def test_what_is_wrong_is_named(change: dict[str, Any], field: str | None) -> None:
    with pytest.raises(InvalidItem) as refused:
        ItemDraft.parse(GOOD | change)
    assert field in {problem.field for problem in refused.value.problems} or any(
        field is not None and (problem.field or "").startswith(f"{field}.") for problem in refused.value.problems
    )


@pytest.mark.parametrize("missing", ["type", "title", "compartment", "body"])
def test_what_must_be_there_is_asked_for(missing: str) -> None:
    with pytest.raises(InvalidItem):
        ItemDraft.parse({name: value for name, value in GOOD.items() if name != missing})


def test_a_message_does_not_quote_the_content() -> None:
    with pytest.raises(InvalidItem) as refused:
        ItemDraft.parse(GOOD | {"body": {"secret": "a\0b sesame"}, "title": "sesame" * 100})
    assert "sesame" not in repr(refused.value.problems) + str(refused.value)


def test_a_body_is_nested_64_deep_at_most() -> None:
    def nested(depth: int) -> Any:
        return json.loads("[" * depth + "1" + "]" * depth)

    assert ItemDraft.parse(GOOD | {"body": nested(64)}).body == nested(64)
    for depth in (65, 400):
        with pytest.raises(InvalidItem):
            ItemDraft.parse(GOOD | {"body": nested(depth)})


def test_what_is_searched_is_the_words_and_not_the_keys() -> None:
    body = {"who": "Ann", "ages": [7, True, None, {"note": "left"}]}
    assert searchable_text("Title", " ", body) == "Title\nAnn\n7\nleft"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda part: st.lists(part) | st.dictionaries(st.text(), part),
    )
)
def test_whatever_the_body_is_it_is_taken_or_refused_typed(body: Any) -> None:
    try:
        draft = ItemDraft.parse(GOOD | {"body": body})
    except InvalidItem:
        assert body is None or "\\u0000" in json.dumps(body) or "\\ud" in json.dumps(body)
    else:
        assert draft.body == body
