"""The OpenAI backend against a server that speaks the real protocol; what all HTTP backends share is in test_ollama."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from model_server import DIMENSIONS, KEY, MODEL, Answer, ModelServer, embedding

from knowledge.embedding.factory import make_embedder
from knowledge.embedding.openai import OpenAIEmbedder
from knowledge.embedding.settings_model import EmbeddingSettings
from knowledge.embedding.vectors import unit
from spot_sdk.errors import EmbedderUnavailable, EmbeddingFailed


def openai(url: str, **changes: object) -> OpenAIEmbedder:
    choices = {
        "backend": "openai",
        "model": MODEL,
        "dimensions": DIMENSIONS,
        "openai_base_url": f"{url}/v1/",
        "openai_api_key": KEY,
    }
    embedder = make_embedder(EmbeddingSettings.model_validate(choices | changes))
    assert isinstance(embedder, OpenAIEmbedder)
    return embedder


@pytest.fixture
def embedder(server: ModelServer) -> Iterator[OpenAIEmbedder]:
    running = openai(server.url)
    yield running
    running.close()


def test_items_are_matched_to_texts_by_their_index(server: ModelServer, embedder: OpenAIEmbedder) -> None:
    texts = ["one", "two", "three"]
    vectors = embedder.embed_batch(texts)  # the server answers them in reverse
    assert np.array_equal(np.stack(vectors), np.stack([unit(embedding(text), DIMENSIONS) for text in texts]))
    [request] = server.requests
    assert request.path == "/v1/embeddings"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body == {"model": MODEL, "input": texts, "encoding_format": "float"}


@pytest.mark.parametrize(
    ("settings", "asked"),
    [
        ({"model": "text-embedding-3-large", "dimensions": None}, 1536),
        ({"model": "text-embedding-3-large", "dimensions": 2000}, 2000),
        ({"model": "text-embedding-3-small", "dimensions": 512}, 512),
    ],
)
def test_a_model_that_can_be_shortened_is_asked_for_its_dimensions(
    server: ModelServer, settings: dict[str, object], asked: int
) -> None:
    embedder = openai(server.url, **settings)
    assert embedder.model.dimensions == asked
    assert len(embedder.embed("text")) == asked
    assert server.requests[0].body["dimensions"] == asked
    embedder.close()


@pytest.mark.parametrize("key", ["sk-wrong", None])
def test_a_key_that_is_not_accepted_is_said_and_not_shown(server: ModelServer, key: str | None) -> None:
    embedder = openai(server.url, openai_api_key=key)
    with pytest.raises(EmbedderUnavailable, match="401: the key is missing or wrong") as caught:
        embedder.embed_batch(["one", "two"])
    assert "sk-" not in str(caught.value)
    assert len(server.requests) == 1
    embedder.close()


def test_one_bad_text_of_sixteen_costs_only_itself(embedder: OpenAIEmbedder) -> None:
    results = embedder.embed_batch([*(f"text {number}" for number in range(15)), "a forbidden text"])
    assert [isinstance(result, EmbeddingFailed) for result in results] == [False] * 15 + [True]
    with pytest.raises(EmbeddingFailed, match="400: the input is forbidden"):
        raise results[15]  # type: ignore[misc]


@pytest.mark.parametrize(
    "data",
    [
        [{"index": 0, "embedding": embedding("one")}, {"index": 0, "embedding": embedding("two")}],
        [{"index": 1, "embedding": embedding("one")}, {"index": 2, "embedding": embedding("two")}],
        [{"embedding": embedding("one")}, {"embedding": embedding("two")}],
        [{"index": "0", "embedding": embedding("one")}, {"index": 1, "embedding": embedding("two")}],
        [{"index": 0}, {"index": 1}],
        [1, 2],
        {},
        None,
    ],
)
def test_items_that_cannot_be_matched_are_asked_for_singly(
    server: ModelServer, embedder: OpenAIEmbedder, data: object
) -> None:
    server.misbehave(lambda *_: Answer(200, {"data": data}))
    vectors = embedder.embed_batch(["one", "two"])
    assert np.array_equal(np.stack(vectors), np.stack([unit(embedding(text), DIMENSIONS) for text in ("one", "two")]))
    assert [request.texts for request in server.requests] == [["one", "two"], ["one"], ["two"]]


def test_the_key_is_not_in_what_the_settings_print() -> None:
    assert KEY not in repr(EmbeddingSettings.model_validate({"backend": "openai", "openai_api_key": KEY}))


@pytest.mark.parametrize(
    "url", ["127.0.0.1:11434", "localhost", "ftp://host/v1", "http://", "http://user:pw@host", "http://host/v1?a=b"]
)
def test_a_base_url_that_is_none_is_refused_at_start(url: str) -> None:
    with pytest.raises(ValueError, match="URL"):
        EmbeddingSettings(backend="openai", openai_base_url=url)
