"""The figures of docs/performance.md, measured on the local stack that runs (`make up` in another terminal).

    .venv/bin/python bench/figures.py [--queries 300] [--documents 200]

Prints query latency through the handler in this process and through the local Lambda service, the rate of ingestion
through the API, and the time to import the query handler. Medians of one run; compare figures within a run only.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from local.home import Home
from local.settings import LocalSettings
from spot_sdk.client import KnowledgeClient
from spot_sdk.documents import KnowledgeDocument

CHECKOUT = Path(__file__).parents[1]
QUESTIONS = (
    "who may approve a payment to a new bank account",
    "how does the help desk prove that it is the help desk",
    "gift cards for the chief executive",
    "what to do with a suspicious mail",
    "who reports to the finance chief",
)
SENTENCE = "Paragraph {number} of the load says something about invoices, travel, badges and laptops, once each. "


def percentiles(milliseconds: list[float]) -> str:
    ordered = sorted(milliseconds)
    return f"p50 {statistics.median(ordered):6.1f} ms   p95 {ordered[int(0.95 * len(ordered))]:6.1f} ms"


def timed(work: Callable[[str], Any], count: int) -> list[float]:
    """Milliseconds of each of ``count`` calls, after ten that do not count."""
    times: list[float] = []
    for number in range(count + 10):
        started = time.perf_counter()
        work(QUESTIONS[number % len(QUESTIONS)])
        times.append((time.perf_counter() - started) * 1000)
    return times[10:]


def event(text: str) -> dict[str, Any]:
    path = "/api/v1/knowledge/query"
    return {
        "version": "2.0",
        "routeKey": f"POST {path}",
        "rawPath": path,
        "rawQueryString": "",
        "headers": {"content-type": "application/json"},
        "requestContext": {"requestId": "bench", "stage": "$default", "http": {"method": "POST", "path": path}},
        "body": json.dumps({"text": text, "tags": "policy|employee", "top_k": 5}),
        "isBase64Encoded": False,
    }


class Context:
    function_name = "QueryFunction"
    memory_limit_in_mb = 1024
    invoked_function_arn = "arn:aws:lambda:eu-central-1:123456789012:function:QueryFunction"
    aws_request_id = "bench"

    def get_remaining_time_in_millis(self) -> int:
        return 29_000


def query_handler_ms(functions: dict[str, str], count: int) -> list[float]:
    os.environ.update({name: value for name, value in functions.items() if value})
    os.environ.setdefault("POWERTOOLS_LOG_LEVEL", "ERROR")
    from functions.query.app import handler

    def ask(text: str) -> None:
        answer = handler(event(text), Context())  # type: ignore[arg-type]
        assert answer["statusCode"] == 200, answer["body"]

    return timed(ask, count)


def query_service_ms(url: str, count: int) -> list[float]:
    with httpx.Client(trust_env=False) as client:

        def ask(text: str) -> None:
            client.post(f"{url}/query", json={"text": text, "tags": "policy|employee", "top_k": 5}).raise_for_status()

        return timed(ask, count)


async def ingest_rates(url: str, key: str, count: int) -> tuple[float, float]:
    """Documents a second, new ones and then the same again."""
    documents = [
        KnowledgeDocument(id=f"bench:{n}", content=SENTENCE.format(number=n) * 8, source="bench", tags=["bench"])
        for n in range(count)
    ]
    rates: list[float] = []
    async with KnowledgeClient(url, key, timeout_s=120) as client:
        for _ in range(2):
            started = time.perf_counter()
            await client.bulk_upsert(documents)
            rates.append(count / (time.perf_counter() - started))
        await client.delete_many([document.id for document in documents])
    return rates[0], rates[1]


def import_s(statement: str) -> float:
    """Median seconds of a new interpreter that runs ``statement``, less those of one that does nothing."""

    def run(code: str) -> float:
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, cwd=CHECKOUT)  # noqa: S603 - our own code
        return time.perf_counter() - started

    run(statement)
    return statistics.median(run(statement) for _ in range(7)) - statistics.median(run("pass") for _ in range(7))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=300, help="queries of each kind")
    parser.add_argument("--documents", type=int, default=200, help="documents to load")
    arguments = parser.parse_args()
    home = Home(LocalSettings.from_environment().home)
    stack = home.running_stack()
    if stack is None:
        sys.exit(f"no local stack runs in {home.path}; start one with `make up`")
    functions = json.loads(home.functions_path.read_text())["Parameters"]
    print(f"import of the query handler        {import_s('import functions.query.app'):6.2f} s")
    print(f"query, handler in this process     {percentiles(query_handler_ms(functions, arguments.queries))}")
    print(f"query, local Lambda service        {percentiles(query_service_ms(stack.knowledge_url, arguments.queries))}")
    new, same = asyncio.run(ingest_rates(stack.knowledge_url, home.api_key(), arguments.documents))
    print(f"ingestion, new documents of 800 characters {new:8.1f} a second; the same again {same:8.1f} a second")


if __name__ == "__main__":
    main()
