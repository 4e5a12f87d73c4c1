"""The names of the indexes over the documents' vectors."""

from __future__ import annotations

import hashlib

VECTOR_INDEX = "knowledge_documents_embedding"
"""Over all rows; a migration makes it."""
TAG_INDEX_PREFIX = "knowledge_documents_tag_"


def tag_index_name(tag: str) -> str:
    """The name of a tag's index: a digest, because a tag may be longer than PostgreSQL's names and has capitals."""
    return f"{TAG_INDEX_PREFIX}{hashlib.sha256(tag.encode()).hexdigest()[:16]}"
