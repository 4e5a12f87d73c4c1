from __future__ import annotations

import pytest
from pydantic import ValidationError

from knowledge.embedding.factory import make_embedder
from knowledge.embedding.hashing import HashEmbedder
from knowledge.embedding.minilm import MiniLMEmbedder
from knowledge.embedding.settings_model import EmbeddingSettings


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
