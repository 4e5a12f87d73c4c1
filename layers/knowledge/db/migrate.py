"""Numbered, append-only migrations: ``migrations/NNNN_title.sql``, each applied once, in order, in a transaction.

Safe to run twice and from two processes at once: a transaction-level advisory lock makes the second wait and then find
nothing to do. A migration that was applied never changes; its checksum is kept and compared.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, LiteralString, cast

import psycopg
from psycopg.rows import DictRow, dict_row

from knowledge.db.failures import translate
from spot_sdk.errors import Conflict, ModelMismatch

if TYPE_CHECKING:
    from spot_sdk.documents import EmbeddingModel

MIGRATIONS = Path(__file__).parent / "migrations"
MAX_INDEXED_DIMENSIONS = 2000  # pgvector's limit for an HNSW index on the type vector

_LOCK_KEY = 0x53504F54  # any constant; "SPOT"
_FILE_NAME = re.compile(r"(?P<number>\d{4})_\w+\.sql")
_HISTORY = """
    CREATE TABLE IF NOT EXISTS knowledge_migrations (
        number     integer PRIMARY KEY,
        name       text NOT NULL,
        checksum   text NOT NULL,
        applied_at timestamptz NOT NULL DEFAULT now()
    )
"""


@dataclass(frozen=True, slots=True)
class Migration:
    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def read_migrations(folder: Path = MIGRATIONS) -> list[Migration]:
    """The migrations of a folder in order. Raises ValueError for a gap or a name that is not NNNN_title.sql."""
    migrations: list[Migration] = []
    for path in sorted(folder.glob("*.sql")):
        match = _FILE_NAME.fullmatch(path.name)
        if match is None or int(match["number"]) != len(migrations) + 1:
            raise ValueError(f"{path.name}: expected {len(migrations) + 1:04d}_title.sql")
        migrations.append(Migration(len(migrations) + 1, path.stem, path.read_text(encoding="utf-8")))
    return migrations


def migrate(
    conninfo: str, model: EmbeddingModel, *, folder: Path = MIGRATIONS, accept_newer: bool = False
) -> list[str]:
    """Bring a database to today's schema, with vector columns for ``model``; returns the names applied now.

    Raises Conflict when the database is newer than this code (unless ``accept_newer``, for a release that is rolled
    back: migrations only add) or an applied migration was edited, ModelMismatch when it holds another model's vectors
    (nothing is altered because of that), StoreUnavailable when it cannot be reached.
    """
    if model.dimensions > MAX_INDEXED_DIMENSIONS:
        raise Conflict(
            f"{model.model} gives {model.dimensions} dimensions; the index holds at most {MAX_INDEXED_DIMENSIONS}. "
            "Set EMBEDDING_DIMENSIONS to what the model can be shortened to."
        )
    try:
        with psycopg.Connection[DictRow].connect(
            conninfo,
            row_factory=dict_row,
            application_name="knowledge-migrate",
            prepare_threshold=None,  # as in ``connection``
        ) as connection:
            applied = [migration.name for migration in read_migrations(folder) if _apply(connection, migration, model)]
            if not accept_newer:
                _refuse_newer_database(connection, folder)
            require_model(connection, model)
            return applied
    except psycopg.Error as error:
        raise translate(error) from error


def _apply(connection: psycopg.Connection[DictRow], migration: Migration, model: EmbeddingModel) -> bool:
    """Apply one migration unless the history has it; True when it was applied now."""
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK_KEY,))
        connection.execute(_HISTORY)
        row = connection.execute(
            "SELECT checksum FROM knowledge_migrations WHERE number = %s", (migration.number,)
        ).fetchone()
        if row is not None:
            if row["checksum"] != migration.checksum:
                raise Conflict(f"migration {migration.name} was edited after this database applied it")
            return False
        connection.execute(
            "SELECT set_config('knowledge.' || key, value, true) FROM jsonb_each_text(%s::jsonb)",
            (model.model_dump_json(),),
        )
        connection.execute(cast("LiteralString", migration.sql))
        connection.execute(
            "INSERT INTO knowledge_migrations (number, name, checksum) VALUES (%s, %s, %s)",
            (migration.number, migration.name, migration.checksum),
        )
        return True


def _refuse_newer_database(connection: psycopg.Connection[DictRow], folder: Path) -> None:
    row = connection.execute("SELECT max(number) AS newest FROM knowledge_migrations").fetchone()
    known = len(read_migrations(folder))
    if row is not None and row["newest"] is not None and row["newest"] > known:
        raise Conflict(
            f"this database was migrated to {row['newest']:04d} by newer code; this code knows {known:04d}. "
            "Upgrade the code, or restore a backup."
        )


def require_model(connection: psycopg.Connection[DictRow], model: EmbeddingModel) -> None:
    """Raise ModelMismatch unless the documents' vectors are those of ``model``."""
    row = connection.execute(
        "SELECT model, version, dimensions FROM knowledge_embedding_models WHERE collection = 'documents'"
    ).fetchone()
    refuse_other_model(row, model)


def refuse_other_model(stored: DictRow | None, model: EmbeddingModel) -> None:
    """Raise ModelMismatch unless ``stored`` (model, version, dimensions) names ``model``."""
    wanted = {"model": model.model, "version": model.version, "dimensions": model.dimensions}
    if stored is not None and dict(stored) == wanted:
        return
    held = "no model" if stored is None else "{model} {version} ({dimensions} dimensions)".format(**stored)
    raise ModelMismatch(
        f"the database holds vectors of {held}, but {model.model} {model.version} ({model.dimensions} dimensions) is "
        "configured. Set EMBEDDING_BACKEND and EMBEDDING_MODEL to the stored model; `knowledge reembed` moves the "
        "documents to another one while everything goes on."
    )
