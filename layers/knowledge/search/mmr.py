"""Maximal marginal relevance: the best few without near-repeats (Carbonell and Goldstein, 1998).

One after the other is taken whose

    LAMBDA * relevance - (1 - LAMBDA) * likeness to the most alike of those already taken

is greatest. The first taken is the most relevant one.
"""

from __future__ import annotations

from collections.abc import Sequence

LAMBDA = 0.6
"""How much relevance counts against novelty: near-repeats are parted, and no stranger to the question is let in."""


def diverse(
    relevance: Sequence[float], likeness: Sequence[Sequence[float]], wanted: int, lambda_: float = LAMBDA
) -> list[int]:
    """The numbers of the ``wanted`` candidates to take, in the order of taking; all when there are no more.

    ``relevance[i]`` is candidate i's similarity to the question and ``likeness[i][j]`` that of two candidates, from 0
    to 1. Ties go to the candidate that comes first.
    """
    left = list(range(len(relevance)))
    closest = [0.0] * len(relevance)  # of each candidate: its likeness to the most alike of those taken
    taken: list[int] = []
    while left and len(taken) < wanted:
        best = max(left, key=lambda i: (lambda_ * relevance[i] - (1 - lambda_) * closest[i], -i))
        left.remove(best)
        taken.append(best)
        for i in left:
            closest[i] = max(closest[i], likeness[i][best])
    return taken
