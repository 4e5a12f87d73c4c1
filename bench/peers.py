"""The same vectors, tags and questions in other stores; run by bench/retrieval.py in .venv-bench, which has the peers.

    python bench/peers.py FOLDER {langchain-postgres|lancedb} [DSN]

FOLDER holds vectors.npy, queries.npy and tags.npz. Writes FOLDER/<system>.json: rows a second when loading, and for
each tag and k the milliseconds of each query and the rows found.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

KS = (1, 10, 100)
NO_FILTER = "no filter"
BATCH = 1_000
Search = Callable[[np.ndarray, str | None, int], list[int]]


def lancedb_store(folder: Path, vectors: np.ndarray, tags: dict[str, np.ndarray]) -> Search:
    import lancedb
    import pyarrow as pa
    from lancedb.index import HnswSq, LabelList

    table = lancedb.connect(folder / "lance").create_table(
        "documents",
        pa.table(
            {
                "id": pa.array(range(len(vectors))),
                "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1]),
                "tags": pa.array([[t for t, held in tags.items() if held[n]] for n in range(len(vectors))]),
            }
        ),
    )
    partitions = max(1, len(vectors) // 4_096)
    table.create_index("vector", config=HnswSq(distance_type="cosine", num_partitions=partitions))
    table.create_index("tags", config=LabelList())

    def search(vector: np.ndarray, tag: str | None, k: int) -> list[int]:
        found = table.search(vector).distance_type("cosine")
        if tag is not None:
            found = found.where(f"array_has_any(tags, ['{tag}'])", prefilter=True)
        return [row["id"] for row in found.nprobes(20).refine_factor(5).select(["id", "_distance"]).limit(k).to_list()]

    return search


def langchain_store(dsn: str, vectors: np.ndarray, tags: dict[str, np.ndarray]) -> Search:
    from langchain_core.embeddings import Embeddings
    from langchain_postgres import Column, PGEngine, PGVectorStore
    from langchain_postgres.v2.indexes import HNSWIndex

    class Ready(Embeddings):
        """Never asked: vectors are given."""

        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            raise NotImplementedError

        def embed_query(self, text: str) -> list[float]:
            raise NotImplementedError

    engine = PGEngine.from_connection_string(url=dsn.replace("postgresql://", "postgresql+psycopg://"))
    columns = [Column(tag, "boolean") for tag in tags]
    engine.init_vectorstore_table("peer", vectors.shape[1], metadata_columns=columns, overwrite_existing=True)
    store = PGVectorStore.create_sync(engine, Ready(), "peer", metadata_columns=list(tags))
    for first in range(0, len(vectors), BATCH):
        numbers = range(first, min(first + BATCH, len(vectors)))
        store.add_embeddings(
            texts=[str(n) for n in numbers],
            embeddings=[vectors[n].tolist() for n in numbers],
            metadatas=[{tag: bool(held[n]) for tag, held in tags.items()} for n in numbers],
        )
    store.apply_vector_index(HNSWIndex())

    def search(vector: np.ndarray, tag: str | None, k: int) -> list[int]:
        found = store.similarity_search_by_vector(vector.tolist(), k=k, filter=None if tag is None else {tag: True})
        return [int(document.page_content) for document in found]

    return search


def main() -> None:
    folder, system = Path(sys.argv[1]), sys.argv[2]
    vectors, queries = np.load(folder / "vectors.npy"), np.load(folder / "queries.npy")
    with np.load(folder / "tags.npz") as archive:
        tags = {name: archive[name] for name in archive.files}
    started = time.perf_counter()
    search = (
        lancedb_store(folder, vectors, tags) if system == "lancedb" else langchain_store(sys.argv[3], vectors, tags)
    )
    result = {"rows_per_s": len(vectors) / (time.perf_counter() - started), "answers": []}
    for column in (*tags, NO_FILTER):
        tag = None if column == NO_FILTER else column
        for k in KS:
            search(queries[0], tag, k)
            for number, query in enumerate(queries):
                started = time.perf_counter()
                found = search(query, tag, k)
                took_ms = (time.perf_counter() - started) * 1000
                result["answers"].append({"tag": column, "k": k, "query": number, "ms": took_ms, "found": found})
    (folder / f"{system}.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
