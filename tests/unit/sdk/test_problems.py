"""An error survives its journey as RFC 9457 problem details, whole and for every class there is."""

from __future__ import annotations

import json

import pytest

from spot_sdk.errors import (
    InternalError,
    InvalidInput,
    InvalidTagExpression,
    KnowledgeError,
    Overloaded,
    Problem,
    Unavailable,
    errors_by_code,
)
from spot_sdk.problems import error_for_status, from_problem, to_problem

PROBLEMS = [Problem(document="wiki:1", field="tags.0", message="'r&d' is not a tag")]


def test_codes_are_unique():
    kinds = set(errors_by_code().values())
    assert len(kinds) == len({kind.code for kind in kinds}) >= 20


@pytest.mark.parametrize("kind", errors_by_code().values(), ids=errors_by_code().keys())
def test_every_error_comes_back_as_itself(kind: type[KnowledgeError]):
    sent = kind("what happened", problems=PROBLEMS)
    body = json.loads(json.dumps(to_problem(sent, correlation_id="c-1")))

    got = from_problem(body, sent.status, retry_after_s=2.5)

    assert type(got) is kind
    assert (got.message, got.problems, got.correlation_id, got.retry_after_s) == ("what happened", PROBLEMS, "c-1", 2.5)


def test_a_tag_expression_error_keeps_column_and_expectation():
    sent = InvalidTagExpression("column 4: expected a tag", column=4, expected="a tag")
    got = from_problem(to_problem(sent), 422)
    assert isinstance(got, InvalidTagExpression)
    assert (got.column, got.expected) == (4, "a tag")


def test_members_are_those_of_rfc_9457_and_ours():
    assert to_problem(Overloaded("busy"), "c-2") == {
        "type": "urn:spot:knowledge:problem:overloaded",
        "title": "Too many requests at once",
        "status": 503,
        "detail": "busy",
        "code": "overloaded",
        "problems": [],
        "correlation_id": "c-2",
    }


@pytest.mark.parametrize(
    "body",
    [
        None,
        "<html>Bad gateway</html>",
        [],
        {},
        {"code": "from_a_newer_server"},
        {"code": ["not", "text"]},
        {"problems": "none", "code": "not_found"},
    ],
)
def test_without_a_code_we_know_the_status_decides(body: object):
    assert type(from_problem(body, 503)) is Unavailable


def test_a_gateways_own_message_is_kept():
    error = from_problem({"message": "Too Many Requests"}, 429, correlation_id="from-the-header")
    assert type(error) is Overloaded
    assert error.message == "Too Many Requests"
    assert error.correlation_id == "from-the-header"


@pytest.mark.parametrize(("status", "kind"), [(418, InvalidInput), (500, InternalError), (599, InternalError)])
def test_statuses_without_a_class_of_their_own(status: int, kind: type[KnowledgeError]):
    assert error_for_status(status) is kind


def test_every_status_that_we_send_leads_to_an_error_of_that_status():
    for kind in errors_by_code().values():
        assert error_for_status(kind.status).status == kind.status
