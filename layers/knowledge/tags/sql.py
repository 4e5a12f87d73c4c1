"""A tag expression as a WHERE clause: constant text around parameters, never text made from input.

``employee+executive|director`` becomes ``(tags @> %(tags_0)s::text[] OR tags @> %(tags_1)s::text[])``, which a GIN
index on ``tags`` answers. The same expression decides in memory with ``TagExpression.matches``; a property test holds
the two equal on a real PostgreSQL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, LiteralString, NamedTuple

if TYPE_CHECKING:
    from spot_sdk.tag_expression import TagExpression


class TagFilter(NamedTuple):
    """A condition on a column ``tags text[]``, and the values of its parameters."""

    condition: LiteralString
    parameters: dict[str, list[str]]


def tag_filter(expression: TagExpression | None) -> TagFilter:
    """The condition that holds exactly for rows whose tags ``expression`` matches; None matches every row."""
    if expression is None:
        return TagFilter("TRUE", {})
    names = [f"tags_{number}" for number in range(len(expression.groups))]
    condition = " OR ".join(f"tags @> %({name})s::text[]" for name in names)
    return TagFilter(f"({condition})", dict(zip(names, map(list, expression.groups), strict=True)))  # type: ignore[arg-type]
