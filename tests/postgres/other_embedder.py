"""A second model that needs no files, for changes from one model to another."""

from __future__ import annotations

from collections.abc import Sequence

from knowledge.embedding.hashing import HashEmbedder
from spot_sdk.documents import EmbeddingModel
from spot_sdk.errors import EmbeddingFailed


class OtherEmbedder(HashEmbedder):
    """Another model: words hash into other places of a shorter vector, and one word is refused."""

    DIMENSIONS = 64

    @property
    def model(self) -> EmbeddingModel:
        return super().model.model_copy(update={"model": "other", "version": "7", "dimensions": self.DIMENSIONS})

    def embed_batch(self, texts: Sequence[str]):
        return [EmbeddingFailed("cannot read this") if "refused" in text else self._folded(text) for text in texts]

    def _folded(self, text: str) -> list[float]:
        [vector] = super().embed_batch([text])
        folded = [sum(vector[place :: self.DIMENSIONS]) + 1e-3 for place in range(self.DIMENSIONS)]
        length = sum(value * value for value in folded) ** 0.5
        return [value / length for value in folded]
