"""Everything that a plugin imports: ``from spot_sdk.knowledge import KnowledgeClient, KnowledgeDocument, ...``."""

from __future__ import annotations

from spot_sdk.batching import BatchLimits
from spot_sdk.cache import KnowledgeCache
from spot_sdk.chunking import MarkdownChunk, chunk_markdown, chunk_spans, chunk_text
from spot_sdk.client import KnowledgeClient
from spot_sdk.documents import KnowledgeDocument, RetrievalLimits, UpsertOutcome, UpsertResult
from spot_sdk.errors import (
    Conflict,
    DeadlineExceeded,
    DuplicateDocument,
    EmbedderUnavailable,
    EmbeddingFailed,
    FirewallCrossed,
    Forbidden,
    InternalError,
    InvalidDocument,
    InvalidInput,
    InvalidItem,
    InvalidRequest,
    InvalidTagExpression,
    KnowledgeError,
    MalformedRequest,
    MethodNotAllowed,
    Misconfigured,
    ModelMismatch,
    NotFound,
    Overloaded,
    PayloadTooLarge,
    Problem,
    StaleRun,
    StoreUnavailable,
    SyncRunning,
    Unauthorized,
    Unavailable,
)
from spot_sdk.knowledge_tags import KnowledgeTag, to_tag
from spot_sdk.retrying import RetryPolicy
from spot_sdk.sync import RemovalLimits
from spot_sdk.sync_run import SyncResult, SyncRun

__all__ = [
    "BatchLimits",
    "Conflict",
    "DeadlineExceeded",
    "DuplicateDocument",
    "EmbedderUnavailable",
    "EmbeddingFailed",
    "FirewallCrossed",
    "Forbidden",
    "InternalError",
    "InvalidDocument",
    "InvalidInput",
    "InvalidItem",
    "InvalidRequest",
    "InvalidTagExpression",
    "KnowledgeCache",
    "KnowledgeClient",
    "KnowledgeDocument",
    "KnowledgeError",
    "KnowledgeTag",
    "MalformedRequest",
    "MarkdownChunk",
    "MethodNotAllowed",
    "Misconfigured",
    "ModelMismatch",
    "NotFound",
    "Overloaded",
    "PayloadTooLarge",
    "Problem",
    "RemovalLimits",
    "RetrievalLimits",
    "RetryPolicy",
    "StaleRun",
    "StoreUnavailable",
    "SyncResult",
    "SyncRun",
    "SyncRunning",
    "Unauthorized",
    "Unavailable",
    "UpsertOutcome",
    "UpsertResult",
    "chunk_markdown",
    "chunk_spans",
    "chunk_text",
    "to_tag",
]
