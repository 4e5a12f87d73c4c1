"""A tag expression means the same to PostgreSQL as to ``matches``."""

from __future__ import annotations

import psycopg
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql

from knowledge.tags.sql import tag_filter
from spot_sdk.tag_expression import TagExpression, parse

TAGS = ["employee", "executive", "director", "acme:jira_issue", "r_and_d", "人事部", "a-b", "9"]
tags = st.sampled_from(TAGS)
groups = st.lists(st.lists(tags, min_size=1, max_size=4).map(tuple), min_size=1, max_size=5)
expressions = groups.map(lambda parts: TagExpression(tuple(parts))) | st.none()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(expression=expressions, rows=st.lists(st.lists(tags, max_size=5), min_size=1, max_size=12))
def test_sql_selects_what_matches_selects(
    postgres_url: str, expression: TagExpression | None, rows: list[list[str]]
) -> None:
    condition, parameters = tag_filter(expression)
    query = sql.SQL(
        "SELECT number FROM jsonb_to_recordset(%(rows)s) AS row (number int, tags text[]) WHERE {tags} ORDER BY 1"
    ).format(tags=sql.SQL(condition))
    records = [{"number": number, "tags": held} for number, held in enumerate(rows)]
    with psycopg.connect(postgres_url) as connection:
        found = connection.execute(query, {"rows": psycopg.types.json.Jsonb(records), **parameters}).fetchall()
    expected = [n for n, held in enumerate(rows) if expression is None or expression.matches(held)]
    assert [number for (number,) in found] == expected


@given(expression=expressions)
def test_the_text_of_an_expression_parses_to_it(expression: TagExpression | None) -> None:
    again = parse(None if expression is None else str(expression))
    if expression is None:
        assert again is None
    else:
        assert again is not None
        for held in (set(), {"employee"}, {"employee", "executive"}, set(TAGS)):
            assert again.matches(held) == expression.matches(held)
