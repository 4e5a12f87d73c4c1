"""An item's text in passages: what each of its vectors is of, and what a search shows as evidence."""

from __future__ import annotations

from typing import NamedTuple

from pydantic import JsonValue

from knowledge.items.model import searchable_text
from spot_sdk.chunking import chunk_text

_OVERLAP_PART = 8
_SHOWN_CHARS = 500


class Passage(NamedTuple):
    """A slice of an item's text; ``embedded`` is what its vector is of: under the item's title, where it is a part."""

    text: str
    embedded: str


def passages(title: str, summary: str, body: JsonValue, chunk_chars: int) -> list[Passage]:
    """The item as a whole when it is no longer than ``chunk_chars``; else in parts of that length that overlap.

    There is always one, and the first is the beginning. The numbers of the list are those of ``item_embeddings.chunk``.
    """
    text = searchable_text(title, summary, body)
    if len(text) <= chunk_chars:
        return [Passage(text, text)]
    first, *others = chunk_text(text, chunk_chars, chunk_chars // _OVERLAP_PART)
    return [Passage(first, first), *(Passage(part, f"{title}\n{part}") for part in others)]


def shown(passage: Passage) -> str:
    """A passage as evidence: its first 500 characters."""
    return passage.text if len(passage.text) <= _SHOWN_CHARS else passage.text[: _SHOWN_CHARS - 1].rstrip() + "…"
