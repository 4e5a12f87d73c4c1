"""The figures of docs/performance.md, measured on the local stack that runs (`make up` in another terminal).

    .venv/bin/python bench/figures.py [--queries 300] [--documents 200] [--clients 16] [--seconds 60]

Prints query latency in the database alone, through the handler in this process and through the local Lambda service,
alone and with many clients at once; the rate of ingestion through the API; and the time to import the query handler.
Medians of one run; compare figures within a run only.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx

from knowledge.db.connection import Database
from knowledge.documents.search import DocumentSearch
from knowledge.embedding.factory import make_embedder
from knowledge.embedding.settings_model import EmbeddingSettings
from local.home import Home
from local.settings import LocalSettings
from spot_sdk.client import KnowledgeClient
from spot_sdk.documents import KnowledgeDocument
from spot_sdk.tag_expression import parse

CHECKOUT = Path(__file__).parents[1]
QUESTIONS = (
    "who may approve a payment to a new bank account",
    "how does the help desk prove that it is the help desk",
    "gift cards for the chief executive",
    "what to do with a suspicious mail",
    "who reports to the finance chief",
)
TAGS, TOP_K = "policy|employee", 5
SENTENCE = "Paragraph {number} of the load says something about invoices, travel, badges and laptops, once each. "


def percentiles(milliseconds: list[float]) -> str:
    ordered = sorted(milliseconds)
    return f"p50 {statistics.median(ordered):6.1f} ms   p95 {ordered[int(0.95 * len(ordered))]:6.1f} ms"


def in_turn(works: dict[str, Callable[[str], Any]], count: int) -> dict[str, list[float]]:
    """Milliseconds of each of ``count`` calls of all works, by turns, after ten that do not count."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for number in range(count + 10):
        for name, work in works.items():
            started = time.perf_counter()
            work(QUESTIONS[number % len(QUESTIONS)])
            times[name].append((time.perf_counter() - started) * 1000)
    return {name: each[10:] for name, each in times.items()}


_unlike_any_before = itertools.count(1)


def question(text: str, *, known: bool) -> dict[str, Any]:
    """A question whose answer is in the cache after the first time, or one that nobody has asked before."""
    floor = 0.0 if known else next(_unlike_any_before) * 1e-9
    return {"text": text, "tags": TAGS, "top_k": TOP_K, "min_score": floor}


def event(body: dict[str, Any]) -> dict[str, Any]:
    path = "/api/v1/knowledge/query"
    return {
        "version": "2.0",
        "routeKey": f"POST {path}",
        "rawPath": path,
        "rawQueryString": "",
        "headers": {"content-type": "application/json"},
        "requestContext": {"requestId": "bench", "stage": "$default", "http": {"method": "POST", "path": path}},
        "body": json.dumps(body),
        "isBase64Encoded": False,
    }


class Context:
    function_name = "QueryFunction"
    memory_limit_in_mb = 1024
    invoked_function_arn = "arn:aws:lambda:eu-central-1:123456789012:function:QueryFunction"
    aws_request_id = "bench"

    def get_remaining_time_in_millis(self) -> int:
        return 29_000


def query_ms(functions: dict[str, str], url: str, count: int) -> dict[str, list[float]]:
    """By way in: the database alone with a ready vector, the handler in this process, the local Lambda service."""
    os.environ.update({name: value for name, value in functions.items() if value})
    os.environ.setdefault("POWERTOOLS_LOG_LEVEL", "ERROR")
    from functions.query.app import handler

    embedder = make_embedder(EmbeddingSettings())
    vectors = {text: embedder.embed(text) for text in QUESTIONS}
    expression = parse(TAGS)
    with (
        closing(Database(lambda: functions["DATABASE_URL"])) as database,
        httpx.Client(trust_env=False, headers={"X-Internal-API-Key": functions["SPOT_INTERNAL_API_KEY"]}) as client,
    ):
        search = DocumentSearch(database, embedder.model)

        def handle(text: str, *, known: bool) -> None:
            answer = handler(event(question(text, known=known)), Context())  # type: ignore[arg-type]
            assert answer["statusCode"] == 200, answer["body"]

        def ask(text: str, *, known: bool) -> None:
            client.post(f"{url}/query", json=question(text, known=known)).raise_for_status()

        return in_turn(
            {
                "database alone": lambda text: search.nearest(vectors[text], expression, TOP_K),
                "handler, new question": lambda text: handle(text, known=False),
                "handler, known answer": lambda text: handle(text, known=True),
                "service, new question": lambda text: ask(text, known=False),
                "service, known answer": lambda text: ask(text, known=True),
            },
            count,
        )


def many_clients(url: str, key: str, clients: int, seconds: float) -> tuple[list[float], list[str]]:
    """Milliseconds of each new question that ``clients`` ask at once for so long, and what errors said."""
    end = time.monotonic() + seconds

    def ask(first: int) -> tuple[list[float], list[str]]:
        times: list[float] = []
        errors: list[str] = []
        with httpx.Client(trust_env=False, timeout=30, headers={"X-Internal-API-Key": key}) as client:
            for number in itertools.count(first):
                if time.monotonic() > end:
                    return times, errors
                body = question(QUESTIONS[number % len(QUESTIONS)], known=False)
                started = time.perf_counter()
                response = client.post(f"{url}/query", json=body)
                times.append((time.perf_counter() - started) * 1000)
                if response.status_code != 200:
                    errors.append(f"{response.status_code} {response.text[:200]}")
        raise AssertionError("a count has no end")

    with ThreadPoolExecutor(clients) as pool:
        asked = list(pool.map(ask, range(clients)))
    return [ms for times, _ in asked for ms in times], [error for _, errors in asked for error in errors]


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
    parser.add_argument("--clients", type=int, default=16, help="clients at once")
    parser.add_argument("--seconds", type=float, default=60, help="how long they ask")
    arguments = parser.parse_args()
    home = Home(LocalSettings.from_environment().home)
    stack = home.running_stack()
    if stack is None:
        sys.exit(f"no local stack runs in {home.path}; start one with `make up`")
    functions = json.loads(home.functions_path.read_text())["Parameters"]
    print(f"import of the query handler        {import_s('import functions.query.app'):6.2f} s")
    for name, times in query_ms(functions, stack.knowledge_url, arguments.queries).items():
        print(f"query, {name:27} {percentiles(times)}")
    times, errors = many_clients(stack.knowledge_url, home.api_key(), arguments.clients, arguments.seconds)
    at_once = f"{arguments.clients} clients at once"
    print(f"query, {at_once:27} {percentiles(times)}   {len(times)} in {arguments.seconds:.0f} s")
    print(f"  errors {len(errors)}: {sorted(set(errors))[:3]}")
    new, same = asyncio.run(ingest_rates(stack.knowledge_url, home.api_key(), arguments.documents))
    print(f"ingestion, new documents of 800 characters {new:8.1f} a second; the same again {same:8.1f} a second")


if __name__ == "__main__":
    main()
