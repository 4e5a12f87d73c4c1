"""The database's address, from the parts that a secret of Amazon RDS's shape names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from psycopg.conninfo import make_conninfo


def address_of(secret: Mapping[str, Any]) -> str:
    """A connection string that checks the server's certificate; raises KeyError naming the part that is missing."""
    return make_conninfo(
        host=secret["host"],
        port=secret.get("port", 5432),
        dbname=secret.get("dbname", "knowledge"),
        user=secret["username"],
        password=secret["password"],
        sslmode="verify-full",
        sslrootcert="system",
    )
