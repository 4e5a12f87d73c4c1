"""The Knowledge Store's server side: ingestion, retrieval and governance on PostgreSQL."""

__version__ = "0.1.0"
