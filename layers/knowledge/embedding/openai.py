"""Embeddings from OpenAI, or from any server that speaks its protocol, by ``POST {base}/embeddings``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from knowledge.embedding.http_batches import HttpEmbedder
from knowledge.embedding.json_api import JsonApi
from knowledge.embedding.models import choose_remote
from knowledge.embedding.settings_model import EmbeddingSettings


class OpenAIEmbedder(HttpEmbedder):
    """A model of OpenAI (text-embedding-3-small, 1536 dimensions, by default) or of a compatible server.

    The key is sent as a bearer token when there is one. Raises ValueError for settings that name no usable model.
    """

    def __init__(self, settings: EmbeddingSettings) -> None:
        name = "the OpenAI-compatible server"
        key = settings.openai_api_key
        headers = {"Authorization": f"Bearer {key.get_secret_value()}"} if key else {}
        url = f"{settings.openai_base_url}/embeddings"
        api = JsonApi(url, name=name, timeout_s=settings.timeout_s, headers=headers)
        super().__init__(choose_remote(settings), api, name=name, batch_size=settings.batch_size)

    def _request(self, texts: Sequence[str]) -> dict[str, object]:
        request: dict[str, object] = {"model": self.model.model, "input": list(texts), "encoding_format": "float"}
        if self._choice.asked_dimensions is not None:
            request["dimensions"] = self._choice.asked_dimensions
        return request

    def _embeddings_in(self, body: Any) -> list[Any] | None:
        """The items by their ``index``: the protocol does not promise the order of the texts."""
        try:
            items = sorted(body["data"], key=lambda item: cast(int, item["index"]))
            if [item["index"] for item in items] != list(range(len(items))):
                return None
            return [item["embedding"] for item in items]
        except (KeyError, TypeError):
            return None
