"""``knowledge stats``: what the store holds."""

from __future__ import annotations

from datetime import UTC, datetime

from cli.options import Json, Url
from cli.output import counted, print_json, printable, results, table
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

    found = call(url, ask)
    if as_json:
        print_json(found)
        return
    results.print(f"{counted(found.documents, 'document')}, updated {_span(found.oldest, found.newest)}")
    if found.expired:
        has, waits = ("has", "waits") if found.expired == 1 else ("have", "wait")
        results.print(f"{found.expired:,} more {has} expired and {waits} for removal")
    if found.sources:
        sources = table("source", "documents", "updated", right=("documents",))
        for source in found.sources:
            sources.add_row(
                printable(source.source) or "(none)", f"{source.documents:,}", _span(source.oldest, source.newest)
            )
        results.print("", sources)
    tags = [tag for tag in found.tags if tag.documents]
    if tags:
        by_tag = table("well-known tag", "documents", right=("documents",))
        for tag in tags:
            by_tag.add_row(printable(tag.tag), f"{tag.documents:,}")
        results.print("", by_tag, "Other tags are not counted here; `knowledge query` shows those of what it finds.")


def _span(oldest: datetime | None, newest: datetime | None) -> str:
    if oldest is None or newest is None:
        return "never"
    first, last = f"{oldest.astimezone(UTC):%Y-%m-%d}", f"{newest.astimezone(UTC):%Y-%m-%d}"
    return first if first == last else f"{first} to {last}"
