"""SPOT's SDK for the Knowledge Store: everything that a provider or an analyzer needs.

The names below are loaded when first used, so that who imports only ``spot_sdk.tag_expression`` pays for no HTTP
client.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spot_sdk.chunking import chunk_text
    from spot_sdk.client import KnowledgeClient
    from spot_sdk.documents import KnowledgeDocument, RetrievalLimits
    from spot_sdk.knowledge_tags import KnowledgeTag

__all__ = ["KnowledgeClient", "KnowledgeDocument", "KnowledgeTag", "RetrievalLimits", "chunk_text"]


def __getattr__(name: str) -> object:
    if name in __all__:
        return getattr(import_module("spot_sdk.knowledge"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
