"""How long the embedding model takes, whoever asks it."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from knowledge import metrics
from knowledge.telemetry import record
from spot_sdk.documents import EmbeddingModel

if TYPE_CHECKING:
    from knowledge.embedding.base import Embedder, Vector
    from spot_sdk.errors import EmbeddingFailed


class MeasuredEmbedder:
    """An embedder whose calls are recorded; those that fail are, too, for a model that times out is a slow one."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    @property
    def model(self) -> EmbeddingModel:
        return self._embedder.model

    def embed(self, text: str) -> Vector:
        with self._measured():
            return self._embedder.embed(text)

    def embed_batch(self, texts: Sequence[str]) -> list[Vector | EmbeddingFailed]:
        if not texts:
            return self._embedder.embed_batch(texts)
        with self._measured():
            return self._embedder.embed_batch(texts)

    def over_window(self, text: str) -> bool:
        return self._embedder.over_window(text)

    @contextmanager
    def _measured(self) -> Generator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            record(metrics.EMBED_DURATION, time.perf_counter() - started, backend=self.model.backend)
