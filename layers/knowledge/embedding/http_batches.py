"""What embedding servers have in common: texts travel in batches, and one bad text must cost only itself."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from knowledge.embedding.estimate import estimated_tokens, estimated_windows
from knowledge.embedding.json_api import JsonApi, Reply
from knowledge.embedding.models import RemoteChoice
from knowledge.embedding.vectors import unit_or_reason
from knowledge.embedding.windows import WindowedEmbedder
from spot_sdk.documents import EmbeddingModel
from spot_sdk.errors import EmbedderUnavailable, EmbeddingFailed

if TYPE_CHECKING:
    from knowledge.embedding.base import Vector

_HARMLESS = "hello"
_NOT_ABOUT_TEXT = {
    401: "the key is missing or wrong",
    403: "the key does not allow this",
    404: "there is no such model, or no such path",
}


class HttpEmbedder(WindowedEmbedder[str]):
    """An Embedder over HTTP, for which a backend supplies the bodies of its requests and the reading of its answers.

    A batch that is refused is halved until the texts that the server refuses stand alone. Whether the server refuses
    a text or does not work at all (a wrong setting, a model that cannot be loaded) is asked with a harmless text.
    """

    def __init__(self, choice: RemoteChoice, api: JsonApi, *, name: str, batch_size: int) -> None:
        self._choice = choice
        self._api = api
        self._name = name
        self._batch_size = batch_size

    @property
    def model(self) -> EmbeddingModel:
        return self._choice.model

    def close(self) -> None:
        """Close the connections; the embedder cannot be used after."""
        self._api.close()

    @abstractmethod
    def _request(self, texts: Sequence[str]) -> dict[str, object]:
        """The body that asks for the texts' embeddings."""

    @abstractmethod
    def _embeddings_in(self, body: Any) -> list[Any] | None:
        """The embeddings in an answer, in the order of the texts; None when it is not the answer expected."""

    def _windows(self, text: str) -> list[str]:
        prefix = self._choice.prefix
        room = self.model.max_input_tokens - estimated_tokens(prefix)
        return [prefix + window for window in estimated_windows(text, room)]

    def _embed_windows(self, windows: Sequence[str]) -> list[Vector | EmbeddingFailed]:
        results: list[Vector | EmbeddingFailed] = []
        for start in range(0, len(windows), self._batch_size):
            results += self._embed_or_halve(windows[start : start + self._batch_size])
        return results

    def _embed_or_halve(self, texts: Sequence[str], *, server_works: bool = False) -> list[Vector | EmbeddingFailed]:
        reply = self._api.post(self._request(texts), server_works=server_works)
        if reply.ok:
            try:
                return self._read(reply.body, len(texts))
            except EmbeddingFailed as unreadable:
                reason = unreadable
        else:
            if not server_works:
                self._check_server(reply)
            server_works = True
            reason = EmbeddingFailed(f"{self._name} refuses the text with {reply.status}: {reply.reason}")
        if len(texts) == 1:
            return [reason]
        middle = len(texts) // 2
        return self._embed_or_halve(texts[:middle], server_works=server_works) + self._embed_or_halve(
            texts[middle:], server_works=server_works
        )

    def _check_server(self, refusal: Reply) -> None:
        """Raise EmbedderUnavailable when a refusal cannot be the fault of the texts."""
        if refusal.status in _NOT_ABOUT_TEXT:
            raise EmbedderUnavailable(f"{self._name} answered {refusal.status}: {_NOT_ABOUT_TEXT[refusal.status]}")
        harmless = self._api.post(self._request([self._choice.prefix + _HARMLESS]))
        if not harmless.ok:
            raise EmbedderUnavailable(f"{self._name} answered {harmless.status} to any text: {harmless.reason}")

    def _read(self, body: Any, count: int) -> list[Vector | EmbeddingFailed]:
        """The vectors in an answer; raises EmbeddingFailed when it cannot be told which text has which."""
        embeddings = self._embeddings_in(body)
        if embeddings is None:
            raise EmbeddingFailed(f"the answer of {self._name} holds no list of embeddings")
        if len(embeddings) != count:
            raise EmbeddingFailed(f"{self._name} answered {len(embeddings)} embeddings for {count} texts")
        return [unit_or_reason(embedding, self.model.dimensions) for embedding in embeddings]
