"""``knowledge doctor``: what is wrong or due, and what to do about it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime

import typer

from cli import checks
from cli.database import Target, find_database, open_connection
from cli.exits import ExitCode
from cli.options import Backend, Database, Json, Url
from cli.output import note, print_json, printable, results
from cli.schedules import DeadLetterArn, EndpointUrl, File, Prefix, Region, TriggerArn, config, rules_of
from cli.store import store_address
from knowledge.finding import Finding
from local.home import Home
from local.settings import LocalSettings
from local.spot_file import SHIPPED
from spot_sdk.errors import KnowledgeError
from spot_sdk.operators import OperatorClient


@dataclass
class _Report:
    """What was looked at, and what was found."""

    checked: list[str] = field(default_factory=list[str])
    due: list[Finding] = field(default_factory=list[Finding])

    def add(self, subject: str, findings: list[Finding]) -> None:
        self.checked.append(subject)
        self.due += findings


def doctor(
    database: Database = None,
    backend: Backend = None,
    url: Url = None,
    file: File = SHIPPED,
    endpoint_url: EndpointUrl = None,
    region: Region = None,
    prefix: Prefix = None,
    trigger_arn: TriggerArn = None,
    dead_letter_arn: DeadLetterArn = None,
    as_json: Json = False,
) -> None:
    """Say what is wrong with the store or due, and what to do about it.

    Looks at the database (versions, schema, indexes, clock, statistics, expired documents) and at the embedding model;
    for the local stack, or with --url, at the API, its key, and the providers' runs; for the local stack, or with
    --trigger-arn, at the rules of the schedules; for the local stack at the providers themselves and the disk. Changes
    nothing. Exit code 0 when all is well, 1 when something is to be done.

    Examples:

    \b
      knowledge doctor
      knowledge doctor --json | jq -r '.due[].command'
      DATABASE_URL=postgresql://... knowledge doctor --url https://... --prefix prod --trigger-arn arn:aws:lambda:...
    """
    target = find_database(database, backend)
    is_local = database is None
    home = Home(LocalSettings.from_environment().home)
    report = _Report()
    report.add("model", checks.check_model(target.embedder))
    report.add("database", _of_database(target))
    if is_local or url is not None:
        address, key = store_address(url)
        report.add("key", checks.check_key(key))
        asyncio.run(_look_at_api(report, address, key))
    if is_local:
        file = home.spot_path
        report.add("disk", checks.check_disk(home.path))
        report.add("providers", asyncio.run(checks.check_providers(config(file).providers)))
    if is_local or trigger_arn is not None:
        rules = rules_of(endpoint_url, region, prefix, trigger_arn, dead_letter_arn)
        report.add("schedules", checks.check_schedules(rules, config(file).providers, file))
    _tell(report, as_json=as_json)


def _of_database(target: Target) -> list[Finding]:
    """What is due in the database; where it cannot be reached, that."""
    from knowledge.db.checkup import check_database
    from knowledge.documents.checkup import check_up

    with open_connection(target.dsn) as connection:
        try:
            found = check_database(connection)
            is_migrated = not any(finding.command == "knowledge migrate" for finding in found)
            return found + (check_up(connection, target.embedder.model) if is_migrated else [])
        except KnowledgeError as error:
            reason = "".join(str(error.__cause__ or "").splitlines()[:1])
            if "vector type not found" in reason:  # without it nobody gets as far as asking for it
                message = "the extension vector is not created in this database"
                return [Finding(subject="extension", message=message, command="knowledge migrate")]
            message = f"the database cannot be used: {printable(error.message)}: {printable(reason)}"
            todo = "see that it runs, and that its address, user and password are right"
            return [Finding(subject="database", message=message, command=todo)]


async def _look_at_api(report: _Report, address: str, key: str | None) -> None:
    async with OperatorClient(address, key) as client:
        found, providers = await checks.check_api(client)
    report.add("api", found)
    if not found:
        now = datetime.now(UTC)
        report.add("runs", [finding for each in providers for finding in checks.check_runs(each, now)])


def _tell(report: _Report, *, as_json: bool) -> None:
    if as_json:
        print_json({"checked": report.checked, "due": [finding.model_dump() for finding in report.due]})
    else:
        for finding in report.due:
            results.print(printable(finding.message), soft_wrap=True)
            results.print(f"  {printable(finding.command)}", soft_wrap=True)
        note(f"looked at: {', '.join(report.checked)}")
        if not report.due:
            results.print("nothing is due")
    if report.due:
        raise typer.Exit(ExitCode.FAILED)
