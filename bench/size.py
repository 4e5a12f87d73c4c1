"""What a document takes on disk, and of the database's cores when it is stored (docs/scale.md).

    .venv/bin/python -m bench.size [--documents 3000] [--dimensions 384 512 1024] [--characters 800]

Starts a PostgreSQL of its own in a temporary folder and stores documents of random words with random vectors, in
batches, with all indexes in place. Prints bytes a document by table and index, and the processor time of the server.
The counts of words (``knowledge_word_*``) are left out: they grow with the vocabulary and not with the documents.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from knowledge.db.connection import Database, Transaction
from knowledge.db.migrate import migrate
from knowledge.documents.ingest import Ingestion
from knowledge.documents.store import DocumentStore
from knowledge.embedding.hashing import HashEmbedder
from knowledge.embedding.vectors import unit_or_reason
from local.postgres import EmbeddedPostgres
from spot_sdk.documents import EmbeddingModel, KnowledgeDocument

BATCH = 500
VOCABULARY = 20_000

_SIZES = """
SELECT class.relname AS name,
       pg_relation_size(class.oid) + coalesce(pg_relation_size(nullif(class.reltoastrelid, 0)), 0) AS bytes
FROM pg_class AS class
WHERE class.relkind IN ('r', 'i') AND class.relname ~ '^knowledge_document'
ORDER BY bytes DESC
"""


class RandomEmbedder(HashEmbedder):
    """Vectors by chance, of any length: their content costs the store nothing."""

    def __init__(self, dimensions: int) -> None:
        self._dimensions = dimensions
        self._dice = random.Random(1)  # noqa: S311 - a benchmark

    @property
    def model(self) -> EmbeddingModel:
        return super().model.model_copy(update={"dimensions": self._dimensions})

    def _embed_windows(self, windows: Sequence[str]) -> list[Any]:
        gauss = self._dice.gauss
        return [unit_or_reason([gauss(0, 1) for _ in range(self._dimensions)], self._dimensions) for _ in windows]


def documents(first: int, count: int, characters: int, dice: random.Random) -> list[KnowledgeDocument]:
    """Words are drawn with few that are frequent and many that are rare, as in a language."""
    made: list[KnowledgeDocument] = []
    for number in range(first, first + count):
        words: list[str] = []
        while sum(map(len, words)) + len(words) < characters:
            words.append(f"word{int(VOCABULARY ** dice.random())}")
        made.append(
            KnowledgeDocument(
                id=f"wiki:{number}", content=" ".join(words), tags=["wiki", f"space{number % 50}"], source="wiki"
            )
        )
    return made


def processor_s(pid: int) -> float:
    """Of the server and its running processes."""
    server = psutil.Process(pid)
    return sum(sum(process.cpu_times()[:2]) for process in (server, *server.children(recursive=True)))


def measure(dimensions: int, count: int, characters: int) -> None:
    dice = random.Random(1)  # noqa: S311 - a benchmark
    embedder = RandomEmbedder(dimensions)
    with tempfile.TemporaryDirectory() as folder, EmbeddedPostgres(Path(folder) / "data") as server:
        migrate(server.dsn, embedder.model)
        database = Database(lambda: server.dsn)
        ingestion = Ingestion(DocumentStore(database, embedder.model), embedder)
        database.run(lambda t: t.execute("SELECT 1"))  # its backend is there before its time is taken
        spent, started = processor_s(server.child.pid), time.perf_counter()
        for first in range(0, count, BATCH):
            ingestion.upsert(documents(first, min(BATCH, count - first), characters, dice))
        spent, took = processor_s(server.child.pid) - spent, time.perf_counter() - started

        def sizes(transaction: Transaction) -> list[dict[str, Any]]:
            return transaction.execute(_SIZES).fetchall()

        found = database.run(sizes)
        database.close()
    print(
        f"{count:,} documents of {characters} characters, {dimensions} dimensions: "
        f"{sum(row['bytes'] for row in found) / count:,.0f} bytes a document; "
        f"{spent / count * 1000:.1f} ms of a core of the database, {took / count * 1000:.1f} ms in all"
    )
    for row in found:
        if row["bytes"] >= 20 * count:
            print(f"  {row['name']:<40} {row['bytes'] / count:8,.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=3_000, help="(%(default)s)")
    parser.add_argument("--dimensions", type=int, nargs="+", default=[384, 512, 1024])
    parser.add_argument("--characters", type=int, default=800, help="of each document (%(default)s)")
    given = parser.parse_args()
    for dimensions in given.dimensions:
        measure(dimensions, given.documents, given.characters)


if __name__ == "__main__":
    main()
