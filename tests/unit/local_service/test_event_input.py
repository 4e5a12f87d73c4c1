"""What a rule's target gets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from local.lambda_service.event_input import BadInput, target_input

EVENT = {
    "time": "2026-11-30T12:00:00Z",
    "detail": {"text": 'a "quoted"\nline', "count": 3, "on": True, "nothing": None, "list": [{"id": "x"}]},
    "detail-type": "Scheduled Event",
}


def transformed(template: str, **paths: str) -> Any:
    target = {"InputTransformer": {"InputPathsMap": paths, "InputTemplate": template}}
    return json.loads(target_input(target, EVENT))


def test_a_target_that_says_nothing_gets_the_event() -> None:
    assert json.loads(target_input({"Arn": "arn"}, EVENT)) == EVENT


def test_a_constant_is_handed_on_as_it_is() -> None:
    assert target_input({"Input": '{"a":  1}'}, EVENT) == b'{"a":  1}'


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("$", EVENT),
        ("$.time", EVENT["time"]),
        ("$.detail.count", 3),
        ("$.detail-type", "Scheduled Event"),
        ("$.detail.list[0].id", "x"),
        ("$.detail.nothing", None),
    ],
)
def test_a_path_picks_a_part(path: str, expected: Any) -> None:
    assert json.loads(target_input({"InputPath": path}, EVENT)) == expected


def test_a_value_outside_quotes_becomes_json() -> None:
    template = '{"at": <at>, "count": <count>, "on": <on>, "text": <text>, "list": <list>}'
    assert transformed(
        template, at="$.time", count="$.detail.count", on="$.detail.on", text="$.detail.text", list="$.detail.list"
    ) == {
        "at": "2026-11-30T12:00:00Z",
        "count": 3,
        "on": True,
        "text": 'a "quoted"\nline',
        "list": [{"id": "x"}],
    }


def test_a_value_inside_quotes_is_part_of_the_text() -> None:
    assert transformed(
        '{"said": "<count> times <text> in \\"<list>\\""}',
        count="$.detail.count",
        text="$.detail.text",
        list="$.detail.list",
    ) == {"said": '3 times a "quoted"\nline in "[{"id": "x"}]"'}
    assert transformed('"at <at>"', at="$.time") == "at 2026-11-30T12:00:00Z"


def test_a_value_that_looks_like_a_placeholder_is_not_filled_again() -> None:
    target = {
        "InputTransformer": {"InputPathsMap": {"a": "$.a", "b": "$.b"}, "InputTemplate": '{"x": <a>, "y": "<a>"}'}
    }
    assert json.loads(target_input(target, {"a": "<b>", "b": "secret"})) == {"x": "<b>", "y": "<b>"}


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ({"Input": "no json"}, "not JSON"),
        ({"InputPath": "$.absent"}, "nothing at"),
        ({"InputPath": "$.time.deeper"}, "nothing at"),
        ({"InputPath": "$.detail.list[5]"}, "nothing at"),
        ({"InputPath": "time"}, "not of the form"),
        ({"InputPath": "$..time"}, "not of the form"),
        ({"InputTransformer": {"InputPathsMap": {"a": "$.b"}, "InputTemplate": "<a>"}}, "nothing at"),
        ({"InputTransformer": {"InputPathsMap": {}, "InputTemplate": '{"a": <b>}'}}, "<b>"),
        ({"InputTransformer": {"InputTemplate": '{"a": "<b>"}'}}, "<b>"),
        ({"InputTransformer": {"InputPathsMap": {"t": "$.time"}, "InputTemplate": "{a: <t>}"}}, "not JSON"),
    ],
)
def test_an_input_that_cannot_be_made_says_why(target: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        target_input(target, EVENT)
