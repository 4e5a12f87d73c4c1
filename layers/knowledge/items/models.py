"""Which embedding models items are searched by: those that run in this process, and nothing that asks a network."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from knowledge.embedding.factory import make_embedder
from knowledge.embedding.settings_model import EmbeddingSettings
from spot_sdk.errors import InvalidRequest, ModelMismatch

if TYPE_CHECKING:
    from knowledge.embedding.base import Embedder

LocalBackend = Literal["hash", "minilm"]

LOCAL_BACKENDS: tuple[LocalBackend, ...] = get_args(LocalBackend)

_FLOORS: dict[str, float] = {"hash": 0.1, "minilm": 0.2}
"""The least cosine similarity that says something: unrelated texts stay below (measured: docs/adr/0016)."""

_CHUNK_CHARS: dict[str, int] = {"hash": 500, "minilm": 500}


class ItemModel(NamedTuple):
    """A model as the database records it."""

    backend: str
    model: str
    version: str
    dimensions: int

    def __str__(self) -> str:
        return f"{self.model} {self.version} ({self.dimensions} dimensions)"

    @property
    def floor(self) -> float:
        """A cosine similarity below this counts as none."""
        return _FLOORS[self.backend]

    @property
    def chunk_chars(self) -> int:
        """Texts longer than this are embedded in chunks."""
        return _CHUNK_CHARS[self.backend]


@cache
def local_embedder(backend: str) -> Embedder:
    """The embedder of a backend, one for the process. Raises InvalidRequest for one that is not local."""
    for known in LOCAL_BACKENDS:
        if backend == known:
            return make_embedder(EmbeddingSettings(backend=known))
    raise InvalidRequest(
        f"items are embedded by {' or '.join(LOCAL_BACKENDS)}, which need no network; not by {backend}"
    )


def model_of(backend: str) -> ItemModel:
    """What this version of the code makes of a backend."""
    made = local_embedder(backend).model
    return ItemModel(backend, made.model, made.version, made.dimensions)


def embedder_of(model: ItemModel) -> Embedder:
    """The embedder whose vectors are those of ``model``. Raises ModelMismatch when this code makes others."""
    if model.backend not in LOCAL_BACKENDS or model_of(model.backend) != model:
        raise ModelMismatch(
            f"the items have vectors of {model}, which this version does not make; move them to another model with "
            "`knowledge items reembed`"
        )
    return local_embedder(model.backend)
