"""SPOT's SDK for the Knowledge Store: everything that a provider or an analyzer needs.

The names below are loaded when first used, so that who imports only ``spot_sdk.tag_expression`` pays for no HTTP
client.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spot_sdk.analysis import AnalysisIndicator, AnalysisRequest, AnalysisResult, DocumentEvidence
    from spot_sdk.chunking import chunk_text
    from spot_sdk.client import KnowledgeClient
    from spot_sdk.documents import KnowledgeDocument, RetrievalLimits
    from spot_sdk.email import Email
    from spot_sdk.knowledge_tags import KnowledgeTag
    from spot_sdk.workflow import WorkflowStage

_MODULES = {
    "AnalysisIndicator": "analysis",
    "AnalysisRequest": "analysis",
    "AnalysisResult": "analysis",
    "DocumentEvidence": "analysis",
    "Email": "email",
    "KnowledgeClient": "client",
    "KnowledgeDocument": "documents",
    "KnowledgeTag": "knowledge_tags",
    "RetrievalLimits": "documents",
    "WorkflowStage": "workflow",
    "chunk_text": "chunking",
}

__all__ = [
    "AnalysisIndicator",
    "AnalysisRequest",
    "AnalysisResult",
    "DocumentEvidence",
    "Email",
    "KnowledgeClient",
    "KnowledgeDocument",
    "KnowledgeTag",
    "RetrievalLimits",
    "WorkflowStage",
    "chunk_text",
]


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return getattr(import_module(f"spot_sdk.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
