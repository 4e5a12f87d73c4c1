"""One score of two: how alike in meaning a document is, and how much of the question's words it has.

Both come in from 0 to 1 and mean the same for every question (a cosine; a share of what the question's words weigh
together), so their weighted mean does as well: a document's score depends on the question and on itself, never on what
else was found. A lone document that hardly matches scores low, and a floor means the same everywhere. Rank fusion
and min-max scaling have neither property, and found no better (ADR 8).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping


def fuse(dense: Mapping[str, float], lexical: Mapping[str, float], dense_weight: float) -> dict[str, float]:
    """The score of everything that either leg scored, from 0 to 1; what a leg does not know counts as 0 there."""
    return {
        id_: dense_weight * dense.get(id_, 0.0) + (1 - dense_weight) * lexical.get(id_, 0.0)
        for id_ in dense.keys() | lexical.keys()
    }


def best(
    scores: Mapping[str, float], limit: int, least: float = 0.0, *, first: Collection[str] = ()
) -> dict[str, float]:
    """The ``limit`` highest of those scores that are at least ``least``, best first, ties by id.

    Among equals those of ``first`` come first.
    """
    ordered = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0] not in first, pair[0]))
    return {id_: score for id_, score in ordered[:limit] if score >= least}
