"""From settings to an embedder."""

from __future__ import annotations

from knowledge.embedding.base import Embedder
from knowledge.embedding.settings_model import EmbeddingSettings


def make_embedder(settings: EmbeddingSettings) -> Embedder:
    """The embedder that the settings choose; it loads its model, or first connects, when it gets its first text.

    Raises ValueError, with what to set, when the settings do not name a model that can be used.
    """
    match settings.backend:
        case "minilm":
            from knowledge.embedding.minilm import MODEL, MiniLMEmbedder

            _refuse_another_model(settings, MODEL.model, MODEL.dimensions)
            return MiniLMEmbedder()
        case "hash":
            from knowledge.embedding.hashing import MODEL, HashEmbedder

            _refuse_another_model(settings, MODEL.model, MODEL.dimensions)
            return HashEmbedder()
        case "ollama":
            from knowledge.embedding.ollama import OllamaEmbedder

            return OllamaEmbedder(settings)
        case "openai":
            from knowledge.embedding.openai import OpenAIEmbedder

            return OpenAIEmbedder(settings)
        case "bedrock":
            from knowledge.embedding.bedrock import BedrockEmbedder

            return BedrockEmbedder(settings)


def _refuse_another_model(settings: EmbeddingSettings, model: str, dimensions: int) -> None:
    if settings.model not in (None, model):
        raise ValueError(f"the embedding backend {settings.backend!r} has one model, {model!r}, not {settings.model!r}")
    if settings.dimensions not in (None, dimensions):
        raise ValueError(f"the embedding model {model!r} has {dimensions} dimensions, not {settings.dimensions}")
