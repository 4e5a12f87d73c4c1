"""Keys that operators issue: bound to a role, and for a provider to its source. Only their SHA-256 is stored."""

from __future__ import annotations

import secrets
from datetime import timedelta
from pathlib import Path

from knowledge.access.keyring import digest
from knowledge.access.roles import Caller, Role
from knowledge.db.connection import Database, Transaction
from knowledge.db.statements import load_statements
from spot_sdk.access import IssuedKey, IssueKey, KeyRecord
from spot_sdk.errors import NotFound

_SQL = load_statements(Path(__file__).with_name("queries.sql"))


class KeyStore:
    """Issues, rotates, lists and revokes keys. Each method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, key_digest: bytes) -> Caller | None:
        """The caller whose key has this SHA-256, if it is valid now."""

        def work(transaction: Transaction) -> Caller | None:
            row = transaction.execute(_SQL["find"], {"digest": key_digest}).fetchone()
            return None if row is None else Caller(Role[row["role"].upper()], row["source"])

        return self._database.run(work)

    def issue(self, request: IssueKey) -> IssuedKey:
        """A new key for a name. The one before it stays valid for ``grace_s`` seconds, older ones go now."""
        key = secrets.token_urlsafe(32)
        name = {"name": request.name}

        def work(transaction: Transaction) -> None:
            transaction.execute(_SQL["hold_name"], name)
            transaction.execute(_SQL["prune"], name)
            transaction.execute(_SQL["retire"], name | {"grace": timedelta(seconds=request.grace_s)})
            transaction.execute(
                _SQL["issue"], name | {"digest": digest(key), "role": request.role, "source": request.source}
            )

        self._database.run(work, repeat_after_loss=False)
        return IssuedKey(name=request.name, role=request.role, source=request.source, key=key)

    def revoke(self, name: str) -> None:
        """Make every key of this name invalid. Raises NotFound when there is none."""
        if not self._database.run(lambda transaction: transaction.execute(_SQL["revoke"], {"name": name}).rowcount):
            raise NotFound(f"there is no key named {name!r}")

    def list(self) -> list[KeyRecord]:
        """Every key by name, newest first."""
        return self._database.run(
            lambda transaction: [KeyRecord(**row) for row in transaction.execute(_SQL["list"]).fetchall()]
        )
