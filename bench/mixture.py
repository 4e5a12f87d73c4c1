"""Made-up vectors that are as hard to search as real ones, with tags that do and do not depend on them.

A mixture of Gaussian clusters, as texts on some hundreds of topics make: uneven cluster sizes (Dirichlet), a common
mean (embeddings of one model crowd into a cone), and within a cluster a spread of low rank. Queries come from the same
mixture. Tags named ``u`` are given by chance, tags named ``c`` to whole clusters, as kinds of documents are; the
number is the share of rows in percent (``u0_1`` is .1). About half of the queries are foreign to ``c50``: no row of
the tag is near them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CLUSTERS = 500
_SPREAD = 0.75
_SPREAD_RANK = 64


@dataclass(frozen=True)
class Mixture:
    """``vectors`` ``(rows, dimensions)`` and ``queries`` ``(n, dimensions)``, float32 of length 1; tag -> its rows."""

    vectors: NDArray[np.float32]
    queries: NDArray[np.float32]
    tags: dict[str, NDArray[np.bool_]]

    def tags_of(self, row: int) -> list[str]:
        return [tag for tag, holders in self.tags.items() if holders[row]]


def make_mixture(rows: int, dimensions: int, queries: int, shares: tuple[float, ...], *, seed: int = 7) -> Mixture:
    """The same mixture for the same arguments; two tags, ``u`` and ``c``, for each of ``shares`` (in percent)."""
    rng = np.random.default_rng(seed)
    rank = min(_SPREAD_RANK, dimensions)
    unit = 1 / np.sqrt(dimensions)
    mean = rng.normal(scale=unit, size=dimensions)
    centres = rng.normal(scale=unit, size=(CLUSTERS, dimensions))
    spreads = rng.normal(scale=unit, size=(CLUSTERS, rank, dimensions)).astype(np.float32)
    weights = rng.dirichlet(np.ones(CLUSTERS))
    members = rng.choice(CLUSTERS, size=rows + queries, p=weights)
    drawn = np.empty((rows + queries, dimensions), dtype=np.float32)
    for cluster in range(CLUSTERS):
        chosen = np.flatnonzero(members == cluster)
        offsets = rng.normal(scale=_SPREAD / np.sqrt(rank), size=(len(chosen), rank)) @ spreads[cluster]
        drawn[chosen] = mean + centres[cluster] + offsets
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    tags: dict[str, NDArray[np.bool_]] = {}
    for share in shares:
        count, name = max(1, round(rows * share / 100)), f"{share:g}".replace(".", "_")
        tags[f"u{name}"] = _holders(rows, rng.permutation(rows)[:count])
        tags[f"c{name}"] = _holders(rows, _whole_clusters(rng, members[:rows], count))
    return Mixture(drawn[:rows], drawn[rows:], tags)


def _whole_clusters(rng: np.random.Generator, members: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """``count`` rows that fill some clusters, the last of them in part."""
    place = rng.permutation(CLUSTERS)
    return np.argsort(place[members], kind="stable")[:count]


def _holders(rows: int, chosen: NDArray[np.int64]) -> NDArray[np.bool_]:
    holders = np.zeros(rows, dtype=bool)
    holders[chosen] = True
    return holders
