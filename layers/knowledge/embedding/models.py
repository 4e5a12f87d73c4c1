"""The remote models we know, and what is to be known of one before a text is sent to it."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from knowledge.embedding.settings_model import EmbeddingSettings
from knowledge.embedding.windows import RULE_REVISION
from spot_sdk.documents import EmbeddingModel

MAX_DIMENSIONS = 2000
"""pgvector's limit for an HNSW index over the type ``vector``."""

OLLAMA_MAX_TOKENS = 2048
"""Ollama reads no more than this of one text, whatever the model could and ``num_ctx`` says."""

UNKNOWN_MAX_TOKENS = 512
"""What we take for the window of a model that we do not know: the smallest that is common."""

MAX_CHUNK_CHARS = 2000
CHUNK_CHARS_PER_TOKEN = 2
"""Prose of so many characters a token stays within a window by our estimate of tokens, which is on the safe side."""

DEFAULT_MODELS = {
    "ollama": "bge-m3",
    "bedrock": "amazon.titan-embed-text-v2:0",
    "openai": "text-embedding-3-small",
}


@dataclass(frozen=True)
class RemoteModel:
    """A model as its maker describes it.

    ``dimensions`` are what we use unless the settings say otherwise, ``sizes`` those that the model can be asked for
    (none: it has one size, and is not asked). ``prefix`` stands before each text, for models trained to expect one.
    """

    dimensions: int
    max_input_tokens: int
    sizes: Container[int] = ()
    prefix: str = ""


_KNOWN = {
    "amazon.titan-embed-text-v2": RemoteModel(1024, 8192, sizes=(256, 512, 1024)),
    "text-embedding-3-small": RemoteModel(1536, 8191, sizes=range(1, 1537)),
    # 3072 natively, which is more than the index takes
    "text-embedding-3-large": RemoteModel(1536, 8191, sizes=range(1, 3073)),
    "text-embedding-ada-002": RemoteModel(1536, 8191),
    "bge-m3": RemoteModel(1024, 8192),
    "nomic-embed-text": RemoteModel(768, 8192),
    "nomic-embed-text-v1.5": RemoteModel(768, 8192),
    "mxbai-embed-large": RemoteModel(1024, 512),
    "mxbai-embed-large-v1": RemoteModel(1024, 512),
    "all-minilm": RemoteModel(384, 256),
    "all-minilm-l6-v2": RemoteModel(384, 256),
    # Trained with a prefix; "query: " on both sides is their authors' advice where the two sides are not told apart.
    "multilingual-e5-small": RemoteModel(384, 512, prefix="query: "),
    "multilingual-e5-base": RemoteModel(768, 512, prefix="query: "),
    "multilingual-e5-large": RemoteModel(1024, 512, prefix="query: "),
}


@dataclass(frozen=True)
class RemoteChoice:
    """A remote model as the settings choose it; ``asked_dimensions`` is None for a model that has one size."""

    model: EmbeddingModel
    asked_dimensions: int | None
    prefix: str


def choose_remote(settings: EmbeddingSettings) -> RemoteChoice:
    """The remote model that the settings name, or their backend's default.

    Raises ValueError, with what to set, for a model that we do not know without ``dimensions``, and for dimensions that
    the model does not have or the index cannot hold.
    """
    name = (settings.model or DEFAULT_MODELS[settings.backend]).removesuffix(":latest")
    known = _KNOWN.get(_bare_name(name))
    if known is None and settings.dimensions is None:
        raise ValueError(f"the embedding model {name!r} is not one we know: set EMBEDDING_DIMENSIONS to its dimensions")
    dimensions = settings.dimensions or (known.dimensions if known else 0)
    if dimensions > MAX_DIMENSIONS:
        raise ValueError(f"{dimensions} dimensions are more than the {MAX_DIMENSIONS} that the vector index can hold")
    if known and dimensions != known.dimensions and dimensions not in known.sizes:
        raise ValueError(f"the embedding model {name!r} has {known.dimensions} dimensions, not {dimensions}")
    max_tokens = known.max_input_tokens if known else UNKNOWN_MAX_TOKENS
    if settings.backend == "ollama":
        max_tokens = min(max_tokens, OLLAMA_MAX_TOKENS)
    return RemoteChoice(
        model=EmbeddingModel(
            backend=settings.backend,
            model=name,
            version=f"1-{RULE_REVISION}",
            dimensions=dimensions,
            max_input_tokens=max_tokens,
            chunk_chars=min(MAX_CHUNK_CHARS, max_tokens * CHUNK_CHARS_PER_TOKEN),
        ),
        asked_dimensions=dimensions if known and known.sizes else None,
        prefix=known.prefix if known else "",
    )


def _bare_name(name: str) -> str:
    """``BAAI/bge-m3``, ``bge-m3:567m`` and ``bge-m3`` are one model."""
    return name.rsplit("/", 1)[-1].split(":", 1)[0].lower()
