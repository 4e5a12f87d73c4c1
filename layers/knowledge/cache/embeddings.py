"""Vectors of questions that were asked before."""

from __future__ import annotations

import hashlib
import time
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING

from knowledge import metrics
from knowledge.cache.base import Cache
from knowledge.telemetry import record
from spot_sdk.documents import EmbeddingModel

if TYPE_CHECKING:
    from knowledge.embedding.base import Embedder, Vector
    from spot_sdk.errors import EmbeddingFailed

TTL_S = 86_400.0


class CachingEmbedder:
    """An embedder that keeps the vectors of single texts by their SHA-256 and its model.

    Batches go through as they are: what is stored is not embedded again anyway. Vectors are kept in single precision,
    as the database keeps them.
    """

    def __init__(self, embedder: Embedder, cache: Cache) -> None:
        self._embedder = embedder
        self._cache = cache
        self.was_hit: bool | None = None
        """Whether the last vector came from the cache."""
        self.took_s = 0.0
        """How long it took to have the last vector, or to fail."""

    @property
    def model(self) -> EmbeddingModel:
        return self._embedder.model

    def forget_last(self) -> None:
        """Before a question: no vector yet."""
        self.was_hit, self.took_s = None, 0.0

    def embed(self, text: str) -> Vector:
        started = time.perf_counter()
        try:
            return self._embed(text)
        finally:
            self.took_s = time.perf_counter() - started

    def _embed(self, text: str) -> Vector:
        key = self._key(text)
        kept = self._cache.get(key)
        self.was_hit = kept is not None and len(kept) == 4 * self.model.dimensions
        if kept is not None and self.was_hit:
            record(metrics.EMBED_CACHE_HITS)
            return array("f", kept).tolist()
        record(metrics.EMBED_CACHE_MISSES)
        vector = self._embedder.embed(text)
        self._cache.put(key, array("f", vector).tobytes(), TTL_S)
        return vector

    def embed_batch(self, texts: Sequence[str]) -> list[Vector | EmbeddingFailed]:
        return self._embedder.embed_batch(texts)

    def over_window(self, text: str) -> bool:
        return self._embedder.over_window(text)

    def _key(self, text: str) -> str:
        model = self.model
        named = f"{model.model}\n{model.version}\n{model.dimensions}\n{text}"
        return f"embedding:{hashlib.sha256(named.encode()).hexdigest()}"
