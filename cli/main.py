"""The command ``knowledge``: its subcommands, and how each of them ends."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer

from cli.analyze import analyze
from cli.archive import export, import_
from cli.bulk_load import app as bulk_load
from cli.database import dsn, migrate
from cli.deployed import named_stack
from cli.doctor import doctor
from cli.documents import delete
from cli.exits import ExitCode, describe, exit_code
from cli.ingest import ingest
from cli.items import app as items
from cli.keys import app as keys
from cli.mcp import mcp
from cli.output import note
from cli.query import query
from cli.reembed import reembed
from cli.schedules import app as schedules
from cli.slow_queries import slow_queries
from cli.stack import demo, up
from cli.stats import stats
from cli.sync import providers, sync
from cli.sync import runs_app as runs
from cli.tag_indexes import app as tag_indexes
from cli.version import version
from knowledge.settings import SettingsError
from spot_sdk.errors import KnowledgeError

_EXIT_CODES = """
Exit codes: 0 done; 1 failed; 2 the command line or its input is not right; 3 nobody answers (start a stack, or try
again later); 130 interrupted. `knowledge analyze` tells the verdict: 10 phishing, 11 suspicious, 12 none.
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


_OF_A_STORE = {
    "query",
    "ingest",
    "delete",
    "stats",
    "version",
    "sync",
    "providers",
    "runs",
    "keys",
    "schedules",
    "slow-queries",
}


class _Invocation:
    """What the options before the subcommand say."""

    debug = False


@app.callback()
def options(
    context: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show where in the code an error came from.")] = False,
    stack: Annotated[
        str | None,
        typer.Option(
            "--stack",
            metavar="NAME",
            help="A stack on AWS: its address and key are taken from its outputs, with your AWS credentials.",
        ),
    ] = None,
) -> None:
    context.obj.debug = debug
    named_stack.set(stack)
    if stack is not None and context.invoked_subcommand not in _OF_A_STORE:
        raise typer.BadParameter(f"--stack is for {', '.join(sorted(_OF_A_STORE))}")
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(ExitCode.REFUSED)


for command in (up, demo, query, analyze, ingest, delete, stats, export):
    app.command()(command)
app.command("import")(import_)
for command in (migrate, doctor, reembed, dsn, mcp, version):
    app.command()(command)
for command in (sync, providers):
    app.command()(command)
app.command("slow-queries")(slow_queries)
for name, group in (
    ("runs", runs),
    ("schedules", schedules),
    ("keys", keys),
    ("tag-indexes", tag_indexes),
    ("items", items),
    ("bulk-load", bulk_load),
):
    app.add_typer(group, name=name)


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns its exit code. Errors become lines on stderr, with ``--debug`` a traceback too."""
    invocation = _Invocation()
    try:
        return app(list(arguments), prog_name="knowledge", standalone_mode=False, obj=invocation) or ExitCode.OK
    except Exception as error:  # the end of the line: whatever it is, it is told and not shown raw
        if invocation.debug:
            traceback.print_exception(error)
        return _tell(error)


def _tell(error: Exception) -> int:
    """One or a few lines on stderr; the exit code that goes with them."""
    match error:
        case KnowledgeError():
            lines, code = describe(error), exit_code(error)
        case SettingsError():
            lines, code = str(error), ExitCode.REFUSED
        case typer.TyperException():
            lines, code = f"{error.format_message()}{_where_help_is(error)}", error.exit_code
        case typer.Abort():
            lines, code = "nothing was done", ExitCode.FAILED
        case OSError():
            lines, code = str(error), ExitCode.FAILED
        case _:
            lines = f"something broke: {type(error).__name__}: {error} (`knowledge --debug ...` shows where)"
            code = ExitCode.FAILED
    note(lines if lines.startswith("Usage: ") else f"knowledge: {lines}")  # a group without a command shows its help
    return code


def _where_help_is(error: typer.TyperException) -> str:
    """For a command line that is not right: the command that tells how it is written."""
    context = getattr(error, "ctx", None)
    is_explained = "\n" in error.format_message()
    return "" if context is None or is_explained else f" (`{context.command_path} --help` tells more)"


def main() -> None:
    sys.exit(run(sys.argv[1:]))
