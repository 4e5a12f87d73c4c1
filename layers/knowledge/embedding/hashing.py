"""``kl-hash-embed`` version 1: likeness of words and their parts, without a model, a file or a network.

Construction (a change of any step is a new version):

1. The text is brought to Unicode form NFKC and case-folded. Its tokens are the runs of word characters (``\\w+``). A
   text without any has its non-blank characters as tokens instead, so that every text that is not blank has a vector.
2. Each token gives the feature ``w:TOKEN`` and, for each three neighbouring characters of ``^TOKEN$``, ``t:TRIGRAM``.
3. A feature that occurs n times has the value sqrt(n); trigrams count half as much as words.
4. Feature hashing with signs: the first eight bytes of BLAKE2b over the feature's UTF-8, read as a little-endian
   number h, give the dimension ``(h >> 1) % 384`` and the sign (plus for an even h). Values that meet are added; the
   signs keep the expected similarity of unrelated texts at zero.
5. The sum is divided by its Euclidean length.

Only correctly rounded operations (add, multiply, square root, divide) are used, in a fixed order, so vectors are the
same in every process and on every platform. This is lexical likeness: it knows that "photosynthetic" is near
"photosynthesis", and nothing of synonyms.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING

from knowledge.embedding.vectors import unit_or_reason
from knowledge.embedding.windows import WindowedEmbedder
from spot_sdk.documents import EmbeddingModel
from spot_sdk.errors import EmbeddingFailed

if TYPE_CHECKING:
    from knowledge.embedding.base import Vector

DIMENSIONS = 384
TRIGRAM_WEIGHT = 0.5
MODEL = EmbeddingModel(
    backend="hash",
    model="kl-hash-embed",
    version="1",
    dimensions=DIMENSIONS,
    max_input_tokens=1_000_000,  # it has no window: no text that the store takes is longer
    chunk_chars=2000,
)


class HashEmbedder(WindowedEmbedder[str]):
    """``kl-hash-embed`` 1, an Embedder without dependencies.

    Raises EmbeddingFailed for a text of blanks only. It has no window, so no text is over it.
    """

    @property
    def model(self) -> EmbeddingModel:
        return MODEL

    def _windows(self, text: str) -> list[str]:
        return [text]

    def _embed_windows(self, windows: Sequence[str]) -> list[Vector | EmbeddingFailed]:
        return [unit_or_reason(hash_features(text), DIMENSIONS) for text in windows]


def hash_features(text: str) -> list[float]:
    """The signed, weighted feature counts of a text in 384 buckets, not yet of unit length (steps 1 to 4)."""
    buckets = [0.0] * DIMENSIONS
    for feature, count in Counter(_features(text)).items():
        bucket, sign = _bucket(feature)
        buckets[bucket] += sign * (TRIGRAM_WEIGHT if feature[0] == "t" else 1.0) * math.sqrt(count)
    return buckets


def _features(text: str) -> Iterator[str]:
    text = unicodedata.normalize("NFKC", text).casefold()
    for token in re.findall(r"\w+", text) or re.findall(r"\S", text):
        yield f"w:{token}"
        padded = f"^{token}$"
        for start in range(len(padded) - 2):
            yield f"t:{padded[start : start + 3]}"


@lru_cache(maxsize=65_536)
def _bucket(feature: str) -> tuple[int, float]:
    digest = blake2b(feature.encode(), digest_size=8).digest()
    number = int.from_bytes(digest, "little")
    return (number >> 1) % DIMENSIONS, -1.0 if number & 1 else 1.0
