"""The database's address: whether a text is one, and one from the parts that a secret of Amazon RDS's shape names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import certifi
from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo

AMAZON_ROOTS = Path(__file__).with_name("amazon_roots.pem")  # made by tools/rds_roots.py
_OF_AMAZON = (".rds.amazonaws.com", ".rds.amazonaws.com.cn")


def check_address(text: str) -> None:
    """Raises ValueError for a text that is no connection string; whether anything is there is not asked."""
    try:
        conninfo_to_dict(text)
    except ProgrammingError as error:
        raise ValueError(str(error).strip()) from error


def address_of(secret: Mapping[str, Any]) -> str:
    """A connection string that checks the server's certificate; raises KeyError naming the part that is missing.

    Amazon RDS has roots of its own. Others are checked by those that browsers trust, unless the member ``sslrootcert``
    of the secret names a file. ``system`` is not among the choices: the libpq that psycopg brings looks in a folder
    that exists nowhere.
    """
    host = str(secret["host"])
    usual = AMAZON_ROOTS if host.endswith(_OF_AMAZON) else certifi.where()
    return make_conninfo(
        host=host,
        port=secret.get("port", 5432),
        dbname=secret.get("dbname", "knowledge"),
        user=secret["username"],
        password=secret["password"],
        sslmode="verify-full",
        sslrootcert=str(secret.get("sslrootcert", usual)),
    )
