"""``knowledge slow-queries``: what took long, and where the time went."""

from __future__ import annotations

from datetime import UTC

from cli.options import Json, Url
from cli.output import print_json, printable, results, table
from cli.store import operate
from spot_sdk.operators import OperatorClient
from spot_sdk.slow_queries import SlowQueries, SlowQuery


def slow_queries(url: Url = None, as_json: Json = False) -> None:
    """List the last queries that took long, and where the time went.

    A query's text is not kept; its hash is the same in the functions' logs, and whenever the text is asked again. The
    correlation id leads to its lines in the logs.

    Examples:

    \b
      knowledge slow-queries
      knowledge slow-queries --json | jq '.queries[] | select(.milliseconds > 2000)'
    """

    async def ask(client: OperatorClient) -> SlowQueries:
        return await client.slow_queries()

    found = operate(url, ask)
    if as_json:
        print_json(found)
        return
    if not found.queries:
        results.print(f"No query took {found.threshold_ms:,.0f} ms or longer.")
        return
    shown = table("asked (UTC)", "ms", "where the time went", "question", right=("ms",), whole=("asked (UTC)",))
    for query in found.queries:
        shown.add_row(
            f"{query.asked_at.astimezone(UTC):%Y-%m-%d %H:%M:%S}",
            f"{query.milliseconds:,.0f}",
            printable(_where(query)),
            printable(_question(query)),
        )
    results.print(shown)


def _where(query: SlowQuery) -> str:
    """The parts that took time, with the plan of each search: ``embedding 480, dense (exact) 20``."""
    parts = [f"embedding {query.embedding_ms:,.0f}"] if query.embedding_cache != "unused" else []
    parts += [f"{leg.leg} ({leg.plan}) {leg.milliseconds:,.0f}" for leg in query.legs]
    if query.cache == "hit":
        parts.append("a kept answer")
    return ", ".join(parts) or "before any search"


def _question(query: SlowQuery) -> str:
    parts = [query.text_hash, query.strategy, f"top {query.top_k}"]
    if query.tags:
        parts.append(query.tags)
    parts.append(f"{query.hits} found" if query.error is None else query.error)
    if query.correlation_id:
        parts.append(query.correlation_id)
    return ", ".join(parts)
