"""Filtered retrieval beside peers: one run, the same vectors, recall beside every time (`make bench`).

    .venv/bin/python -m bench.retrieval [--rows 100000] [--dimensions 384] [--queries 100] [--seed 7]
                                        [--plans | --without-peers] [--trial]

Systems: ``ours`` is the whole query path but for HTTP (``Retrieval`` with a ready vector), ``ours-sql`` its database
part, ``exact`` the scan of all matching rows, then the peers in .venv-bench. Truth is computed in memory. Writes
bench/results/latest.json, the generated section of docs/performance.md and its plot.

``--plans`` compares our choice of a plan with each plan alone instead (bench/plans.py), and writes
bench/results/plans-<dimensions>.json. ``--trial`` only prints. Systems that run in this process are asked in turn, each
question of all of them, so that a busy moment of the machine falls on all alike.
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
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from pgvector import Vector

from bench.costs import cold_start_s, server_rss_mb
from bench.mixture import Mixture, make_mixture
from bench.plans import exact, plan_searches, table
from bench.plot import write_plot
from knowledge.db.connection import Database
from knowledge.db.migrate import migrate
from knowledge.documents import search as documents_search
from knowledge.documents.bulk_load import BulkLoad
from knowledge.documents.fingerprint import Fingerprinted
from knowledge.documents.retrieval import Retrieval
from knowledge.documents.search import DocumentSearch
from knowledge.documents.store import DocumentStore
from knowledge.documents.tag_indexes import TagIndexes
from knowledge.documents.vector_indexes import TAG_INDEX_PREFIX, VECTOR_INDEX, tag_index_name
from knowledge.embedding.hashing import HashEmbedder
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
NO_FILTER = "no filter"
Row = dict[str, Any]
Search = Callable[[int, str | None, int], list[int] | None]
"""The rows found for (question, tag, k); None where the system has no way to answer it."""


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


def columns(mixture: Mixture) -> list[str]:
    return [*mixture.tags, NO_FILTER]


def truth(mixture: Mixture, column: str, k: int) -> list[set[int]]:
    held = np.arange(len(mixture.vectors)) if column == NO_FILTER else np.flatnonzero(mixture.tags[column])
    similarities = mixture.queries @ mixture.vectors[held].T
    return [set(held[np.argsort(-row, kind="stable")[:k]].tolist()) for row in similarities]


def ask_all(mixture: Mixture, searches: Mapping[str, Search]) -> dict[str, list[Row]]:
    """The answers of each system, timed; each system's first answer to a tag and k does not count.

    Systems take turns at being first to a question: whoever comes later finds pages in memory that the first has read.
    """
    answers: dict[str, list[Row]] = {system: [] for system in searches}
    for column in columns(mixture):
        tag = None if column == NO_FILTER else column
        for k in KS:
            asked = {system: search for system, search in searches.items() if search(0, tag, k) is not None}
            for number in range(len(mixture.queries)):
                turn = number % len(asked)
                for system in [*list(asked)[turn:], *list(asked)[:turn]]:
                    search = asked[system]
                    started = time.perf_counter()
                    found = search(number, tag, k)
                    took_ms = (time.perf_counter() - started) * 1000
                    answers[system].append({"tag": column, "k": k, "query": number, "ms": took_ms, "found": found})
    return answers


def summarize(system: str, mixture: Mixture, answers: list[Row]) -> list[Row]:
    """A row for each column and k that was asked: p50, p95, recall, and the mean number of rows missing."""
    rows: list[Row] = []
    for tag in columns(mixture):
        for k in KS:
            those = [a for a in answers if a["tag"] == tag and a["k"] == k]
            if not those:
                continue
            right = truth(mixture, tag, k)
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


def prepare(url: str, mixture: Mixture, embedder: ReadyEmbedder) -> tuple[Database, dict[str, float]]:
    """A database with the mixture in it, indexed as an operator would, and how fast that went."""
    migrate(url, embedder.model)
    database = Database(lambda: url)
    rows_per_s = load(database, DocumentStore(database, embedder.model), mixture)
    started = time.perf_counter()
    TagIndexes(database, embedder.model).apply(lambda change: print(f"  {change.action} the index of {change.tag}"))
    return database, {"ours_rows_per_s": rows_per_s, "tag_indexes_s": time.perf_counter() - started}


def index_mb(database: Database) -> dict[str, float]:
    """The size of each index over vectors, by name."""
    rows = database.run(lambda t: t.execute(_SIZES, (VECTOR_INDEX, TAG_INDEX_PREFIX)).fetchall())
    return {row["name"]: round(row["bytes"] / 2**20, 1) for row in rows}


_SIZES = """
    SELECT relname AS name, pg_relation_size(oid) AS bytes FROM pg_class
    WHERE relkind = 'i' AND (relname = %s OR starts_with(relname, %s))
"""


def measure_ours(server: EmbeddedPostgres, mixture: Mixture) -> tuple[list[Row], dict[str, Any]]:
    embedder = ReadyEmbedder(mixture.queries)
    database, facts = prepare(server.dsn, mixture, embedder)
    search = DocumentSearch(database, embedder.model)
    retrieval = Retrieval(search, embedder)

    def by_retrieval(number: int, tag: str | None, k: int) -> list[int]:
        return [int(d.id) for d in retrieval.answer(Query(text=str(number), tags=tag, top_k=k)).documents]

    def by_search(number: int, tag: str | None, k: int) -> list[int]:
        return [int(d.id) for d in search.nearest(embedder.embed(str(number)), parse(tag), k).rows]

    def by_scan(number: int, tag: str | None, k: int) -> list[int]:
        with patch.object(documents_search, "nearest", exact):
            return by_search(number, tag, k)

    answers = ask_all(mixture, {"ours": by_retrieval, "ours-sql": by_search, "exact": by_scan})
    held = {"index_mb": index_mb(database), "server_rss_mb": server_rss_mb(server.child.pid)}
    database.close()
    return [row for system in answers for row in summarize(system, mixture, answers[system])], {**facts, **held}


def measure_plans(server: EmbeddedPostgres, mixture: Mixture) -> tuple[list[Row], dict[str, Any]]:
    embedder = ReadyEmbedder(mixture.queries)
    database, facts = prepare(server.dsn, mixture, embedder)
    sizes = index_mb(database)
    indexed = [tag for tag in mixture.tags if tag_index_name(tag) in sizes]
    vectors = [embedder.embed(str(number)) for number in range(len(mixture.queries))]
    answers = ask_all(mixture, plan_searches(DocumentSearch(database, embedder.model), vectors, indexed))
    held = {"index_mb": sizes, "server_rss_mb": server_rss_mb(server.child.pid)}
    database.close()
    rows = [row for plan in answers for row in summarize(plan, mixture, answers[plan])]
    return rows, {**facts, **held}


def measure_peer(system: str, folder: Path, dsn: str, mixture: Mixture) -> tuple[list[Row], float]:
    command = [str(PEERS_PYTHON), str(CHECKOUT / "bench" / "peers.py"), str(folder), system, dsn]
    subprocess.run(command, check=True)  # noqa: S603 - our own script
    result = json.loads((folder / f"{system}.json").read_text())
    return summarize(system, mixture, result["answers"]), result["rows_per_s"]


def section(result: dict[str, Any]) -> str:
    """The generated section: p50 and recall of each system and column at k = 10, and where a peer is ahead at any k."""
    rows = {(r["system"], r["column"]): r for r in result["rows"] if r["k"] == 10}
    systems = list(dict.fromkeys(system for system, _ in rows))
    headings = list(dict.fromkeys(column for _, column in rows))
    facts = result["facts"]
    lines = [
        BEGIN,
        f"{facts['rows']:,} vectors of {facts['dimensions']} dimensions, k = 10, seed {facts['seed']}, "
        f"load {facts['load']:.1f} before and {facts['load_after']:.1f} after: p50 ms / recall / rows missing.",
        "",
        f"| | {' | '.join(headings)} |",
        "|---" * (len(headings) + 1) + "|",
    ]
    for system in systems:
        cells = [rows[system, c] for c in headings]
        shown = [f"{r['p50_ms']:.1f}/{r['recall']:.3f}/{r['missing']:g}" for r in cells]
        lines.append(f"| {system} | {' | '.join(shown)} |")
    ours = {(r["column"], r["k"]): r for r in result["rows"] if r["system"] == "ours"}
    ahead = [
        f"{r['system']} in {r['column']} (k = {r['k']})"
        for r in result["rows"]
        if r["system"] in PEERS
        and r["recall"] >= ours[r["column"], r["k"]]["recall"] - 0.02
        and r["p50_ms"] < ours[r["column"], r["k"]]["p50_ms"]
    ]
    lines += ["", f"Ahead of ours at a recall of at least ours - .02: {', '.join(ahead) or 'nobody'}.", ""]
    rates = [f"{name.removesuffix('_rows_per_s')} {facts[name]:,.0f}" for name in facts if name.endswith("_rows_per_s")]
    lines += [
        f"Rows a second when loading, indexes included: {', '.join(rates)}. Memory while ours was measured: the server "
        f"{facts['server_rss_mb']:,.0f} MB (RSS of its processes, shared pages counted in each). Cold start of the "
        f"query handler, interpreter and imports: {facts['cold_start_s']:.2f} s.",
        END,
    ]
    return "\n".join(lines)


def write(result: dict[str, Any]) -> None:
    path = CHECKOUT / "bench" / "results" / "latest.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")
    page = CHECKOUT / "docs" / "performance.md"
    text = page.read_text()
    before, _, rest = text.partition(BEGIN)
    page.write_text(before + section(result) + rest.partition(END)[2])
    write_plot()


def compare_plans(mixture: Mixture, facts: dict[str, Any], *, is_trial: bool) -> None:
    with tempfile.TemporaryDirectory() as name, EmbeddedPostgres(Path(name) / "data") as server:
        rows, measured = measure_plans(server, mixture)
    facts |= measured | {"load_after": os.getloadavg()[0]}
    print(json.dumps(facts))
    print(table(rows, facts["dimensions"]))
    if not is_trial:
        path = CHECKOUT / "bench" / "results" / f"plans-{facts['dimensions']}.json"
        path.write_text(json.dumps({"rows": rows, "facts": facts}, indent=1) + "\n")


def compare_peers(mixture: Mixture, facts: dict[str, Any], peers: tuple[str, ...], *, is_trial: bool) -> None:
    with tempfile.TemporaryDirectory() as name, EmbeddedPostgres(Path(name) / "data") as server:
        folder = Path(name)
        np.save(folder / "vectors.npy", mixture.vectors)
        np.save(folder / "queries.npy", mixture.queries)
        np.savez(folder / "tags.npz", **mixture.tags)
        rows, measured = measure_ours(server, mixture)
        facts |= measured
        for system in peers:
            of_peer, facts[f"{system}_rows_per_s"] = measure_peer(system, folder, server.dsn, mixture)
            rows += of_peer
    facts["memory_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    facts |= {"cold_start_s": cold_start_s(), "load_after": os.getloadavg()[0]}
    result = {"rows": rows, "facts": facts}
    if not is_trial:
        write(result)
    print(section(result))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dimensions", type=int, default=384)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--seed", type=int, default=7, help="7 is the seed that thresholds were tuned on")
    parser.add_argument("--plans", action="store_true")
    parser.add_argument("--without-peers", action="store_true")
    parser.add_argument("--trial", action="store_true")
    asked = parser.parse_args()
    logger.setLevel("WARNING")
    mixture = make_mixture(asked.rows, asked.dimensions, asked.queries, SHARES, seed=asked.seed)
    facts: dict[str, Any] = {"rows": asked.rows, "dimensions": asked.dimensions, "queries": asked.queries}
    facts |= {"seed": asked.seed, "load": os.getloadavg()[0]}
    if asked.plans:
        compare_plans(mixture, facts, is_trial=asked.trial)
    else:
        compare_peers(mixture, facts, () if asked.without_peers else PEERS, is_trial=asked.trial)


if __name__ == "__main__":
    main()
