"""Tag expressions: how a query says which documents it may see.

    expression = group { "|" group }        a document matches when any group does
    group      = tag   { "+" tag }          a group matches when the document has all its tags
    tag        = letters, digits, "_", "-", ":"      (knowledge_tags.is_tag)

``+`` binds tighter than ``|`` and there are no parentheses: ``employee+executive|director`` is "an executive employee,
or a director". Blanks around operators are allowed. An empty expression, or None, is no filter and parses to None.

One tree serves three uses: ``matches`` decides in memory, ``str`` gives the expression back, and the server's
``knowledge.tags.sql`` turns it into parameters.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from spot_sdk.errors import InvalidTagExpression
from spot_sdk.knowledge_tags import MAX_TAG_LENGTH, is_tag, is_tag_character, to_tag

MAX_EXPRESSION_LENGTH = 4096
MAX_GROUPS = 32


@dataclass(frozen=True, slots=True)
class TagExpression:
    """A disjunction of conjunctions; every group holds at least one tag."""

    groups: tuple[tuple[str, ...], ...]

    def matches(self, tags: Collection[str]) -> bool:
        """True when a document with these tags is among those asked for."""
        held = set(tags)
        return any(held.issuperset(group) for group in self.groups)

    def __str__(self) -> str:
        return "|".join("+".join(group) for group in self.groups)


@dataclass(frozen=True, slots=True)
class _Token:
    text: str  # a tag, an operator, or "" at the end
    column: int  # 1-based

    @property
    def is_operator(self) -> bool:
        return self.text in ("+", "|", "")


def parse(text: str | None) -> TagExpression | None:
    """The expression in ``text``, or None when it asks for nothing in particular.

    Raises InvalidTagExpression with the 1-based column and what was expected there.
    """
    if text is None or not text.strip():
        return None
    if len(text) > MAX_EXPRESSION_LENGTH:
        raise _error(text, MAX_EXPRESSION_LENGTH + 1, f"at most {MAX_EXPRESSION_LENGTH} characters")
    tokens = _tokens(text)
    groups: list[tuple[str, ...]] = []
    operator = "|"
    while operator == "|":
        first = next(tokens)
        if len(groups) == MAX_GROUPS:
            raise _error(text, first.column, f"at most {MAX_GROUPS} alternatives")
        group, operator = _parse_group(text, first, tokens)
        groups.append(group)
    return TagExpression(tuple(dict.fromkeys(groups)))


def _parse_group(text: str, first: _Token, tokens: Iterator[_Token]) -> tuple[tuple[str, ...], str]:
    """The tags of one group, and the operator that ended it (``|`` or the end)."""
    tags: list[str] = []
    tag = first
    while True:
        if tag.is_operator:
            raise _error(text, tag.column, "a tag")
        tags.append(tag.text)
        operator = next(tokens)
        if not operator.is_operator:
            raise _error(text, operator.column, "'+', '|' or the end")
        if operator.text != "+":
            return tuple(dict.fromkeys(tags)), operator.text
        tag = next(tokens)


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        start, character = at, text[at]
        at += 1
        if character.isspace():
            continue
        if character in "+|":
            yield _Token(character, start + 1)
            continue
        while at < len(text) and is_tag_character(character) and is_tag_character(text[at]):
            at += 1
        word = text[start:at]
        if not is_tag(word):
            raise _not_a_tag(text, word, start)
        yield _Token(word, start + 1)
    yield _Token("", len(text) + 1)


def _not_a_tag(text: str, word: str, start: int) -> InvalidTagExpression:
    if len(word) > MAX_TAG_LENGTH:
        return _error(text, start + 1, f"a tag of at most {MAX_TAG_LENGTH} characters")
    if is_tag(unicodedata.normalize("NFC", word)):
        return _error(text, start + 1, "a tag in Unicode form NFC")
    try:
        hint = f" (the tag for the label {text.strip()!r} is {to_tag(text)!r})" if len(text) <= MAX_TAG_LENGTH else ""
    except ValueError:
        hint = ""
    return _error(text, start + 1, f"letters, digits, '_', '-', ':', '+' or '|'{hint}")


def _error(text: str, column: int, expected: str) -> InvalidTagExpression:
    found = repr(text[column - 1]) if column <= len(text) else "the end"
    return InvalidTagExpression(
        f"tag expression, column {column}: expected {expected}, found {found}", column=column, expected=expected
    )
