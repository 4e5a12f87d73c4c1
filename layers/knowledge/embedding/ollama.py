"""Embeddings from an Ollama server, by ``POST /api/embed``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from knowledge.embedding.http_batches import HttpEmbedder
from knowledge.embedding.json_api import JsonApi
from knowledge.embedding.models import choose_remote
from knowledge.embedding.settings_model import EmbeddingSettings


class OllamaEmbedder(HttpEmbedder):
    """A model of an Ollama server, bge-m3 (1024 dimensions) by default.

    Ollama reads 2048 tokens of a text and by default drops the rest without a word: texts are cut into windows below
    that, and ``truncate: false`` turns a window that we judged too short into a refusal instead of a loss.
    Raises ValueError for settings that name no usable model.
    """

    def __init__(self, settings: EmbeddingSettings) -> None:
        name = "Ollama"
        api = JsonApi(f"{settings.ollama_url}/api/embed", name=name, timeout_s=settings.timeout_s)
        super().__init__(choose_remote(settings), api, name=name, batch_size=settings.batch_size)

    def _request(self, texts: Sequence[str]) -> dict[str, object]:
        return {"model": self.model.model, "input": list(texts), "truncate": False}

    def _embeddings_in(self, body: Any) -> list[Any] | None:
        match body:
            case {"embeddings": list(embeddings)}:
                return cast(list[Any], embeddings)
            case _:
                return None
