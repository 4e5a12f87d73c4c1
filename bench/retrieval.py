"""Filtered retrieval beside peers: one run, the same vectors, recall beside every time (`make bench`).

    .venv/bin/python bench/retrieval.py [--rows 100000] [--dimensions 384] [--queries 100] [--without-peers]

Systems: ``ours`` is the whole query path but for HTTP (``Retrieval`` with a ready vector), ``ours-sql`` its database
part, ``exact`` the scan of all matching rows, then the peers in .venv-bench. Truth is computed in memory. Writes
bench/results/latest.json and the generated section of docs/performance.md.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pgvector import Vector

from bench.mixture import Mixture, make_mixture
from knowledge.db.connection import Database
from knowledge.db.migrate import migrate
from knowledge.documents.bulk_load import BulkLoad
from knowledge.documents.fingerprint import Fingerprinted
from knowledge.documents.retrieval import Retrieval
from knowledge.documents.search import DocumentSearch
from knowledge.documents.store import DocumentStore
from knowledge.documents.tag_indexes import TagIndexes
from knowledge.embedding.hashing import HashEmbedder
from knowledge.search import knn
from knowledge.telemetry import logger
from local.postgres import EmbeddedPostgres
from spot_sdk.documents import KnowledgeDocument, Query
from spot_sdk.tag_expression import parse

CHECKOUT = Path(__file__).parents[1]
SHARES = (50.0, 10.0, 1.0, 0.1, 0.01)
KS = (1, 10, 100)
PEERS_PYTHON = CHECKOUT / ".venv-bench" / "bin" / "python"
PEERS = ("langchain-postgres", "lancedb")
BATCH = 500
BEGIN, END = "<!-- make bench: begin -->", "<!-- make bench: end -->"
Row = dict[str, Any]


class ReadyEmbedder(HashEmbedder):
    """Gives the vector of question ``n`` for the text ``str(n)``: embedding is not what is measured."""

    def __init__(self, vectors: np.ndarray) -> None:
        super().__init__()
        self._model = super().model.model_copy(update={"model": "ready", "dimensions": vectors.shape[1]})
        self._ready = [vector.tolist() for vector in vectors]

    @property
    def model(self):
        return self._model

    def embed(self, text: str):
        return self._ready[int(text)]


def load(database: Database, store: DocumentStore, mixture: Mixture) -> float:
    """Store the mixture as documents of 100 words in bulk-load mode; returns rows a second, indexes included."""
    bulk_load = BulkLoad(database)
    rows, text = len(mixture.vectors), "a hundred words of knowledge " * 20
    started = time.perf_counter()
    bulk_load.begin()
    for first in range(0, rows, BATCH):
        numbers = range(first, min(first + BATCH, rows))
        documents = [KnowledgeDocument(id=str(n), content=f"{n} {text}", tags=mixture.tags_of(n)) for n in numbers]
        entries = [(Fingerprinted.of(d), Vector(mixture.vectors[n])) for d, n in zip(documents, numbers, strict=True)]
        store.upsert(entries)
    bulk_load.finish()
    return rows / (time.perf_counter() - started)


def truth(mixture: Mixture, tag: str, k: int) -> list[set[int]]:
    held = np.flatnonzero(mixture.tags[tag])
    similarities = mixture.queries @ mixture.vectors[held].T
    return [set(held[np.argsort(-row, kind="stable")[:k]].tolist()) for row in similarities]


def ask_all(mixture: Mixture, search: Callable[[int, str, int], list[int]]) -> list[Row]:
    answers: list[Row] = []
    for tag in mixture.tags:
        for k in KS:
            search(0, tag, k)
            for number in range(len(mixture.queries)):
                started = time.perf_counter()
                found = search(number, tag, k)
                took_ms = (time.perf_counter() - started) * 1000
                answers.append({"tag": tag, "k": k, "query": number, "ms": took_ms, "found": found})
    return answers


def summarize(system: str, mixture: Mixture, answers: list[Row]) -> list[Row]:
    """A row for each tag and k: p50, p95, recall, and the mean number of rows missing."""
    rows: list[Row] = []
    for tag in mixture.tags:
        for k in KS:
            right = truth(mixture, tag, k)
            those = [a for a in answers if a["tag"] == tag and a["k"] == k]
            times = sorted(a["ms"] for a in those)
            hits = [len(right[a["query"]].intersection(a["found"])) / len(right[a["query"]]) for a in those]
            missing = [len(right[a["query"]]) - len(a["found"]) for a in those]
            rows.append(
                {
                    "system": system,
                    "column": tag.replace("_", "."),
                    "k": k,
                    "p50_ms": round(statistics.median(times), 2),
                    "p95_ms": round(times[int(0.95 * len(times))], 2),
                    "recall": round(statistics.mean(hits), 4),
                    "missing": round(statistics.mean(missing), 2),
                }
            )
    return rows


def measure_ours(url: str, mixture: Mixture) -> tuple[list[Row], dict[str, float]]:
    embedder = ReadyEmbedder(mixture.queries)
    migrate(url, embedder.model)
    database = Database(lambda: url)
    rows_per_s = load(database, DocumentStore(database, embedder.model), mixture)
    started = time.perf_counter()
    TagIndexes(database, embedder.model).apply(lambda change: print(f"  {change.action} the index of {change.tag}"))
    facts = {"ours_rows_per_s": rows_per_s, "tag_indexes_s": time.perf_counter() - started}
    search = DocumentSearch(database, embedder.model)
    retrieval = Retrieval(search, embedder)

    def by_retrieval(number: int, tag: str, k: int) -> list[int]:
        return [int(d.id) for d in retrieval.answer(Query(text=str(number), tags=tag, top_k=k)).documents]

    def by_search(number: int, tag: str, k: int) -> list[int]:
        return [int(d.id) for d in search.nearest(embedder.embed(str(number)), parse(tag), k).rows]

    rows = summarize("ours", mixture, ask_all(mixture, by_retrieval))
    rows += summarize("ours-sql", mixture, ask_all(mixture, by_search))
    usual, knn.EXACT_UP_TO_ROWS = knn.EXACT_UP_TO_ROWS, 10**9
    rows += summarize("exact", mixture, ask_all(mixture, by_search))
    knn.EXACT_UP_TO_ROWS = usual
    database.close()
    return rows, facts


def measure_peer(system: str, folder: Path, dsn: str, mixture: Mixture) -> tuple[list[Row], float]:
    command = [str(PEERS_PYTHON), str(CHECKOUT / "bench" / "peers.py"), str(folder), system, dsn]
    subprocess.run(command, check=True)  # noqa: S603 - our own script
    result = json.loads((folder / f"{system}.json").read_text())
    return summarize(system, mixture, result["answers"]), result["rows_per_s"]


def section(result: dict[str, Any]) -> str:
    """The generated section: p50 and recall of each system and column at k = 10, and where a peer is ahead."""
    rows = {(r["system"], r["column"]): r for r in result["rows"] if r["k"] == 10}
    systems = list(dict.fromkeys(system for system, _ in rows))
    columns = list(dict.fromkeys(column for _, column in rows))
    facts = result["facts"]
    lines = [
        BEGIN,
        f"{facts['rows']:,} vectors of {facts['dimensions']} dimensions, k = 10, load {facts['load']:.1f}: "
        "p50 ms / recall / rows missing.",
        "",
        f"| | {' | '.join(columns)} |",
        "|---" * (len(columns) + 1) + "|",
    ]
    for system in systems:
        cells = [rows[system, c] for c in columns]
        shown = [f"{r['p50_ms']:.1f}/{r['recall']:.3f}/{r['missing']:g}" for r in cells]
        lines.append(f"| {system} | {' | '.join(shown)} |")
    ahead = [
        f"{system} in {column}"
        for system in systems
        for column in columns
        if system in PEERS
        and rows[system, column]["recall"] >= rows["ours", column]["recall"] - 0.02
        and rows[system, column]["p50_ms"] < rows["ours", column]["p50_ms"]
    ]
    lines += ["", f"Ahead of ours at a recall of at least ours - .02: {', '.join(ahead) or 'nobody'}.", ""]
    rates = [f"{name.removesuffix('_rows_per_s')} {facts[name]:,.0f}" for name in facts if name.endswith("_rows_per_s")]
    lines += [f"Rows a second when loading, indexes included: {', '.join(rates)}.", END]
    return "\n".join(lines)


def write(result: dict[str, Any]) -> None:
    path = CHECKOUT / "bench" / "results" / "latest.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")
    page = CHECKOUT / "docs" / "performance.md"
    text = page.read_text()
    before, _, rest = text.partition(BEGIN)
    page.write_text(before + section(result) + rest.partition(END)[2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dimensions", type=int, default=384)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--without-peers", action="store_true")
    arguments = parser.parse_args()
    logger.setLevel("WARNING")
    mixture = make_mixture(arguments.rows, arguments.dimensions, arguments.queries, SHARES)
    facts: dict[str, float] = {"rows": arguments.rows, "dimensions": arguments.dimensions, "load": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory() as name, EmbeddedPostgres(Path(name) / "data") as server:
        folder = Path(name)
        np.save(folder / "vectors.npy", mixture.vectors)
        np.save(folder / "queries.npy", mixture.queries)
        np.savez(folder / "tags.npz", **mixture.tags)
        rows, measured = measure_ours(server.dsn, mixture)
        facts |= measured
        for system in () if arguments.without_peers else PEERS:
            of_peer, facts[f"{system}_rows_per_s"] = measure_peer(system, folder, server.dsn, mixture)
            rows += of_peer
    facts["memory_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    result = {"rows": rows, "facts": facts}
    write(result)
    print(section(result))


if __name__ == "__main__":
    main()
