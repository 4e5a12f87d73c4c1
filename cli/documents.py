"""``knowledge delete``: remove documents by id."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.options import Json, Url
from cli.output import confirm, counted, note, print_json, results
from cli.store import call
from spot_sdk.client import KnowledgeClient
from spot_sdk.documents import DeleteResult


def delete(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids, as `knowledge query` shows them.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Remove documents by id. Ids that are not there are no error.

    Examples:

    \b
      knowledge delete "handbook:travel.md#chunk-0" "handbook:travel.md#chunk-1"
      knowledge delete employee:former@company.example --yes --json
    """
    named = set(ids)
    if not yes:
        confirm(f"Remove {counted(len(named), 'document')} for good?")

    async def remove(client: KnowledgeClient) -> int:
        return await client.delete_many(ids)

    deleted = call(url, remove)
    if as_json:
        print_json(DeleteResult(deleted=deleted))
        return
    results.print(f"{counted(deleted, 'document')} removed")
    missing = len(named) - deleted
    if missing:
        note(f"{counted(missing, 'id')} {'was' if missing == 1 else 'were'} not there")
