from __future__ import annotations

import subprocess
import sys

import pytest
from pydantic import ValidationError

from knowledge.embedding.estimate import estimated_tokens
from knowledge.embedding.factory import make_embedder
from knowledge.embedding.hashing import HashEmbedder
from knowledge.embedding.minilm import MiniLMEmbedder
from knowledge.embedding.ollama import OllamaEmbedder
from knowledge.embedding.settings_model import EmbeddingSettings
from spot_sdk.documents import EmbeddingModel


def test_the_embedded_model_is_the_default() -> None:
    assert isinstance(make_embedder(EmbeddingSettings()), MiniLMEmbedder)


def test_the_model_without_dependencies_is_chosen_by_name() -> None:
    assert isinstance(make_embedder(EmbeddingSettings(backend="hash", model="kl-hash-embed")), HashEmbedder)


@pytest.mark.parametrize("backend", ["minilm", "hash"])
def test_a_backend_with_one_model_takes_no_other(backend: str) -> None:
    with pytest.raises(ValueError, match="has one model"):
        make_embedder(EmbeddingSettings(backend=backend, model="bge-m3"))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="384 dimensions, not 1024"):
        make_embedder(EmbeddingSettings(backend=backend, dimensions=1024))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong", [{"backend": "magic"}, {"batch_size": 0}, {"timeout_s": 0}, {"timeout_s": "inf"}, {"dimensions": 0}]
)
def test_settings_out_of_range_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        EmbeddingSettings.model_validate(wrong)


def chosen(**choices: object) -> EmbeddingModel:
    return make_embedder(EmbeddingSettings.model_validate(choices)).model


@pytest.mark.parametrize("name", ["bge-m3", "bge-m3:latest", "bge-m3:567m", "BAAI/bge-m3", "BGE-M3"])
def test_a_model_is_known_under_the_names_it_goes_by(name: str) -> None:
    assert chosen(backend="openai", model=name).dimensions == 1024


def test_the_tag_latest_is_no_other_model() -> None:
    assert chosen(backend="ollama", model="bge-m3:latest") == chosen(backend="ollama")


@pytest.mark.parametrize("backend", ["ollama", "openai", "bedrock"])
def test_an_unknown_model_needs_its_dimensions(backend: str) -> None:
    with pytest.raises(ValueError, match="'house-model' is not one we know: set EMBEDDING_DIMENSIONS"):
        chosen(backend=backend, model="house-model")
    model = chosen(backend=backend, model="house-model", dimensions=500)
    assert (model.backend, model.model, model.dimensions) == (backend, "house-model", 500)
    assert model.max_input_tokens == 512


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"backend": "ollama", "dimensions": 768}, "has 1024 dimensions, not 768"),
        ({"backend": "bedrock", "dimensions": 300}, "has 1024 dimensions, not 300"),
        ({"backend": "openai", "dimensions": 1537}, "has 1536 dimensions, not 1537"),
        ({"backend": "openai", "model": "text-embedding-3-large", "dimensions": 3072}, "more than the 2000"),
        ({"backend": "openai", "model": "house-model", "dimensions": 2001}, "more than the 2000"),
    ],
)
def test_dimensions_that_cannot_be_had_are_refused(choices: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        chosen(**choices)


@pytest.mark.parametrize(
    ("model", "max_input_tokens", "chunk_chars"),
    [
        ("bge-m3", 2048, 2000),
        ("nomic-embed-text", 2048, 2000),
        ("mxbai-embed-large", 512, 1024),
        ("all-minilm", 256, 512),
    ],
)
def test_the_length_to_chunk_to_follows_the_window(model: str, max_input_tokens: int, chunk_chars: int) -> None:
    described = chosen(backend="ollama", model=model)
    assert (described.max_input_tokens, described.chunk_chars) == (max_input_tokens, chunk_chars)


def test_a_trained_prefix_stands_before_every_window() -> None:
    embedder = make_embedder(EmbeddingSettings(backend="ollama", model="multilingual-e5-small"))
    assert isinstance(embedder, OllamaEmbedder)
    windows = embedder._windows("word " * 600)
    assert len(windows) > 1
    assert all(window.startswith("query: ") and window.count("query") == 1 for window in windows)
    assert all(estimated_tokens(window) <= 510 for window in windows)


def test_importing_the_factory_imports_no_backend() -> None:
    heavy = ["numpy", "onnxruntime", "tokenizers", "boto3", "httpx", "knowledge.embedding.minilm"]
    program = f"import sys, knowledge.embedding.factory; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout == "[]\n"
