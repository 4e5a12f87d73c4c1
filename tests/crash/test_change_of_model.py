"""A change of model under writers and readers, killed twice: no answer is wrong, none is missing. `make test-crash`."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from knowledge.db.connection import Database
from knowledge.documents.ingest import Ingestion
from knowledge.documents.reembed import state
from knowledge.documents.retrieval import Retrieval
from knowledge.documents.search import DocumentSearch
from knowledge.documents.store import DocumentStore
from knowledge.embedding.hashing import HashEmbedder
from local.settings import CHECKOUT
from spot_sdk.documents import KnowledgeDocument, Query
from spot_sdk.errors import ModelMismatch, Overloaded
from tests.postgres.other_embedder import OtherEmbedder

DOCUMENTS = 800
WRITERS, READERS = 4, 4
PACE_S = 0.05  # leaves the change its share of the processor
KILLED_AFTER = (4, 4)  # batches

CHANGE = """
import sys
from knowledge.db.connection import Database
from knowledge.documents.reembed import Reembedding
from tests.postgres.other_embedder import OtherEmbedder
database = Database(lambda: sys.argv[1])
tell = lambda step: print(step, flush=True)
Reembedding(database, OtherEmbedder()).run(tell, lambda done, total: print("progress", done, total, flush=True))
"""


class Client:
    """Writes and asks with whichever of the two models the documents have, as a function does."""

    def __init__(self, url: str) -> None:
        self._database = Database(lambda: url)
        self._embedders = [HashEmbedder(), OtherEmbedder()]

    def upsert(self, documents: list[KnowledgeDocument]) -> None:
        def work(embedder: HashEmbedder) -> object:
            return Ingestion(DocumentStore(self._database, embedder.model), embedder).upsert(documents)

        self._with_the_right_model(work)

    def best(self, text: str) -> KnowledgeDocument | None:
        def work(embedder: HashEmbedder) -> KnowledgeDocument | None:
            search = DocumentSearch(self._database, embedder.model)
            found = Retrieval(search, embedder).answer(Query(text=text, top_k=1)).documents
            return found[0] if found else None

        return self._with_the_right_model(work)

    def model(self) -> str:
        return state(self._database).today

    def _with_the_right_model(self, work: Callable[[HashEmbedder], object]):
        while True:
            for embedder in list(self._embedders):
                try:
                    return work(embedder)
                except ModelMismatch:
                    self._embedders.reverse()
                except Overloaded:
                    break

    def close(self) -> None:
        self._database.close()


def text_of(number: int, version: int) -> str:
    rng = random.Random(f"{number}/{version}")
    return " ".join(f"w{rng.randrange(100_000)}" for _ in range(12))


def document(number: int, version: int) -> KnowledgeDocument:
    return KnowledgeDocument(id=f"d{number}", content=text_of(number, version), metadata={"version": version})


def test_no_answer_is_wrong_or_missing(database_url: str) -> None:
    client = Client(database_url)
    for start in range(0, DOCUMENTS, 500):
        client.upsert([document(number, 0) for number in range(start, start + 500)])
    client.close()
    versions = [0] * DOCUMENTS  # a model of the store; each writer has numbers of its own
    done = threading.Event()
    wrong: list[str] = []
    counts = {"written": 0, "asked": 0}

    def write(writer: int) -> None:
        own, rng = Client(database_url), random.Random(writer)
        while not done.is_set():
            numbers = rng.sample(range(writer, DOCUMENTS, WRITERS * 2), 4)  # half of them are never written again
            own.upsert([document(number, versions[number] + 1) for number in numbers])
            for number in numbers:
                versions[number] += 1
            counts["written"] += 1
            done.wait(PACE_S)
        own.close()

    def read(reader: int) -> None:
        own, rng = Client(database_url), random.Random(-reader)
        while not done.is_set():
            number = rng.randrange(DOCUMENTS)
            before = versions[number]
            found = own.best(text_of(number, before))
            if versions[number] == before and (found is None or found.id != f"d{number}"):
                stored = own.best(text_of(number, before + 1))  # a writer may have stored, and not counted it yet
                if stored is None or stored.id != f"d{number}":
                    wrong.append(f"d{number} version {before}: {found and found.id}")
            counts["asked"] += 1
            done.wait(PACE_S)
        own.close()

    with ThreadPoolExecutor(WRITERS + READERS) as pool:
        running = [pool.submit(write, n) for n in range(WRITERS)] + [pool.submit(read, n) for n in range(READERS)]
        try:
            for kill_after in (*KILLED_AFTER, None):
                code = run_change(database_url, kill_after)
                assert code == (0 if kill_after is None else -9)
        finally:
            done.set()
        for future in running:
            future.result()

    client = Client(database_url)
    missing = [
        n for n in range(DOCUMENTS) if (found := client.best(text_of(n, versions[n]))) is None or found.id != f"d{n}"
    ]
    assert client.model() == "other 7 (64 dimensions)"
    client.close()
    print(f"\n{counts['asked']} questions and {counts['written']} batches of 4 meanwhile; wrong: {len(wrong)}")
    assert wrong == []
    assert missing == []
    assert counts["asked"] > 50
    assert counts["written"] > 20


def run_change(url: str, kill_after: int | None) -> int:
    """Run the change in a process of its own; kill it after so many batches. Its exit code."""
    with subprocess.Popen(
        [sys.executable, "-c", CHANGE, url], stdout=subprocess.PIPE, text=True, cwd=CHECKOUT
    ) as process:
        assert process.stdout is not None
        batches = 0
        for line in process.stdout:
            batches += line.startswith("progress")
            if kill_after is not None and batches > kill_after:
                process.kill()
                break
        return process.wait()
