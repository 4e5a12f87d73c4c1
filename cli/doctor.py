"""``knowledge doctor``: what maintenance is due."""

from __future__ import annotations

import typer

from cli.database import find_database, open_connection
from cli.exits import ExitCode
from cli.options import Backend, Database, Json
from cli.output import print_json, printable, results


def doctor(database: Database = None, backend: Backend = None, as_json: Json = False) -> None:
    """Say what maintenance the store needs, and the command for it.

    Looks at the model, the indexes, the planner's statistics and expired documents, and changes nothing. Exit code 0
    when nothing is due, 1 when something is.

    Examples:

    \b
      knowledge doctor
      knowledge doctor --json | jq -r '.due[].command'
    """
    from knowledge.documents.checkup import check_up

    target = find_database(database, backend)
    with open_connection(target.dsn) as connection:
        due = check_up(connection, target.embedder.model)
    if as_json:
        print_json({"due": [finding.model_dump() for finding in due]})
    elif not due:
        results.print("nothing is due")
    else:
        for finding in due:
            results.print(printable(finding.message), soft_wrap=True)
            results.print(f"  {finding.command}", soft_wrap=True)
    if due:
        raise typer.Exit(ExitCode.FAILED)
