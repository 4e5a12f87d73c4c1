"""The Bedrock backend against botocore's own stub, which checks requests and answers against the service's model."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import boto3
import numpy as np
import pytest
from botocore.config import Config
from botocore.response import StreamingBody
from botocore.stub import Stubber

from knowledge.embedding.bedrock import BedrockEmbedder
from knowledge.embedding.factory import make_embedder
from knowledge.embedding.settings_model import EmbeddingSettings
from knowledge.embedding.vectors import unit
from spot_sdk.errors import EmbedderUnavailable, EmbeddingFailed

MODEL = "amazon.titan-embed-text-v2:0"
SETTINGS = EmbeddingSettings(backend="bedrock", dimensions=256, batch_size=1, aws_region="eu-central-1")


@pytest.fixture
def stub() -> Iterator[Stubber]:
    client = boto3.client(
        "bedrock-runtime", region_name="eu-central-1", aws_access_key_id="test", aws_secret_access_key="test"
    )
    with Stubber(client) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


@pytest.fixture
def embedder(stub: Stubber) -> BedrockEmbedder:
    """One call at a time, so that the stub's answers have an order."""
    return BedrockEmbedder(SETTINGS, client=stub.client)


def values(seed: int) -> list[float]:
    return [math.sin(seed * 1000 + index) for index in range(256)]


def expect(stub: Stubber, text: str, answer: object) -> None:
    content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    request = {"inputText": text, "dimensions": 256, "normalize": True}
    stub.add_response(
        "invoke_model",
        {"body": StreamingBody(io.BytesIO(content), len(content)), "contentType": "application/json"},
        {"modelId": MODEL, "body": json.dumps(request), "accept": "application/json"},
    )


def test_each_text_is_one_call(stub: Stubber, embedder: BedrockEmbedder) -> None:
    for seed, text in enumerate(["one", "two", "three"]):
        expect(stub, text, {"embedding": values(seed), "inputTextTokenCount": 1})
    vectors = embedder.embed_batch(["one", "two", "three"])
    assert np.array_equal(np.stack(vectors), np.stack([unit(values(seed), 256) for seed in range(3)]))


def test_nothing_calls_nothing(embedder: BedrockEmbedder) -> None:
    assert embedder.embed_batch([]) == []


@pytest.mark.parametrize(
    ("answer", "rule"),
    [
        ({"embedding": [math.nan] + [1.0] * 255}, "not finite"),
        ({"embedding": [0.0] * 256}, "zero in every dimension"),
        ({"embedding": [1.0] * 1024}, "1024 numbers, not 256"),
        ({"embedding": None}, "not a list of numbers"),
        ({}, "holds no embedding"),
        ([], "holds no embedding"),
        (b"<html>", "holds no embedding"),
    ],
)
def test_a_vector_that_is_none_costs_only_its_text(
    stub: Stubber, embedder: BedrockEmbedder, answer: object, rule: str
) -> None:
    expect(stub, "bad", answer)
    expect(stub, "good", {"embedding": values(1)})
    bad, good = embedder.embed_batch(["bad", "good"])
    with pytest.raises(EmbeddingFailed, match=rule):
        raise bad  # type: ignore[misc]
    assert np.array_equal(good, unit(values(1), 256))


def test_a_text_that_is_refused_costs_only_itself(stub: Stubber, embedder: BedrockEmbedder) -> None:
    stub.add_client_error("invoke_model", "ValidationException", "Too many input tokens.", 400)
    expect(stub, "good", {"embedding": values(1)})
    bad, good = embedder.embed_batch(["bad", "good"])
    with pytest.raises(EmbeddingFailed, match="Too many input tokens"):
        raise bad  # type: ignore[misc]
    assert np.array_equal(good, unit(values(1), 256))


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("ThrottlingException", 429),
        ("ServiceUnavailableException", 503),
        ("ModelNotReadyException", 429),
        ("ModelTimeoutException", 408),
        ("InternalServerException", 500),
        ("AccessDeniedException", 403),
        ("ResourceNotFoundException", 404),
    ],
)
def test_a_service_that_does_not_serve_is_unavailable(
    stub: Stubber, embedder: BedrockEmbedder, code: str, status: int
) -> None:
    stub.add_client_error("invoke_model", code, "no", status)
    with pytest.raises(EmbedderUnavailable, match=code):
        embedder.embed("text")


def test_a_service_that_cannot_be_reached_is_unavailable() -> None:
    client = boto3.client(
        "bedrock-runtime",
        region_name="eu-central-1",
        endpoint_url="http://127.0.0.1:9",
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(retries={"total_max_attempts": 1}),
    )
    with pytest.raises(EmbedderUnavailable, match="cannot be reached"):
        BedrockEmbedder(SETTINGS, client=client).embed("text")


def test_several_texts_are_under_way_at_once_and_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    real = ThreadPoolExecutor.__init__

    def recording(self: ThreadPoolExecutor, max_workers: int, **named: object) -> None:
        sizes.append(max_workers)
        real(self, max_workers, **named)

    monkeypatch.setattr(ThreadPoolExecutor, "__init__", recording)

    class Client:
        def invoke_model(self, *, modelId: str, body: str, accept: str) -> dict[str, object]:  # noqa: N803
            content = json.dumps({"embedding": values(int(json.loads(body)["inputText"]))}).encode()
            return {"body": io.BytesIO(content)}

    embedder = BedrockEmbedder(SETTINGS.model_copy(update={"batch_size": 64}), client=Client())
    vectors = embedder.embed_batch([str(number) for number in range(20)])
    assert np.array_equal(np.stack(vectors), np.stack([unit(values(number), 256) for number in range(20)]))
    assert sizes == [8]


def test_the_default_is_titan_with_1024_dimensions() -> None:
    model = make_embedder(EmbeddingSettings(backend="bedrock", aws_region="eu-central-1")).model
    assert (model.model, model.dimensions, model.max_input_tokens, model.chunk_chars) == (MODEL, 1024, 8192, 2000)
