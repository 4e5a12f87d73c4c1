"""Writers under duress: a storm on the same ids, and a server killed in the middle. `make test-crash`."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from knowledge.db.connection import Database
from knowledge.db.migrate import migrate
from knowledge.documents.ingest import Ingestion
from knowledge.documents.store import DocumentStore
from knowledge.embedding.hashing import HashEmbedder
from local.postgres import EmbeddedPostgres
from spot_sdk.documents import KnowledgeDocument
from spot_sdk.errors import KnowledgeError, Unavailable
from tests.conftest import HASH_MODEL

WRITERS = 8
STORM_S = 60.0
KILLS = 3

pytestmark = pytest.mark.timeout(600)


def batch(ids: list[str], mark: str) -> list[KnowledgeDocument]:
    """Documents that carry the batch's mark in every field, so that a torn row would show."""
    return [
        KnowledgeDocument(id=id_, content=f"written by {mark}", tags=[mark], metadata={"mark": mark}, source=mark)
        for id_ in ids
    ]


def ingestion_for(url: str) -> tuple[Database, Ingestion]:
    database = Database(lambda: url)
    embedder = HashEmbedder()
    return database, Ingestion(DocumentStore(database, embedder.model), embedder)


def test_a_storm_on_the_same_ids_ends_without_a_deadlock(database_url: str) -> None:
    ids = [f"d{n:03d}" for n in range(120)]
    outcomes: Counter[str] = Counter()
    until = time.monotonic() + STORM_S

    def write(number: int) -> None:
        rng = random.Random(number)
        database, ingestion = ingestion_for(database_url)
        while time.monotonic() < until:
            mark = f"w{number}_{rng.randrange(10**6)}"
            try:
                ingestion.upsert(batch(rng.sample(ids, 40), mark))  # in an order of its own
                outcomes["written"] += 1
            except KnowledgeError as error:
                outcomes[error.code] += 1
        database.close()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    database, _ = ingestion_for(database_url)
    rows = database.run(lambda t: t.execute("SELECT * FROM knowledge_documents").fetchall())
    database.close()
    print(f"\n{outcomes['written']} batches of 40 by {WRITERS} writers in {STORM_S:.0f} s")
    assert set(outcomes) == {"written"}
    assert {row["id"] for row in rows} == set(ids)
    for row in rows:
        mark = row["source"]
        assert (row["content"], row["tags"], row["metadata"]) == (f"written by {mark}", [mark], {"mark": mark})


def test_what_was_acknowledged_survives_kill_9_and_nothing_is_torn(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path / "data")
    server.start()
    migrate(server.dsn, HASH_MODEL)
    acknowledged: set[str] = set()
    offered: set[str] = set()
    stop = threading.Event()

    def write(number: int) -> None:
        rng = random.Random(number)
        database = Database(lambda: server.dsn)
        embedder = HashEmbedder()
        ingestion = Ingestion(DocumentStore(database, embedder.model), embedder)
        count = 0
        while not stop.is_set():
            mark = f"w{number}_{count}"
            offered.add(mark)
            try:
                ingestion.upsert(batch([f"{mark}:{n}" for n in rng.sample(range(20), 20)], mark))
                acknowledged.add(mark)
            except Unavailable:
                stop.wait(0.05)  # the server is away
            count += 1
        database.close()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(KILLS):
        enough = len(acknowledged) + 60
        deadline = time.monotonic() + 120
        while len(acknowledged) < enough:
            assert time.monotonic() < deadline, "the writers do not get on"
            time.sleep(0.01)
        os.kill(server.child.pid, signal.SIGKILL)
        server.stop()  # notes that it is gone
        server.start()
    stop.set()
    for thread in threads:
        thread.join()

    database = Database(lambda: server.dsn)
    found = database.run(
        lambda t: t.execute("SELECT source, count(*) AS rows FROM knowledge_documents GROUP BY source").fetchall()
    )
    database.close()
    server.stop()
    rows = {row["source"]: row["rows"] for row in found}
    print(f"\n{len(acknowledged)} of {len(offered)} batches acknowledged, {len(rows)} stored, {KILLS} kills")
    assert acknowledged <= set(rows)
    assert set(rows.values()) == {20}
