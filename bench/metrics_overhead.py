"""What metrics add to a query: the query function's handler with and without them, by turns.

`python -m bench.metrics_overhead [--queries 400]` starts a PostgreSQL of its own, which takes a minute.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from knowledge import http, telemetry, wiring
from knowledge.db.migrate import migrate
from knowledge.embedding.hashing import HashEmbedder
from local.postgres import EmbeddedPostgres
from spot_sdk.documents import KnowledgeDocument

DOCUMENTS = 2_000


@dataclass(frozen=True)
class Context:
    function_name: str = "query"
    aws_request_id: str = "bench"
    memory_limit_in_mb: int = 512
    invoked_function_arn: str = "arn:aws:lambda:us-east-1:123456789012:function:query"
    function_version: str = "$LATEST"
    client_context: Any = field(default=None)

    def get_remaining_time_in_millis(self) -> int:
        return 30_000


def event(number: int) -> dict[str, Any]:
    path = "/api/v1/knowledge/query"
    return {
        "version": "2.0",
        "routeKey": f"POST {path}",
        "rawPath": path,
        "rawQueryString": "",
        "headers": {"content-type": "application/json", "x-internal-api-key": "bench"},
        "requestContext": {
            "http": {"method": "POST", "path": path},
            "requestId": "bench",
            "stage": "$default",
        },
        "body": f'{{"text": "page {number} of the handbook", "tags": "page"}}',
        "isBase64Encoded": False,
    }


@contextlib.contextmanager
def nothing_recorded() -> Iterator[None]:
    """Requests as they were before there were metrics."""
    before = http.publishing
    http.publishing = contextlib.nullcontext  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        http.publishing = before


class Took(NamedTuple):
    """Milliseconds of one query: on the clock, and of this thread's own work, which neighbours disturb less."""

    clock: float
    work: float


def ask(handler: Callable[..., Any], number: int) -> Took:
    clock, work = time.perf_counter(), time.thread_time()
    answer = handler(event(number), Context())
    took = Took((time.perf_counter() - clock) * 1000, (time.thread_time() - work) * 1000)
    assert answer["statusCode"] == 200, answer
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=400, help="with metrics, and as many without; default: 400")
    queries = parser.parse_args().queries
    with tempfile.TemporaryDirectory() as folder, EmbeddedPostgres(Path(folder) / "data", durable=False) as server:
        os.environ |= {
            "DATABASE_URL": server.dsn,
            "EMBEDDING_BACKEND": "hash",
            "SPOT_INTERNAL_API_KEY": "bench",
            "POWERTOOLS_SERVICE_NAME": "knowledge-query",
        }
        migrate(server.dsn, HashEmbedder().model)
        documents = [KnowledgeDocument(id=str(n), content=f"page {n}", tags=["page"]) for n in range(DOCUMENTS)]
        for first in range(0, DOCUMENTS, 500):
            wiring.ingestion().upsert(documents[first : first + 500])
        from functions.query.app import handler

        with_metrics: list[Took] = []
        without: list[Took] = []
        printed = sys.stdout
        with open(os.devnull, "w", encoding="utf-8") as sink:  # noqa: PTH123 - no path of ours
            sys.stdout = sink
            telemetry.logger.registered_handler.stream = sink  # pyright: ignore[reportAttributeAccessIssue]
            for number in range(50):
                ask(handler, number)
            for number in range(100, 100 + queries):
                with_metrics.append(ask(handler, 2 * number))
                with nothing_recorded():
                    without.append(ask(handler, 2 * number + 1))
            sys.stdout = printed
        wiring.reset()
    for measure in Took._fields:
        added = statistics.median(getattr(took, measure) for took in with_metrics)
        bare = statistics.median(getattr(took, measure) for took in without)
        print(f"{measure:6} p50 of {queries}: {added:.2f} ms with metrics, {bare:.2f} without, {added - bare:+.2f} ms")


if __name__ == "__main__":
    main()
