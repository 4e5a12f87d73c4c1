"""Texts longer than a model's window: cut into windows, embedded window by window, put together again.

A model reads a limited number of tokens at once and drops the rest without a word. So every embedder here cuts a long
text into windows that overlap a little and takes the mean of their vectors, in which the first window counts as much as
all others together: what a text is about stands at its beginning, but not only there. The rule was chosen by
measurement (docs/adr/0005).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from knowledge.embedding.vectors import weighted_mean
from spot_sdk.documents import EmbeddingModel
from spot_sdk.errors import EmbeddingFailed

if TYPE_CHECKING:
    from knowledge.embedding.base import Vector

RULE_REVISION = "w1"
"""Part of every model's version, because vectors made by different rules are not comparable."""

OVERLAP_PART = 8
"""Neighbouring windows share an eighth of their length, so that no sentence is seen only in halves."""

MAX_WINDOWS = 32
"""Of a text with more windows so many are embedded, spread evenly from its first to its last: enough to tell what it is
about, and no text takes a model minutes."""

Item = TypeVar("Item")
Window = TypeVar("Window", bound=Sequence[object])


def window_spans(costs: Sequence[int], budget: int, overlap: int) -> list[tuple[int, int]]:
    """Half-open spans over ``costs`` that each cost at most ``budget`` and together cover everything, in order.

    Neighbours share items worth at most ``overlap`` (which must be smaller than ``budget``). An item that alone costs
    more than the budget gets a span of its own. Nothing to cover is one empty span.
    """
    if not 0 <= overlap < budget:
        raise ValueError(f"an overlap of {overlap} does not fit a budget of {budget}")
    spans: list[tuple[int, int]] = []
    start, end, spent = 0, 0, 0
    while end < len(costs):
        while end < len(costs) and (end == start or spent + costs[end] <= budget):
            spent += costs[end]
            end += 1
        spans.append((start, end))
        start, spent = end, 0
        if end < len(costs):
            room = min(overlap, budget - costs[end])
            while spent + costs[start - 1] <= room:
                start -= 1
                spent += costs[start]
    return spans or [(0, 0)]


def spread(items: Sequence[Item], at_most: int) -> list[Item]:
    """All the items, or of more than ``at_most`` (2 or more) so many, evenly from the first to the last."""
    if len(items) <= at_most:
        return list(items)
    step = (len(items) - 1) / (at_most - 1)
    return [items[round(number * step)] for number in range(at_most)]


class EmbeddedWindows(NamedTuple):
    """The windows of one text, in order: their unit vectors, and their lengths (in tokens, or in characters)."""

    vectors: list[Vector]
    lengths: list[int]


def combined(windows: EmbeddedWindows) -> Vector:
    """The one vector of a text: the mean of its windows by their lengths, the first counting as much as the rest."""
    first, *rest = windows.lengths
    return weighted_mean(windows.vectors, [max(1, first, sum(rest)), *rest])


class WindowedEmbedder(ABC, Generic[Window]):
    """An Embedder for which a backend supplies its model, how it cuts a text, and how it embeds the windows."""

    @property
    @abstractmethod
    def model(self) -> EmbeddingModel: ...

    @abstractmethod
    def _windows(self, text: str) -> list[Window]:
        """The text cut into windows that the model reads whole; at least one."""

    @abstractmethod
    def _embed_windows(self, windows: Sequence[Window]) -> list[Vector | EmbeddingFailed]:
        """A unit vector, or the reason why there is none, for each window, in order; raises EmbedderUnavailable."""

    def embed(self, text: str) -> Vector:
        """The vector of one text; raises EmbeddingFailed and EmbedderUnavailable."""
        [vector] = self.embed_batch([text])
        if isinstance(vector, EmbeddingFailed):
            raise vector
        return vector

    def embed_batch(self, texts: Sequence[str]) -> list[Vector | EmbeddingFailed]:
        """A vector, or the reason why there is none, for each text, in order; raises EmbedderUnavailable only."""
        return [
            combined(windows) if isinstance(windows, EmbeddedWindows) else windows
            for windows in self.embed_windows(texts, at_most=MAX_WINDOWS)
        ]

    def embed_windows(self, texts: Sequence[str], at_most: int) -> list[EmbeddedWindows | EmbeddingFailed]:
        """What ``embed_batch`` combines: each text's windows, or the reason why one of them has no vector."""
        windows_of = [spread(self._windows(text), at_most) if _is_unicode(text) else [] for text in texts]
        results = iter(self._embed_windows([window for windows in windows_of for window in windows]))
        return [_gathered(windows, [next(results) for _ in windows]) for windows in windows_of]

    def over_window(self, text: str) -> bool:
        """True when the text is longer than the model reads at once."""
        return _is_unicode(text) and len(self._windows(text)) > 1


def _gathered(
    windows: Sequence[Sequence[object]], results: Sequence[Vector | EmbeddingFailed]
) -> EmbeddedWindows | EmbeddingFailed:
    if not windows:
        return EmbeddingFailed("a lone surrogate is not text")
    vectors: list[Vector] = []
    for result in results:
        if isinstance(result, EmbeddingFailed):
            return result
        vectors.append(result)
    return EmbeddedWindows(vectors, [len(window) for window in windows])


def _is_unicode(text: str) -> bool:
    """False for a string with a lone surrogate, which neither a tokenizer nor JSON can carry."""
    return not any("\ud800" <= character <= "\udfff" for character in text)
