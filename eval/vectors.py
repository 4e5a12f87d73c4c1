"""An embedder whose vectors are kept on disk, so that the next run of an evaluation does not wait for the model."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from knowledge.embedding.base import Embedder, Vector
from spot_sdk.documents import EmbeddingModel
from spot_sdk.errors import EmbeddingFailed

_AT_ONCE = 64


class CachedEmbedder:
    """An ``Embedder``; vectors are found by the model's name and version and the SHA-256 of the text."""

    def __init__(self, embedder: Embedder, path: Path) -> None:
        self._embedder = embedder
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = sqlite3.connect(path)
        self._file.execute(
            "CREATE TABLE IF NOT EXISTS vectors (model text, text blob, vector blob, PRIMARY KEY (model, text))"
        )

    @property
    def model(self) -> EmbeddingModel:
        return self._embedder.model

    def embed(self, text: str) -> Vector:
        [vector] = self.embed_batch([text])
        if isinstance(vector, EmbeddingFailed):
            raise vector
        return vector

    def embed_batch(self, texts: Sequence[str]) -> list[Vector | EmbeddingFailed]:
        found: dict[str, Vector | EmbeddingFailed] = {
            text: vector for text in set(texts) if (vector := self._find(text)) is not None
        }
        missing = [text for text in dict.fromkeys(texts) if text not in found]
        for start in range(0, len(missing), _AT_ONCE):
            batch = missing[start : start + _AT_ONCE]
            for text, vector in zip(batch, self._embedder.embed_batch(batch), strict=True):
                found[text] = vector
                if not isinstance(vector, EmbeddingFailed):
                    self.keep(text, vector)
            self._file.commit()
        return [found[text] for text in texts]

    def over_window(self, text: str) -> bool:
        return self._embedder.over_window(text)

    def keep(self, text: str, vector: Vector) -> None:
        """Remember a vector; the next commit writes it."""
        blob = np.array(vector, dtype="<f4").tobytes()
        self._file.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", (self._key(), _digest(text), blob))

    def _find(self, text: str) -> Vector | None:
        row = self._file.execute(
            "SELECT vector FROM vectors WHERE model = ? AND text = ?", (self._key(), _digest(text))
        ).fetchone()
        return None if row is None else np.frombuffer(row[0], dtype="<f4").tolist()

    def _key(self) -> str:
        return f"{self.model.model} {self.model.version}"


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
