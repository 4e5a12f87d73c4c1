"""How query time grows with the store, and what starting the query function costs (`make bench-growth`).

    .venv/bin/python -m bench.growth [--sizes 10000 100000 1000000]

Prints p50 and recall at k = 10 for each size and column, the exponent b of time ~ rows^b between the first size and the
last, the memory of this process, and the time to import the query handler.
"""

from __future__ import annotations

import argparse
import math
import resource
import tempfile
from pathlib import Path

from bench.costs import cold_start_s
from bench.mixture import make_mixture
from bench.retrieval import Row, measure_ours
from knowledge.telemetry import logger
from local.postgres import EmbeddedPostgres

DIMENSIONS, QUERIES = 384, 50


def measure(rows: int) -> dict[str, Row]:
    """Our figures at one size, by column, for k = 10."""
    mixture = make_mixture(rows, DIMENSIONS, QUERIES, (50.0, 1.0))
    with tempfile.TemporaryDirectory() as name, EmbeddedPostgres(Path(name) / "data") as server:
        found, facts = measure_ours(server, mixture)
    print(
        f"{rows:>9,} rows, loaded at {facts['ours_rows_per_s']:,.0f} a second, server {facts['server_rss_mb']:,.0f} MB",
        flush=True,
    )
    return {row["column"]: row for row in found if row["system"] == "ours" and row["k"] == 10}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    arguments = parser.parse_args()
    logger.setLevel("WARNING")
    sizes: list[int] = sorted(arguments.sizes)
    figures = {size: measure(size) for size in sizes}
    for column in figures[sizes[0]]:
        shown = "  ".join(f"{f[column]['p50_ms']:.1f} ms/{f[column]['recall']:.3f}" for f in figures.values())
        ratio = figures[sizes[-1]][column]["p50_ms"] / figures[sizes[0]][column]["p50_ms"]
        exponent = math.log(ratio) / math.log(sizes[-1] / sizes[0]) if len(sizes) > 1 else 0.0
        print(f"{column:>6}: {shown}   exponent {exponent:.2f}")
    print(f"memory of this process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB")
    print(f"import of the query handler {cold_start_s():.2f} s, interpreter included")


if __name__ == "__main__":
    main()
