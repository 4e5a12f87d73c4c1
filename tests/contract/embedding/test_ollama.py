"""The Ollama backend, and all that the HTTP backends share, against a server that speaks the real protocol."""

from __future__ import annotations

import json
import math
import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from model_server import DIMENSIONS, MODEL, Answer, Misbehaviour, ModelServer, Request, embedding

from knowledge.embedding.factory import make_embedder
from knowledge.embedding.ollama import OllamaEmbedder
from knowledge.embedding.settings_model import EmbeddingSettings
from knowledge.embedding.vectors import unit, weighted_mean
from knowledge.embedding.windows import MAX_WINDOWS
from spot_sdk.errors import EmbedderUnavailable, EmbeddingFailed


def ollama(url: str, **changes: object) -> OllamaEmbedder:
    choices = {"backend": "ollama", "model": MODEL, "dimensions": DIMENSIONS, "ollama_url": url, "timeout_s": 5}
    embedder = make_embedder(EmbeddingSettings.model_validate(choices | changes))
    assert isinstance(embedder, OllamaEmbedder)
    return embedder


@pytest.fixture
def embedder(server: ModelServer) -> Iterator[OllamaEmbedder]:
    running = ollama(server.url)
    yield running
    running.close()


def right(text: str) -> list[float]:
    return unit(embedding(text), DIMENSIONS)


def answering(status: int, body: object = None, **headers: str) -> Misbehaviour:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda server, request, handler: Answer(status, body, named)


def answering_vectors(*vectors: object) -> Misbehaviour:
    return answering(200, {"embeddings": list(vectors)})


def hanging(server: ModelServer, request: Request, handler: BaseHTTPRequestHandler) -> None:
    server.stopping.wait(30)


def hanging_up(server: ModelServer, request: Request, handler: BaseHTTPRequestHandler) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)


def dripping(server: ModelServer, request: Request, handler: BaseHTTPRequestHandler) -> None:
    """A byte now and then, each well within a limit on single reads."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n")
    while not server.stopping.wait(0.05):
        handler.wfile.write(b" ")
        handler.wfile.flush()


# What is asked and answered when all is well


def test_texts_become_unit_vectors_in_their_order(server: ModelServer, embedder: OllamaEmbedder) -> None:
    texts = [f"text {number}" for number in range(40)]
    vectors = embedder.embed_batch(texts)
    assert np.array_equal(np.stack(vectors), np.stack([right(text) for text in texts]))
    assert [len(request.texts) for request in server.requests] == [16, 16, 8]
    assert server.requests[0].path == "/api/embed"
    assert server.requests[0].body == {"model": MODEL, "input": texts[:16], "truncate": False}


def test_one_text_is_one_request(server: ModelServer, embedder: OllamaEmbedder) -> None:
    assert np.array_equal(embedder.embed("a question"), right("a question"))
    assert [request.texts for request in server.requests] == [["a question"]]


def test_nothing_asks_nothing(server: ModelServer, embedder: OllamaEmbedder) -> None:
    assert embedder.embed_batch([]) == []
    assert server.requests == []


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=60), max_size=20))
def test_any_text_survives_the_journey(embedder: OllamaEmbedder, texts: list[str]) -> None:
    for text, vector in zip(texts, embedder.embed_batch(texts), strict=True):
        assert np.array_equal(vector, right(text))


# Texts longer than the window


def test_a_long_text_travels_whole_in_windows(server: ModelServer, embedder: OllamaEmbedder) -> None:
    text = " ".join(f"word{number}" for number in range(400))
    assert embedder.over_window(text)
    vector = embedder.embed(text)
    windows = [window for request in server.requests for window in request.texts]
    assert len(windows) > 1
    assert text.startswith(windows[0])
    assert text.endswith(windows[-1])
    assert all(f"word{number}" in " ".join(windows).split() for number in range(400))
    first, *rest = [len(window) for window in windows]
    weights = [max(first, sum(rest)), *rest]
    assert vector == pytest.approx(weighted_mean([right(window) for window in windows], weights), abs=1e-6)


def test_no_text_is_so_long_that_it_takes_for_ever(server: ModelServer, embedder: OllamaEmbedder) -> None:
    text = "first " + "endless words " * 50_000 + "last"
    embedder.embed(text)
    windows = [window for request in server.requests for window in request.texts]
    assert len(windows) == MAX_WINDOWS
    assert text.startswith(windows[0])
    assert text.endswith(windows[-1])


def test_a_window_that_is_too_long_after_all_is_refused_and_not_cut(server: ModelServer) -> None:
    embedder = ollama(server.url)
    server.misbehave(answering(400, {"error": "the input length exceeds the context length"}))
    with pytest.raises(EmbeddingFailed, match="exceeds the context length"):
        embedder.embed("text")
    embedder.close()


# One bad text of many


@pytest.mark.parametrize("bad", ["forbidden", "unbearable"])
@pytest.mark.parametrize("position", [0, 7, 15])
def test_one_bad_text_of_sixteen_costs_only_itself(
    server: ModelServer, embedder: OllamaEmbedder, bad: str, position: int
) -> None:
    texts = [f"text {number}" for number in range(16)]
    texts[position] = f"a {bad} text"
    results = embedder.embed_batch(texts)
    assert [index for index, result in enumerate(results) if isinstance(result, EmbeddingFailed)] == [position]
    assert np.array_equal(results[8 if position != 8 else 9], right("text 8"))


def test_finding_the_bad_text_costs_few_requests(server: ModelServer, embedder: OllamaEmbedder) -> None:
    """The first refusal is tried again and checked with a harmless text; from then on the server is known to work."""
    embedder.embed_batch(["an unbearable text", *(f"text {number}" for number in range(15))])
    assert [len(request.texts) for request in server.requests] == [16, 16, 1, 8, 4, 2, 1, 1, 2, 4, 8]


@pytest.mark.parametrize("bad", ["forbidden", "unbearable"])
def test_a_bad_text_alone_is_told_from_a_server_that_does_not_work(
    server: ModelServer, embedder: OllamaEmbedder, bad: str
) -> None:
    with pytest.raises(EmbeddingFailed, match="refuses the text"):
        embedder.embed(f"a {bad} text")


def test_a_bad_window_costs_its_text(server: ModelServer, embedder: OllamaEmbedder) -> None:
    good, bad = embedder.embed_batch(["good", "word " * 3000 + "forbidden"])
    assert np.array_equal(good, right("good"))
    assert isinstance(bad, EmbeddingFailed)


@pytest.mark.parametrize(
    ("vector", "rule"),
    [
        ([math.nan] + [1.0] * 7, "not finite"),
        ([math.inf] + [1.0] * 7, "not finite"),
        ([0] * 8, "zero in every dimension"),
        ([1.0] * 7, "7 numbers, not 8"),
        ([], "0 numbers, not 8"),
        (["1"] * 8, "not a list of numbers"),
        ([None] * 8, "not a list of numbers"),
        ("text", "not a list of numbers"),
    ],
)
def test_a_vector_that_is_none_is_refused_by_the_rule_it_breaks(
    server: ModelServer, embedder: OllamaEmbedder, vector: object, rule: str
) -> None:
    server.misbehave(answering_vectors(embedding("one"), vector, embedding("three")))
    one, two, three = embedder.embed_batch(["one", "two", "three"])
    assert np.array_equal(one, right("one"))
    assert isinstance(two, EmbeddingFailed)
    with pytest.raises(EmbeddingFailed, match=rule):
        raise two
    assert np.array_equal(three, right("three"))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_wrong_number_of_vectors_is_never_guessed_at(
    server: ModelServer, embedder: OllamaEmbedder, count: int
) -> None:
    server.misbehave(answering_vectors(*[embedding("one")] * count))
    assert np.array_equal(np.stack(embedder.embed_batch(["one", "two"])), np.stack([right("one"), right("two")]))
    server.misbehave(*[answering_vectors()] * 1)
    with pytest.raises(EmbeddingFailed, match="0 embeddings for 1 texts"):
        embedder.embed("one")


@pytest.mark.parametrize("body", [{}, [], None, {"embeddings": {}}, {"embeddings": None}])
def test_an_answer_without_embeddings_is_named(server: ModelServer, embedder: OllamaEmbedder, body: object) -> None:
    server.misbehave(answering(200, body))
    with pytest.raises(EmbeddingFailed, match="no list of embeddings"):
        embedder.embed("text")


# A server that does not work


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_passing_failure_is_tried_again(server: ModelServer, embedder: OllamaEmbedder, status: int) -> None:
    server.misbehave(answering(status, {"error": "a moment"}))
    assert np.array_equal(embedder.embed("text"), right("text"))
    assert len(server.requests) == 2


@pytest.mark.parametrize("status", [429, 503])
def test_a_lasting_overload_says_when_to_come_back(server: ModelServer, embedder: OllamaEmbedder, status: int) -> None:
    server.misbehave(answering(status, {"error": "busy"}), answering(status, {"error": "busy"}, Retry_After="7"))
    with pytest.raises(EmbedderUnavailable, match="busy") as caught:
        embedder.embed_batch(["one", "two"])
    assert caught.value.retry_after_s == 7
    assert len(server.requests) == 2


def test_the_pause_that_the_server_asks_for_is_kept(server: ModelServer, embedder: OllamaEmbedder) -> None:
    server.misbehave(answering(429, Retry_After="1"))
    started = time.monotonic()
    embedder.embed("text")
    assert time.monotonic() - started >= 1


def test_a_pause_longer_than_our_time_is_handed_on_at_once(server: ModelServer, embedder: OllamaEmbedder) -> None:
    moment = format_datetime(datetime.now(UTC) + timedelta(minutes=1), usegmt=True)
    server.misbehave(answering(503, Retry_After=moment))
    with pytest.raises(EmbedderUnavailable) as caught:
        embedder.embed("text")
    assert caught.value.retry_after_s == pytest.approx(60, abs=3)
    assert len(server.requests) == 1


@pytest.mark.parametrize("nonsense", ["soon", "-1", "", "9" * 400, "Mon, 01 Jan 2020 00:00:00 +99999999999999999999"])
def test_a_pause_that_cannot_be_read_is_ignored(server: ModelServer, embedder: OllamaEmbedder, nonsense: str) -> None:
    server.misbehave(answering(503, Retry_After=nonsense))
    assert np.array_equal(embedder.embed("text"), right("text"))


@pytest.mark.parametrize("status", [400, 500])
def test_a_server_that_refuses_even_a_harmless_text_is_not_available(
    server: ModelServer, embedder: OllamaEmbedder, status: int
) -> None:
    """A model that cannot be loaded answers 500 to everything: no document is to blame, and none is tried singly."""
    server.misbehave(*[answering(status, {"error": "llama runner process has terminated"})] * 40)
    with pytest.raises(EmbedderUnavailable, match="to any text: llama runner"):
        embedder.embed_batch([f"text {number}" for number in range(16)])
    assert len(server.requests) <= 4


def test_a_model_that_is_not_there_is_named(server: ModelServer) -> None:
    embedder = ollama(server.url, model="absent")
    with pytest.raises(EmbedderUnavailable, match="404: there is no such model"):
        embedder.embed("text")
    assert len(server.requests) == 1
    embedder.close()


def test_a_page_instead_of_json_is_no_embedder(server: ModelServer, embedder: OllamaEmbedder) -> None:
    server.misbehave(answering(200, b"<html>Please log in</html>"))
    with pytest.raises(EmbedderUnavailable, match="something else than JSON"):
        embedder.embed("text")


@pytest.mark.parametrize(
    "body", [b"<html>", b"[]", b'"plain"', b'{"error": 5}', b"[" * 100_000, json.dumps({"error": "x" * 5000}).encode()]
)
def test_any_error_body_is_borne(server: ModelServer, embedder: OllamaEmbedder, body: bytes) -> None:
    server.misbehave(*[answering(400, body)] * 2)
    with pytest.raises(EmbedderUnavailable) as caught:
        embedder.embed("text")
    assert len(str(caught.value)) < 400


def test_a_dropped_connection_is_tried_again(server: ModelServer, embedder: OllamaEmbedder) -> None:
    server.misbehave(hanging_up)
    assert np.array_equal(embedder.embed("text"), right("text"))


def test_nobody_listening_is_unavailable_and_names_the_address() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    embedder = ollama(url)
    with pytest.raises(EmbedderUnavailable, match=f"{url}/api/embed cannot be reached"):
        embedder.embed("text")
    embedder.close()


@pytest.mark.parametrize("misbehaviour", [hanging, dripping])
def test_the_time_allowed_is_for_the_whole_exchange(server: ModelServer, misbehaviour: Misbehaviour) -> None:
    embedder = ollama(server.url, timeout_s=0.5)
    server.misbehave(misbehaviour, misbehaviour)
    started = time.monotonic()
    with pytest.raises(EmbedderUnavailable, match=r"did not answer within 0\.5 s"):
        embedder.embed("text")
    assert time.monotonic() - started < 3
    assert len(server.requests) == 1
    embedder.close()


def test_a_redirect_is_not_followed(server: ModelServer, embedder: OllamaEmbedder) -> None:
    server.misbehave(*[answering(307, Location=f"{server.url}/api/embed")] * 2)
    with pytest.raises(EmbedderUnavailable, match="307"):
        embedder.embed("text")


def test_the_model_is_described_before_anything_is_asked() -> None:
    embedder = make_embedder(EmbeddingSettings(backend="ollama"))
    assert embedder.model.model_dump(exclude={"version"}) == {
        "backend": "ollama",
        "model": "bge-m3",
        "dimensions": 1024,
        "max_input_tokens": 2048,
        "chunk_chars": 2000,
    }
