"""Migrations: once each, in order, safely together."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from knowledge.db.migrate import MIGRATIONS, migrate, read_migrations
from spot_sdk.errors import Conflict, InternalError, ModelMismatch, StoreUnavailable
from tests.conftest import HASH_MODEL

NAMES = [migration.name for migration in read_migrations()]


def columns(url: str) -> list[tuple[str, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(
            """SELECT table_name, column_name, data_type, is_nullable, coalesce(column_default, '')
               FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2"""
        ).fetchall()


def test_applies_everything_once(bare_database_url: str) -> None:
    assert migrate(bare_database_url, HASH_MODEL) == NAMES
    before = columns(bare_database_url)
    assert migrate(bare_database_url, HASH_MODEL) == []
    assert columns(bare_database_url) == before


def test_two_at_once_apply_each_migration_once(bare_database_url: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        applied = list(pool.map(lambda _: migrate(bare_database_url, HASH_MODEL), range(4)))
    assert sorted(name for names in applied for name in names) == NAMES


def test_step_by_step_gives_what_all_at_once_gives(bare_database_url: str, database_url: str, tmp_path: Path) -> None:
    """Yesterday's database, whichever migration it stopped at, becomes today's."""
    for path in sorted(MIGRATIONS.glob("*.sql")):
        shutil.copy(path, tmp_path)
        assert migrate(bare_database_url, HASH_MODEL, folder=tmp_path) == [path.stem]
    assert columns(bare_database_url) == columns(database_url)


def test_refuses_an_edited_migration(database_url: str, tmp_path: Path) -> None:
    shutil.copytree(MIGRATIONS, tmp_path, dirs_exist_ok=True)
    first = tmp_path / f"{NAMES[0]}.sql"
    first.write_text(first.read_text() + "\n-- a late thought\n")
    with pytest.raises(Conflict, match=NAMES[0]):
        migrate(database_url, HASH_MODEL, folder=tmp_path)


def test_refuses_a_newer_database(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute("INSERT INTO knowledge_migrations VALUES (9999, '9999_future', 'x')")
    with pytest.raises(Conflict, match="9999"):
        migrate(database_url, HASH_MODEL)
    assert migrate(database_url, HASH_MODEL, accept_newer=True) == []  # a release that is rolled back


def test_refuses_another_model_and_alters_nothing(database_url: str) -> None:
    before = columns(database_url)
    with pytest.raises(ModelMismatch, match="reembed"):
        migrate(database_url, HASH_MODEL.model_copy(update={"model": "bge-m3", "dimensions": 1024}))
    assert columns(database_url) == before


def test_a_failing_migration_leaves_nothing(bare_database_url: str, tmp_path: Path) -> None:
    shutil.copytree(MIGRATIONS, tmp_path, dirs_exist_ok=True)
    (tmp_path / f"{len(NAMES) + 1:04d}_broken.sql").write_text("CREATE TABLE half (); SELECT 1 / 0;")
    with pytest.raises(InternalError, match=r"SQLSTATE 22012"):
        migrate(bare_database_url, HASH_MODEL, folder=tmp_path)
    assert "half" not in {table for table, *_ in columns(bare_database_url)}
    assert migrate(bare_database_url, HASH_MODEL) == []


def test_a_database_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(StoreUnavailable):
        migrate("postgresql://nobody@127.0.0.1:1/none", HASH_MODEL)


@pytest.mark.parametrize("name", ["0001_a.sql 0003_b.sql", "0001_a.sql notes.sql", "0002_a.sql"])
def test_a_gap_or_a_strange_name_is_refused(tmp_path: Path, name: str) -> None:
    for part in name.split():
        (tmp_path / part).write_text("SELECT 1")
    with pytest.raises(ValueError, match="expected"):
        read_migrations(tmp_path)


def test_the_indexes_of_the_design_are_there(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        found = connection.execute("SELECT indexdef FROM pg_indexes WHERE tablename = 'knowledge_documents'").fetchall()
        storage = connection.execute(
            """SELECT attstorage FROM pg_attribute
               WHERE attrelid = 'knowledge_documents'::regclass AND attname = 'embedding'"""
        ).fetchone()
    definitions = " ".join(text for (text,) in found)
    assert "USING hnsw (embedding vector_cosine_ops)" in definitions
    assert "USING gin (tags)" in definitions
    assert "(expires_at) WHERE (expires_at IS NOT NULL)" in definitions
    assert storage == ("m",)
