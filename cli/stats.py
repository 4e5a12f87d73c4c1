"""``knowledge stats``: what the store holds."""

from __future__ import annotations

from datetime import UTC, datetime

from cli.options import Json, Url
from cli.output import print_json, printable, results, table
from cli.store import call
from spot_sdk.client import KnowledgeClient
from spot_sdk.documents import Stats


def stats(url: Url = None, as_json: Json = False) -> None:
    """Count documents by source and tag.

    Examples:

    \b
      knowledge stats
      knowledge stats --json | jq .documents
    """

    async def ask(client: KnowledgeClient) -> Stats:
        return await client.stats()

    counted = call(url, ask)
    if as_json:
        print_json(counted)
        return
    results.print(f"{counted.documents:,} documents, updated {_span(counted.oldest, counted.newest)}", highlight=False)
    if counted.expired:
        results.print(f"{counted.expired:,} more have expired and wait for their removal")
    if counted.sources:
        sources = table("source", "documents", "updated", right=("documents",))
        for source in counted.sources:
            sources.add_row(
                printable(source.source) or "(none)", f"{source.documents:,}", _span(source.oldest, source.newest)
            )
        results.print("", sources)
    tags = [tag for tag in counted.tags if tag.documents]
    if tags:
        by_tag = table("tag", "documents", right=("documents",))
        for tag in tags:
            by_tag.add_row(printable(tag.tag), f"{tag.documents:,}")
        results.print("", by_tag)


def _span(oldest: datetime | None, newest: datetime | None) -> str:
    if oldest is None or newest is None:
        return "never"
    first, last = f"{oldest.astimezone(UTC):%Y-%m-%d}", f"{newest.astimezone(UTC):%Y-%m-%d}"
    return first if first == last else f"{first} to {last}"
