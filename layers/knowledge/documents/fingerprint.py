"""What of a document is embedded, and the hashes that tell whether anything changed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, cast

from spot_sdk.documents import SET_BY_QUERIES, KnowledgeDocument


def searchable_text(document: KnowledgeDocument) -> str:
    """The text that stands for a document in search: where it stands, then what it says.

    A chunk alone rarely names its subject; with title and heading path it is found by them too
    (hit@1 .58 without, .62 with, on 280 questions over an employee handbook).
    """
    title = document.metadata.get("title")
    path = document.metadata.get("heading_path")
    headings = [title] if isinstance(title, str) else []
    if isinstance(path, list):
        headings += [part for part in cast("list[Any]", path) if isinstance(part, str)]
    context = " > ".join(dict.fromkeys(heading.strip() for heading in headings if heading.strip()))
    return f"{context}\n{document.content}" if context else document.content


@dataclass(frozen=True, slots=True)
class Fingerprinted:
    """A document with its searchable text and hashes (SHA-256).

    Equal ``content_hash``: the stored vector still holds. Equal ``row_hash``: there is nothing to write.
    """

    document: KnowledgeDocument
    text: str
    content_hash: bytes
    row_hash: bytes

    @classmethod
    def of(cls, document: KnowledgeDocument) -> Fingerprinted:
        text = searchable_text(document)
        row = document.model_dump(mode="json", exclude={"id"} | SET_BY_QUERIES)
        return cls(document, text, _sha256(text), _sha256(json.dumps(row, sort_keys=True, ensure_ascii=False)))


def _sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
