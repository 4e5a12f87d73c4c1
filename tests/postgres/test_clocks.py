"""Processes whose clock is off by an hour: the database's clock alone decides who may do what, and until when.

The shifted ones run under faketime (Debian package), which moves every clock that a process can read.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from knowledge.access.keys import KeyStore
from knowledge.db.connection import Database
from knowledge.documents.ingest import Ingestion
from knowledge.documents.sync_run import SourceSync
from spot_sdk.access import IssueKey
from spot_sdk.documents import KnowledgeDocument

PRELUDE = """
import json, sys, time
from knowledge.access.keyring import digest
from knowledge.access.keys import KeyStore
from knowledge.db.connection import Database
from knowledge.documents.expiry import Expiry
from knowledge.documents.ingest import Ingestion
from knowledge.documents.retrieval import Retrieval
from knowledge.documents.search import DocumentSearch
from knowledge.documents.store import DocumentStore
from knowledge.documents.sync_run import SourceSync
from knowledge.embedding.hashing import HashEmbedder
from spot_sdk.documents import KnowledgeDocument, Query
from spot_sdk.errors import KnowledgeError
from spot_sdk.sync import RemovalLimits
database = Database(lambda: sys.argv[1])
embedder = HashEmbedder()
store = DocumentStore(database, embedder.model)
ingestion = Ingestion(store, embedder)
sync = SourceSync(database, store, ingestion)
def answer(value):
    print(json.dumps({"clock": time.time(), "answer": value}))
"""

pytestmark = pytest.mark.parametrize("offset", ["+1h", "-1h"])


@pytest.fixture(autouse=True)
def _faketime() -> None:
    if shutil.which("faketime") is None:
        pytest.skip("faketime is not installed: apt-get install faketime")


def under(offset: str, database_url: str, script: str) -> Any:
    """What ``script`` answers in a process whose clock is off."""
    command = ["faketime", "-f", offset, sys.executable, "-c", PRELUDE + script, database_url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])  # after what was logged
    off_by_s = said["clock"] - datetime.now(UTC).timestamp()
    assert abs(abs(off_by_s) - 3600) < 120, "the clock is not off"
    return said["answer"]


def test_a_lease_is_held_and_no_longer_than_it_lasts(offset: str, source_sync: SourceSync, database_url: str) -> None:
    run = source_sync.start("wiki").run
    script = """
try:
    answer(sync.start("wiki").run.fence)
except KnowledgeError as error:
    answer(error.code)
"""
    assert under(offset, database_url, script) == "sync_running"
    source_sync.fail(run, "for this test")
    assert under(offset, database_url, script) == run.fence + 1


def test_a_run_removes_what_is_gone_and_nothing_written_since(
    offset: str, source_sync: SourceSync, ingestion: Ingestion, database: Database, database_url: str
) -> None:
    ingestion.upsert([KnowledgeDocument(id="gone", content="x", source="wiki")])
    script = """
run = sync.start("wiki").run
sync.upsert(run, [KnowledgeDocument(id="kept", content="y", source="wiki")])
database_of_another = Database(lambda: sys.argv[1])
Ingestion(DocumentStore(database_of_another, embedder.model), embedder).upsert(
    [KnowledgeDocument(id="since", content="z", source="wiki")])
database_of_another.close()
answer(sync.complete(run, RemovalLimits(share=1.0)).removed)
"""
    assert under(offset, database_url, script) == 1
    rows = database.run(lambda t: t.execute("SELECT id FROM knowledge_documents ORDER BY id").fetchall())
    assert [row["id"] for row in rows] == ["kept", "since"]


def test_expiry_is_by_the_databases_clock(offset: str, ingestion: Ingestion, database_url: str) -> None:
    now = datetime.now(UTC)
    ingestion.upsert(
        [
            KnowledgeDocument(id="live", content="x", expires_at=now + timedelta(minutes=30)),
            KnowledgeDocument(id="over", content="x", expires_at=now - timedelta(minutes=30)),
        ]
    )
    script = """
found = Retrieval(DocumentSearch(database, embedder.model), embedder).answer(Query(text="x"))
answer([[document.id for document in found.documents], Expiry(store).clean_up(lambda: True).deleted])
"""
    assert under(offset, database_url, script) == [["live"], 1]


def test_a_rotated_key_runs_out_by_the_databases_clock(offset: str, database: Database, database_url: str) -> None:
    keys = KeyStore(database)
    previous = keys.issue(IssueKey(name="k", role="reader")).key
    keys.issue(IssueKey(name="k", role="reader", grace_s=1800))
    assert under(offset, database_url, f"answer(KeyStore(database).find(digest({previous!r})) is not None)")
