"""The database's address: whether a text is one, and one from the parts that a secret of Amazon RDS's shape names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo


def check_address(text: str) -> None:
    """Raises ValueError for a text that is no connection string; whether anything is there is not asked."""
    try:
        conninfo_to_dict(text)
    except ProgrammingError as error:
        raise ValueError(str(error).strip()) from error


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
