"""What every vector must be before it leaves an embedder: finite, of the right size, of unit length.

Plain Python, since the Lambda layer has no room for numpy; a vector of 1024 numbers takes a tenth of a millisecond.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from spot_sdk.errors import EmbeddingFailed

if TYPE_CHECKING:
    from knowledge.embedding.base import Vector


def unit(values: Any, dimensions: int) -> Vector:
    """A list of numbers as a unit vector: ``dimensions`` floats, each one that a float32 holds exactly.

    Raises EmbeddingFailed, naming the rule that is broken, when there are not ``dimensions`` numbers, when one of them
    is not finite, or when all are zero: such a vector has no direction, and its distance to any other is NaN.
    """
    numbers = _numbers(values)
    if len(numbers) != dimensions:
        raise EmbeddingFailed(f"the embedding has {len(numbers)} numbers, not {dimensions}")
    if not all(map(math.isfinite, numbers)):
        raise EmbeddingFailed("the embedding holds a number that is not finite")
    largest = max(map(abs, numbers))
    if largest == 0:
        raise EmbeddingFailed("the embedding is zero in every dimension")
    scaled = [number / largest for number in numbers]  # so that squares neither overflow nor vanish
    length = math.sqrt(math.fsum(number * number for number in scaled))  # exact on every platform
    return array("f", [number / length for number in scaled]).tolist()


def _numbers(values: Any) -> list[float]:
    if not isinstance(values, list) or any(type(value) not in (float, int) for value in values):
        raise EmbeddingFailed("the embedding is not a list of numbers")
    try:
        return [float(value) for value in values]
    except OverflowError as error:
        raise EmbeddingFailed("the embedding is not a list of numbers") from error


def unit_or_reason(values: Any, dimensions: int) -> Vector | EmbeddingFailed:
    """What ``unit`` returns or raises."""
    try:
        return unit(values, dimensions)
    except EmbeddingFailed as reason:
        return reason


def weighted_mean(vectors: Sequence[Vector], weights: Sequence[float]) -> Vector:
    """The unit vector in the direction of the weighted sum of unit vectors; one vector alone is returned as it is."""
    if len(vectors) == 1:
        return vectors[0]
    columns = zip(*vectors, strict=True)
    return unit(
        [math.fsum(weight * value for weight, value in zip(weights, column, strict=True)) for column in columns],
        len(vectors[0]),
    )
