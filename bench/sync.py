"""What syncs and clean-ups cost: 50,000 unchanged documents, and 100,000 expired ones beside writers and queries.

    .venv/bin/python bench/sync.py [--documents 50000] [--expired 100000]

Starts a PostgreSQL of its own in a temporary folder, durable as in use, and loads it in bulk-load mode with the model
that needs no files, since embedding is not what is measured. Prints time, bytes of write-ahead log and of the table,
texts embedded, and the latency of queries before and during the clean-up.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from knowledge.db.connection import Database
from knowledge.db.migrate import migrate
from knowledge.documents.bulk_load import BulkLoad
from knowledge.documents.expiry import Expiry
from knowledge.documents.ingest import Ingestion
from knowledge.documents.retrieval import Retrieval
from knowledge.documents.search import DocumentSearch
from knowledge.documents.store import DocumentStore
from knowledge.documents.sync_run import SourceSync
from knowledge.embedding.hashing import HashEmbedder
from local.postgres import EmbeddedPostgres
from spot_sdk.documents import KnowledgeDocument, Query
from spot_sdk.sync import RemovalLimits

BATCH = 500


class CountingEmbedder(HashEmbedder):
    texts = 0

    def embed_batch(self, texts: Sequence[str]):
        self.texts += len(texts)
        return super().embed_batch(texts)


class Bench:
    """A store on its own connection."""

    def __init__(self, url: str) -> None:
        self.database = Database(lambda: url)
        self.embedder = CountingEmbedder()
        self.store = DocumentStore(self.database, self.embedder.model)
        self.ingestion = Ingestion(self.store, self.embedder)
        self.retrieval = Retrieval(DocumentSearch(self.database, self.embedder.model), self.embedder)
        self.sync = SourceSync(self.database, self.store, self.ingestion)

    def number(self, sql: str) -> int:
        row = self.database.run(lambda t: t.execute(sql).fetchone())  # type: ignore[arg-type]
        assert row is not None
        return int(next(iter(row.values())))


def documents(source: str, count: int, expires_at: datetime | None = None) -> list[KnowledgeDocument]:
    return [
        KnowledgeDocument(
            id=f"{source}:{n}",
            content=f"Document {n} of {source} tells of topic {n % 997} and of office {n % 31}. " * 4,
            tags=[source],
            source=source,
            expires_at=expires_at,
        )
        for n in range(count)
    ]


def run_sync(bench: Bench, batch: list[KnowledgeDocument]) -> float:
    started = time.perf_counter()
    run = bench.sync.start(batch[0].source).run
    for first in range(0, len(batch), BATCH):
        bench.sync.upsert(run, batch[first : first + BATCH])
    record = bench.sync.complete(run, RemovalLimits())
    assert record.status == "succeeded", record
    return time.perf_counter() - started


def measure_unchanged(bench: Bench, count: int) -> None:
    batch = documents("wiki", count)
    print(f"first sync of {count:,} documents in bulk-load mode    {run_sync(bench, batch):8.1f} s")
    embedded, wal, size = bench.embedder.texts, bench.number(_WAL), bench.number(_SIZE)
    touched = bench.number(_TOUCHED)
    seconds = run_sync(bench, batch)
    print(f"second sync, nothing changed                       {seconds:8.1f} s")
    print(f"  texts embedded                                   {bench.embedder.texts - embedded:8,}")
    print(f"  rows of documents touched                        {bench.number(_TOUCHED) - touched:8,}")
    print(f"  growth of the table and its indexes              {bench.number(_SIZE) - size:8,} bytes")
    print(f"  write-ahead log                                  {(bench.number(_WAL) - wal) / 1e6:8.1f} MB")


_TOUCHED = "SELECT count(*) FROM knowledge_documents WHERE xmax <> 0"
_SIZE = "SELECT pg_total_relation_size('knowledge_documents')"
_EXPIRE = "UPDATE knowledge_documents SET expires_at = now() - interval '1 hour' WHERE source = 'old'"
_WAL = "SELECT pg_current_wal_lsn() - '0/0'::pg_lsn"


def measure_clean_up(bench: Bench, url: str, count: int) -> None:
    batch = documents("old", count, expires_at=datetime.now(UTC) + timedelta(days=1))
    for first in range(0, count, BATCH):
        bench.ingestion.upsert(batch[first : first + BATCH])
    BulkLoad(bench.database).finish()
    bench.database.run(
        lambda t: t.execute(
            "UPDATE knowledge_documents SET expires_at = now() - interval '1 hour' WHERE source = 'old'"
        )
    )
    stop = threading.Event()
    errors: list[BaseException] = []

    def write(number: int) -> None:
        own, rng = Bench(url), random.Random(number)  # noqa: S311 - which rows are written
        try:
            while not stop.is_set():
                marks = [f"w{number}:{rng.randrange(500)}" for _ in range(5)]
                own.ingestion.upsert(
                    [KnowledgeDocument(id=i, content=f"note {rng.random()}", source="live") for i in set(marks)]
                )
        except BaseException as error:
            errors.append(error)

    asking = Bench(url)

    def ask_until(done: threading.Event | None, at_least: int) -> list[float]:
        times: list[float] = []
        while len(times) < at_least or (done is not None and not done.is_set()):
            started = time.perf_counter()
            asking.retrieval.answer(Query(text=f"topic {len(times) % 997}", tags="wiki", top_k=10))
            times.append((time.perf_counter() - started) * 1000)
        return sorted(times)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for writer in writers:
        writer.start()
    ask_until(None, 20)
    before = ask_until(None, 200)
    finished = threading.Event()
    result = {}

    def clean() -> None:
        started = time.perf_counter()
        result["outcome"] = Expiry(bench.store).clean_up(lambda: True)
        result["seconds"] = time.perf_counter() - started
        finished.set()

    cleaner = threading.Thread(target=clean)
    cleaner.start()
    during = ask_until(finished, 20)
    cleaner.join()
    stop.set()
    for writer in writers:
        writer.join()
    assert not errors, errors
    print(f"clean-up of {result['outcome'].deleted:,} expired documents beside 4 writers  {result['seconds']:8.1f} s")
    for name, times in (("before", before), ("during", during)):
        p95 = times[int(0.95 * len(times))]
        print(f"  queries {name}: p50 {statistics.median(times):7.1f} ms, p95 {p95:7.1f} ms ({len(times)} queries)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=50_000, help="unchanged documents")
    parser.add_argument("--expired", type=int, default=100_000, help="expired documents")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, EmbeddedPostgres(Path(folder) / "data") as server:
        migrate(server.dsn, HashEmbedder().model)
        bench = Bench(server.dsn)
        BulkLoad(bench.database).begin()
        measure_unchanged(bench, arguments.documents)
        measure_clean_up(bench, server.dsn, arguments.expired)
        bench.database.close()


if __name__ == "__main__":
    main()
