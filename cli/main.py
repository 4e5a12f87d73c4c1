"""The command ``knowledge``: its subcommands, and how each of them ends."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer

from cli.archive import export, import_
from cli.database import dsn, migrate
from cli.documents import delete
from cli.exits import ExitCode, describe, exit_code
from cli.ingest import ingest
from cli.output import note
from cli.query import query
from cli.stack import demo, up
from cli.stats import stats
from cli.version import version
from knowledge.settings import SettingsError
from spot_sdk.errors import KnowledgeError

_EXIT_CODES = """
Exit codes: 0 done; 1 failed; 2 the command line or its input is not right; 3 nobody answers (start a stack, or try
again later); 130 interrupted.
"""

app = typer.Typer(
    name="knowledge",
    help="Keep what a company knows, and find it by meaning: documents with tags, loaded from folders and providers.",
    epilog=_EXIT_CODES,
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


class _Invocation:
    """What the options before the subcommand say."""

    debug = False


@app.callback()
def options(
    context: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show where in the code an error came from.")] = False,
) -> None:
    context.obj.debug = debug
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(ExitCode.REFUSED)


for command in (up, demo, query, ingest, delete, stats, export):
    app.command()(command)
app.command("import")(import_)
for command in (migrate, dsn, version):
    app.command()(command)


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns its exit code. Errors become lines on stderr, with ``--debug`` a traceback too."""
    invocation = _Invocation()
    try:
        return app(list(arguments), prog_name="knowledge", standalone_mode=False, obj=invocation) or ExitCode.OK
    except (KnowledgeError, SettingsError, typer.TyperException, typer.Abort, KeyboardInterrupt, OSError) as error:
        if invocation.debug:
            traceback.print_exception(error)
        return _ended_by(error)


def _ended_by(error: BaseException) -> int:
    match error:
        case KnowledgeError():
            note(f"knowledge: {describe(error)}")
            return exit_code(error)
        case SettingsError():
            note(f"knowledge: {error}")
            return ExitCode.REFUSED
        case typer.TyperException():
            note(f"knowledge: {error.format_message()}")
            return error.exit_code
        case typer.Abort():
            note("knowledge: nothing was done")
            return ExitCode.FAILED
        case BrokenPipeError():
            # What is still buffered cannot be written either; let the interpreter's last flush go nowhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return ExitCode.BROKEN_PIPE
        case OSError():
            note(f"knowledge: {error}")
            return ExitCode.FAILED
        case _:
            note("")
            return ExitCode.INTERRUPTED


def main() -> None:
    sys.exit(run(sys.argv[1:]))
