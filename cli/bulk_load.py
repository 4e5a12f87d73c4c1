"""``knowledge bulk-load``: for first loads of very many documents."""

from __future__ import annotations

import typer

from cli.database import open_connection
from cli.options import Database
from cli.output import note, results

app = typer.Typer(help="Load very many documents for the first time.", no_args_is_help=True)


@app.command("begin")
def begin(database: Database = None) -> None:
    """Put the vector indexes away.

    Queries stay right, and are slower until `knowledge bulk-load finish`.

    Examples:

    \b
      knowledge bulk-load begin && knowledge import all.jsonl && knowledge bulk-load finish
    """
    from knowledge.documents.bulk_load import BulkLoad

    with open_connection(database) as connection:
        BulkLoad(connection).begin()
    note("the vector indexes are put away; load, and then run `knowledge bulk-load finish`")


@app.command("finish")
def finish(database: Database = None) -> None:
    """Build the vector indexes again.

    Readers and writers go on meanwhile. Do it again when it was interrupted.

    Examples:

    \b
      knowledge bulk-load finish
    """
    from knowledge.documents.bulk_load import BulkLoad

    with open_connection(database) as connection:
        note("building the vector indexes ...")
        took = BulkLoad(connection).finish()
    note(f"the vector indexes are back ({took.total_seconds():,.1f} s)")


@app.command("state")
def state(database: Database = None) -> None:
    """Tell whether a bulk load is under way.

    Examples:

    \b
      knowledge bulk-load state
    """
    from knowledge.documents.bulk_load import BulkLoad

    with open_connection(database) as connection:
        found = BulkLoad(connection).state()
    if found.put_away_at is not None:
        results.print(f"bulk load since {found.put_away_at:%Y-%m-%d %H:%M}; the indexes are not there")
    elif found.index_is_valid:
        results.print("no bulk load; the vector index serves queries")
    else:
        results.print("no bulk load, and no usable vector index: run `knowledge bulk-load finish`")
