"""Tag expressions: the grammar, its errors, and the three uses of one tree."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spot_sdk.errors import InvalidTagExpression
from spot_sdk.knowledge_tags import is_tag
from spot_sdk.tag_expression import MAX_EXPRESSION_LENGTH, MAX_GROUPS, TagExpression, parse

tags = st.text(st.sampled_from("abcAZ019_-:éあक्ष"), min_size=1, max_size=8).filter(is_tag)
groups = st.lists(st.lists(tags, min_size=1, max_size=4, unique=True).map(tuple), min_size=1, max_size=5, unique=True)
blanks = st.text(" \t", max_size=2)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, None),
        ("", None),
        (" \t\n", None),
        ("employee", (("employee",),)),
        ("employee+executive", (("employee", "executive"),)),
        ("wiki_page|policy", (("wiki_page",), ("policy",))),
        ("employee+executive|director", (("employee", "executive"), ("director",))),
        ("director|employee+executive", (("director",), ("employee", "executive"))),
        (" a +\tb | c ", (("a", "b"), ("c",))),
        ("a+a|b|b|a", (("a",), ("b",))),
        ("acme:jira-issue", (("acme:jira-issue",),)),
        ("人事部|qualität", (("人事部",), ("qualität",))),
        ("-", (("-",),)),
    ],
)
def test_what_is_read(text, expected):
    assert parse(text) == (None if expected is None else TagExpression(expected))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("+", "tag expression, column 1: expected a tag, found '+'"),
        ("a+", "tag expression, column 3: expected a tag, found the end"),
        ("a |", "tag expression, column 4: expected a tag, found the end"),
        ("a||b", "tag expression, column 3: expected a tag, found '|'"),
        ("a + | b", "tag expression, column 5: expected a tag, found '|'"),
        ("a b", "tag expression, column 3: expected '+', '|' or the end, found 'b'"),
        ("(a)", "tag expression, column 1: expected letters, digits, '_', '-', ':', '+' or '|'"),
        ("r&d", "tag expression, column 2: expected letters, digits, '_', '-', ':', '+' or '|'"),
        ("a" * 129, "tag expression, column 1: expected a tag of at most 128 characters"),
        ("a|qualita\u0308t", "tag expression, column 3: expected a tag in Unicode form NFC"),
        ("|".join(f"t{n}" for n in range(33)), "tag expression, column 119: expected at most 32 alternatives"),
        ("a" * 5000, "tag expression, column 4097: expected at most 4096 characters"),
    ],
    ids=lambda text: ascii(text[:30]),
)
def test_what_is_not_says_where_and_what_was_expected(text: str, message: str):
    with pytest.raises(InvalidTagExpression) as caught:
        parse(text)
    assert caught.value.message.startswith(message)
    assert f"column {caught.value.column}: expected {caught.value.expected}" in caught.value.message


def test_a_label_in_place_of_a_tag_gets_advice():
    with pytest.raises(InvalidTagExpression, match="'r_and_d'"):
        parse("R&D")


@given(groups)
def test_str_gives_the_expression_back(parsed):
    expression = TagExpression(tuple(parsed))
    assert parse(str(expression)) == expression


@given(groups, st.data())
def test_blanks_around_operators_do_not_matter(parsed, data: st.DataObject):
    def spaced(separator: str, parts: list[str]) -> str:
        return separator.join(data.draw(blanks) + part + data.draw(blanks) for part in parts)

    text = spaced("|", [spaced("+", list(group)) for group in parsed])
    assert parse(text) == TagExpression(tuple(parsed))


@given(st.text(st.sampled_from("ab+| &é\u0301"), max_size=12))
def test_anything_is_read_or_refused(text: str):
    column = None
    expression = None
    try:
        expression = parse(text)
    except InvalidTagExpression as error:
        column = error.column
    if column is not None:
        assert 1 <= column <= len(text) + 1
    elif text.strip():
        assert expression is not None
        assert parse(str(expression)) == expression
    else:
        assert expression is None


@given(groups, st.lists(tags, max_size=6))
def test_matches_is_any_group_whole(parsed, held):
    expected = any(all(tag in held for tag in group) for group in parsed)
    assert TagExpression(tuple(parsed)).matches(held) is expected


def test_limits_are_reached():
    assert parse("|".join(f"t{n}" for n in range(MAX_GROUPS))) is not None
    assert parse("a" + " " * (MAX_EXPRESSION_LENGTH - 1)) is not None
