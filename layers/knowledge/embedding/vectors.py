"""What every vector must be before it leaves an embedder: finite, of the right size, of unit length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from spot_sdk.errors import EmbeddingFailed

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from knowledge.embedding.base import Vector


def unit(values: ArrayLike, dimensions: int) -> Vector:
    """``values`` as a unit vector, ``(dimensions,) float32``.

    Raises EmbeddingFailed, naming the rule that is broken, when there are not ``dimensions`` numbers, when one of them
    is not finite, or when all are zero: such a vector has no direction, and its distance to any other is NaN.
    """
    import numpy as np

    try:
        vector = np.asarray(values)
    except ValueError as error:  # lists of unequal lengths
        raise EmbeddingFailed("the embedding is not a list of numbers") from error
    if vector.dtype.kind not in "iuf":
        raise EmbeddingFailed("the embedding is not a list of numbers")
    if vector.shape != (dimensions,):
        raise EmbeddingFailed(f"the embedding has the shape {vector.shape}, not ({dimensions},)")
    if not np.isfinite(vector).all():
        raise EmbeddingFailed("the embedding holds a number that is not finite")
    vector = vector.astype(np.float64)
    largest = np.abs(vector).max()
    if largest == 0:
        raise EmbeddingFailed("the embedding is zero in every dimension")
    vector = vector / largest  # so that squares neither overflow nor vanish
    length = math.sqrt(math.fsum((vector * vector).tolist()))  # exact on every platform, unlike a BLAS norm
    return (vector / length).astype(np.float32)


def unit_or_reason(values: ArrayLike, dimensions: int) -> Vector | EmbeddingFailed:
    """What ``unit`` returns or raises."""
    try:
        return unit(values, dimensions)
    except EmbeddingFailed as reason:
        return reason


def weighted_mean(vectors: Sequence[Vector], weights: Sequence[float]) -> Vector:
    """The unit vector in the direction of the weighted sum of unit vectors; one vector alone is returned as it is."""
    import numpy as np

    if len(vectors) == 1:
        return vectors[0]
    return unit(np.average(np.stack(vectors), axis=0, weights=weights), len(vectors[0]))
