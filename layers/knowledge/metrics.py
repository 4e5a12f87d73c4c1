"""Every metric there is, in one place. The functions record these, ``GET /metrics`` and the dashboard show these, and
docs/reference/metrics.md is made from these (``python tools/metrics.py``).

A dimension has few values: never an id, a tag or a text. See ``knowledge.telemetry`` for how values are recorded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

NAMESPACE = "KnowledgeStore"
"""That of CloudWatch, unless the setting POWERTOOLS_METRICS_NAMESPACE says otherwise."""

Kind = Literal["counter", "gauge", "histogram"]
Unit = Literal["Count", "Seconds", "None"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: what it counts or measures, and by what.

    ``dimensions`` go with every value. In CloudWatch it is found by each choice of them in ``also_by`` as well, for
    alarms take no sums there and percentiles have none. ``buckets`` are a histogram's upper bounds in ``GET /metrics``.
    """

    name: str
    kind: Kind
    help: str
    dimensions: tuple[str, ...] = ()
    unit: Unit = "Count"
    buckets: tuple[float, ...] = ()
    also_by: tuple[tuple[str, ...], ...] = ()


_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

QUERY_DURATION = Metric(
    "knowledge_query_duration_seconds",
    "histogram",
    "Time to answer a query inside the function, by whether a kept answer served and whether tags filtered.",
    ("cache_hit", "has_tag_filter"),
    "Seconds",
    _SECONDS,
    (("cache_hit",), ()),
)
EMBED_DURATION = Metric(
    "knowledge_embed_duration_seconds",
    "histogram",
    "Time of one call of the embedding model, for a question or a batch of documents.",
    ("backend",),
    "Seconds",
    _SECONDS,
    ((),),
)
EMBED_CACHE_HITS = Metric(
    "knowledge_embed_cache_hits_total", "counter", "Questions whose vector was kept from an earlier one."
)
EMBED_CACHE_MISSES = Metric(
    "knowledge_embed_cache_misses_total", "counter", "Questions whose vector had to be computed."
)
QUERY_PLANS = Metric(
    "knowledge_query_plans_total", "counter", "Searches of nearest vectors, by the ways that they took.", ("plan",)
)
SHORT_RESULTS_AVOIDED = Metric(
    "knowledge_query_short_results_avoided_total",
    "counter",
    "Searches in which the vector index held too few matches, and another way found the rest.",
)
SLOW_QUERIES = Metric("knowledge_slow_queries_total", "counter", "Queries that took longer than SLOW_QUERY_MS.")
REQUESTS = Metric(
    "knowledge_requests_total",
    "counter",
    "HTTP requests, by function and the kind of answer: 2xx, 4xx or 5xx.",
    ("function", "status"),
)
UPSERTS = Metric(
    "knowledge_upserts_total",
    "counter",
    "Documents created or updated, by source; rare ones are `other`.",
    ("source",),
    also_by=((),),
)
DOCS = Metric("knowledge_docs_total", "gauge", "Live documents; counted hourly, and whenever stats are asked for.")
SOURCE_DOCS = Metric("knowledge_source_docs", "gauge", "Live documents of a source; counted as the above.", ("source",))
SOURCE_AGE = Metric(
    "knowledge_source_age_seconds",
    "gauge",
    "Time since a source's newest document, or since its last sync that ended well if that was later.",
    ("source",),
    "Seconds",
)
CLEANUP_DELETED = Metric("knowledge_cleanup_deleted_total", "counter", "Expired documents that the clean-up removed.")
SYNC_RUNS = Metric(
    "knowledge_sync_runs_total",
    "counter",
    "Sync runs that ended, by name (source:... or provider:...) and status: succeeded, partial, failed or skipped.",
    ("name", "status"),
    also_by=(("status",),),
)
SYNC_REMOVED = Metric(
    "knowledge_sync_removed_total", "counter", "Documents removed because their source no longer had them.", ("name",)
)
SYNC_GUARD_STOPS = Metric(
    "knowledge_sync_guard_stops_total", "counter", "Runs whose removals were held back as suspiciously many.", ("name",)
)
LEASE_TAKEOVERS = Metric(
    "knowledge_lease_takeovers_total", "counter", "Leases taken over from a holder that vanished without a word."
)
REEMBED_PROGRESS = Metric(
    "knowledge_reembed_progress_ratio",
    "gauge",
    "Share of documents that have the next model's vector; recorded only while the model is being changed.",
    unit="None",
)
DATABASE_CONNECTIONS = Metric(
    "knowledge_database_connections", "gauge", "Connections to this database; counted as the documents are."
)

METRICS = (
    QUERY_DURATION,
    EMBED_DURATION,
    EMBED_CACHE_HITS,
    EMBED_CACHE_MISSES,
    QUERY_PLANS,
    SHORT_RESULTS_AVOIDED,
    SLOW_QUERIES,
    REQUESTS,
    UPSERTS,
    DOCS,
    SOURCE_DOCS,
    SOURCE_AGE,
    CLEANUP_DELETED,
    SYNC_RUNS,
    SYNC_REMOVED,
    SYNC_GUARD_STOPS,
    LEASE_TAKEOVERS,
    REEMBED_PROGRESS,
    DATABASE_CONNECTIONS,
)
