"""The database's users beside its owner: one that reads and writes rows, and one that only reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, LiteralString

import psycopg
from psycopg import sql

from knowledge.db.failures import translate

Rights = Literal["write", "read"]

_LOCK_KEY = 0x53505254  # any constant; "SPRT"

_GRANTS: dict[Rights, tuple[LiteralString, ...]] = {
    "write": (
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {user}",
        "GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {user}",
    ),
    "read": ("GRANT SELECT ON ALL TABLES IN SCHEMA public TO {user}",),
}


def ensure_user(conninfo: str, secret: Mapping[str, Any], rights: Rights) -> None:
    """Make the user that ``secret`` names (``username``, ``password``), or give it this password and these rights.

    Called after each migration, since rights are on the tables that there are. The password leaves this process only
    as a SCRAM verifier, which the server may log. Raises StoreUnavailable when the database cannot be reached,
    InternalError when ``conninfo`` is not of somebody who may make users.
    """
    name, user = str(secret["username"]), sql.Identifier(str(secret["username"]))
    try:
        with (
            psycopg.connect(conninfo, application_name="knowledge-migrate", prepare_threshold=None) as connection,
            connection.transaction(),
        ):
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK_KEY,))
            verifier = connection.pgconn.encrypt_password(
                str(secret["password"]).encode(), name.encode(), b"scram-sha-256"
            ).decode()
            exists = connection.execute("SELECT FROM pg_roles WHERE rolname = %s", (name,)).fetchone()
            verb = sql.SQL("CREATE" if exists is None else "ALTER")
            connection.execute(sql.SQL("{} ROLE {} LOGIN PASSWORD {}").format(verb, user, sql.Literal(verifier)))
            for grant in _GRANTS[rights]:
                connection.execute(sql.SQL(grant).format(user=user))
    except psycopg.Error as error:
        raise translate(error) from error
