"""Likeness of texts without a model: shared words and shared parts of words."""

from __future__ import annotations

import math
import re
from collections import Counter
from functools import lru_cache

from spot_sdk.documents import KnowledgeDocument


def searchable_text(document: KnowledgeDocument) -> str:
    """Title and headings, which are searched with the content, and the content."""
    title, path = document.metadata.get("title"), document.metadata.get("heading_path")
    headings = [title, *(path if isinstance(path, list) else [])]
    return "\n".join([*(part for part in headings if isinstance(part, str)), document.content])


def similarity(one: str, other: str) -> float:
    """From 0 (nothing in common) to 1 (the same words): the cosine of the counts of words and their trigrams."""
    a, b = _features(one), _features(other)
    shared = sum(count * b[feature] for feature, count in a.items())
    return min(1.0, round(shared / (_length(a) * _length(b)), 6))


@lru_cache(maxsize=4096)
def _features(text: str) -> Counter[str]:
    words = re.findall(r"\w+", text.casefold()) or [text]
    features = Counter(words)
    for word in words:
        framed = f"^{word}$"
        features.update(framed[at : at + 3] for at in range(max(1, len(framed) - 2)))
    return features


def _length(features: Counter[str]) -> float:
    return math.sqrt(sum(count * count for count in features.values()))
