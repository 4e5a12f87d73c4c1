"""What the store asks of an embedding model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from spot_sdk.documents import EmbeddingModel
from spot_sdk.errors import EmbeddingFailed

Vector = list[float]
"""One embedding: as many numbers as the model has dimensions, each exact in float32, together of unit length."""


class Embedder(Protocol):
    """Turns text into unit vectors whose inner product is the similarity of meaning.

    A text longer than the model's window is read in windows, its beginning counting most (``embedding.windows``), and
    ``over_window`` tells of it: shorter chunks would be found better.
    Both methods raise EmbedderUnavailable when the model cannot be reached in time, and EmbeddingFailed when it refuses
    a text or answers with something that is not a finite, non-zero vector of ``model.dimensions``.
    """

    @property
    def model(self) -> EmbeddingModel: ...

    def embed(self, text: str) -> Vector:
        """The vector of one text."""
        ...

    def embed_batch(self, texts: Sequence[str]) -> list[Vector | EmbeddingFailed]:
        """A vector, or the reason why there is none, for each text, in order.

        One bad text does not cost its neighbours theirs; only EmbedderUnavailable is raised.
        """
        ...

    def over_window(self, text: str) -> bool:
        """True when the text is longer than the model reads at once; for remote models an estimate on the safe side."""
        ...
