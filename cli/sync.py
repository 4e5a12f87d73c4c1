"""``knowledge sync``, ``providers`` and ``runs``: what providers bring, when, and how it went."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.table import Table

from cli.exits import ExitCode
from cli.options import Json, Url
from cli.output import counted, note, print_json, printable, results, table
from cli.store import operate
from spot_sdk.errors import NotFound
from spot_sdk.operators import OperatorClient
from spot_sdk.sync import Providers, ProviderStatus, SyncRunRecord, SyncRuns

_POLL_S = 0.5
_MAX_RUNS = 500
_MAX_NAME_WIDTH = 18  # what the other columns leave of 80

runs_app = typer.Typer(help="See sync runs, and confirm their removals.", no_args_is_help=True)

ProviderId = Annotated[str, typer.Argument(metavar="ID", help="The provider's name in spot.yaml.")]


def sync(
    provider_id: ProviderId,
    wait: Annotated[bool, typer.Option("--wait", help="Stay until the run has ended, and tell how it went.")] = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Have a provider sync now, whatever its schedule.

    With --wait the exit code is 0 only for a run that succeeded.

    Examples:

    \b
      knowledge sync employee-dir
      knowledge sync wiki --wait
    """

    async def work(client: OperatorClient) -> SyncRunRecord | None:
        try:
            run_id = await client.start_sync(provider_id)
        except NotFound as error:
            raise NotFound(f"{error.message}; `knowledge providers` lists those that there are") from error
        note(f"run {run_id} of {printable(provider_id)} has begun")
        while wait:
            record = await client.run_of(provider_id, run_id)
            if record.status != "running":
                return record
            await asyncio.sleep(_POLL_S)
        return None

    record = operate(url, work)
    if record is None:
        return
    if as_json:
        print_json(record)
    else:
        results.print(_runs_table([record]))
        _explain([record])
    if record.status != "succeeded":
        raise typer.Exit(ExitCode.FAILED)


def providers(url: Url = None, as_json: Json = False) -> None:
    """List the providers, and when they sync.

    Each with its schedule, its next firing and its last run.

    Examples:

    \b
      knowledge providers
      knowledge providers --json | jq '.providers[] | select(.enabled) | .id'
    """

    async def ask(client: OperatorClient) -> list[ProviderStatus]:
        return await client.providers()

    found = operate(url, ask)
    if as_json:
        print_json(Providers(providers=found))
        return
    if not found:
        results.print("No provider is configured. They are declared in infra/spot.yaml.")
        return
    shown = table("provider", "schedule (UTC)", "next", "last run", "status")
    for provider in found:
        last = provider.runs[0] if provider.runs else None
        shown.add_row(
            printable(provider.id),
            provider.sync_schedule or "by hand",
            _moment(provider.next_sync_at) if provider.enabled else "disabled",
            _moment(last.started_at) if last else "never",
            last.status if last else "",
        )
    results.print(shown)
    _explain([provider.runs[0] for provider in found if provider.runs])


@runs_app.command("list")
def list_runs(
    source: Annotated[str | None, typer.Option("--source", metavar="NAME", help="Only runs of this source.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=_MAX_RUNS, help="How many, newest first.")] = 20,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """List the last sync runs, newest first.

    Examples:

    \b
      knowledge runs list
      knowledge runs list --source provider-wiki --limit 5
    """

    async def ask(client: OperatorClient) -> list[SyncRunRecord]:
        return await client.runs(source, limit)

    found = operate(url, ask)
    if as_json:
        print_json(SyncRuns(runs=found))
        return
    if not found:
        results.print("No sync has run yet.")
        return
    results.print(_runs_table(found))
    _explain(found)


@runs_app.command("confirm")
def confirm_run(
    run_id: Annotated[int, typer.Argument(metavar="RUN", help="The number of the run.")],
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Carry out the removals that the guard held back.

    Examples:

    \b
      knowledge runs confirm 12
    """

    async def work(client: OperatorClient) -> SyncRunRecord:
        return await client.confirm_run(run_id)

    record = operate(url, work)
    if as_json:
        print_json(record)
    else:
        results.print(f"{counted(record.removed, 'document')} removed")


def _runs_table(runs: list[SyncRunRecord]) -> Table:
    numbers = ("run", "seconds")
    shown = table(
        "run", "of", "by", "started (UTC)", "seconds", "result",
        right=numbers, whole=(*numbers, "by", "started (UTC)", "result"),
    )  # fmt: skip
    for run in runs:
        seconds = (run.finished_at - run.started_at).total_seconds() if run.finished_at else None
        shown.add_row(
            str(run.id),
            _name(run),
            run.trigger,
            _moment(run.started_at),
            "" if seconds is None else f"{seconds:,.1f}",
            _result(run),
        )
    return shown


def _name(run: SyncRunRecord) -> str:
    """Whose run it is; a long name on a line below its kind, so that a narrow window need not cut it."""
    name = printable(run.name)
    return name if len(name) <= _MAX_NAME_WIDTH else name.replace(":", ":\n", 1)


def _result(run: SyncRunRecord) -> str:
    """The status, and under it what the run did: a count a line, so that it is read in a narrow window too."""
    counts = {name: getattr(run, name) for name in ("created", "updated", "unchanged", "removed", "held")}
    return "\n".join([run.status, *(f"{count:,} {name}" for name, count in counts.items() if count)])


def _explain(runs: list[SyncRunRecord]) -> None:
    """Why runs did not succeed, a line for each."""
    for run in runs:
        if run.error:
            results.print(f"run {run.id}: {printable(run.error)}", soft_wrap=True)


def _moment(moment: datetime | None) -> str:
    return "never" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}"
