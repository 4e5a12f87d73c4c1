"""The server's errors: the set that ``spot_sdk.errors`` declares, and how PostgreSQL's failures become members of it."""

from __future__ import annotations
