"""``knowledge tag-indexes``: indexes of frequent tags."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from cli.database import find_database, open_connection
from cli.options import Backend, Database, Json
from cli.output import note, print_json, printable, results

if TYPE_CHECKING:
    from knowledge.documents.tag_indexes import Change

app = typer.Typer(help="Keep queries for frequent tags fast.", no_args_is_help=True)


@app.command("plan")
def plan(database: Database = None, backend: Backend = None, as_json: Json = False) -> None:
    """Tell which indexes of tags are due to be made or dropped.

    Examples:

    \b
      knowledge tag-indexes plan
    """
    from knowledge.documents.tag_indexes import TagIndexes

    target = find_database(database, backend)
    with open_connection(target.dsn) as connection:
        _show(TagIndexes(connection, target.embedder.model).plan(), as_json)


@app.command("apply")
def apply(database: Database = None, backend: Backend = None, as_json: Json = False) -> None:
    """Make and drop what `knowledge tag-indexes plan` tells, and let PostgreSQL look at the table.

    Readers and writers go on meanwhile. Do it again when it was interrupted.

    Examples:

    \b
      knowledge tag-indexes apply
    """
    from knowledge.documents.tag_indexes import TagIndexes

    target = find_database(database, backend)
    with open_connection(target.dsn) as connection:
        done = TagIndexes(connection, target.embedder.model).apply(lambda change: note(f"{_told(change)} ..."))
    if as_json:
        _show(done, as_json)
    else:
        results.print("done" if done else "nothing to do")


def _show(changes: list[Change], as_json: bool) -> None:
    if as_json:
        print_json({"changes": [asdict(change) for change in changes]})
    elif not changes:
        results.print("nothing to do")
    else:
        for change in changes:
            results.print(_told(change), soft_wrap=True)


def _told(change: Change) -> str:
    size = f" ({change.documents:,} documents)" if change.documents else ""
    return printable(f"{change.action} the index of {change.tag}{size}: {change.reason}")
