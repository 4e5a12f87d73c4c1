"""``knowledge schedules``: when providers are synced, and the EventBridge rules that see to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.deployed import named_stack, read_stack
from cli.options import Json
from cli.output import note, print_json, results
from cli.store import running_stack
from knowledge.sync.config import ConfigError, SpotConfig, load
from knowledge.sync.cron import CronError, translate
from knowledge.sync.schedules import Change, Destination, Schedules
from local.lambda_service.stack_names import StackNames
from local.lambda_service.template import load_template
from local.settings import CHECKOUT
from local.spot_file import SHIPPED
from spot_sdk.errors import InvalidInput

_FIRINGS_SHOWN = 10

app = typer.Typer(help="See and set when providers are synced.", no_args_is_help=True)

File = Annotated[
    Path, typer.Option("--file", metavar="FILE", help="The operators' file.", show_default="infra/spot.yaml")
]
EndpointUrl = Annotated[
    str | None,
    typer.Option(
        "--endpoint-url", metavar="URL", help="Where EventBridge is, if not on AWS: an emulator or LocalStack."
    ),
]
Region = Annotated[str | None, typer.Option("--region", envvar="AWS_REGION", metavar="NAME", help="The AWS region.")]
Prefix = Annotated[
    str | None,
    typer.Option(
        "--prefix",
        envvar="SCHEDULE_PREFIX",
        metavar="NAME",
        help="The stack's name, with which the rules' names begin.",
    ),
]
TriggerArn = Annotated[
    str | None,
    typer.Option(
        "--trigger-arn",
        envvar="SYNC_TRIGGER_ARN",
        metavar="ARN",
        help="The function that the rules invoke: the stack's output SyncTriggerArn. Without it: the local stack's.",
    ),
]
DeadLetterArn = Annotated[
    str | None,
    typer.Option(
        "--dead-letter-arn",
        envvar="SYNC_DLQ_ARN",
        metavar="ARN",
        help="The queue for events that do not arrive: the stack's output LostEventsArn.",
    ),
]


@app.command()
def explain(
    expression: Annotated[str, typer.Argument(metavar="CRON", help="Five fields, or @hourly and the like; UTC.")],
    as_json: Json = False,
) -> None:
    """Show a schedule's rules and its next firings.

    Examples:

    \b
      knowledge schedules explain "0 */6 * * *"
      knowledge schedules explain "30 4 1,15 * 5" --json
    """
    try:
        schedule = translate(expression)
    except CronError as error:
        raise InvalidInput(str(error)) from error
    firings = [f"{at:%Y-%m-%dT%H:%M:%SZ}" for at in islice(schedule.after(datetime.now(UTC)), _FIRINGS_SHOWN)]
    if as_json:
        print_json({"rules": schedule.rules, "next": firings})
        return
    results.print("\n".join(schedule.rules), soft_wrap=True)
    results.print("next:", *firings, sep="\n  ")


@app.command()
def plan(
    file: File = SHIPPED,
    endpoint_url: EndpointUrl = None,
    region: Region = None,
    prefix: Prefix = None,
    trigger_arn: TriggerArn = None,
    dead_letter_arn: DeadLetterArn = None,
    as_json: Json = False,
) -> None:
    """Show what applying the schedules would change.

    Compares the rules in EventBridge with the providers that the file declares, and changes nothing.

    Examples:

    \b
      knowledge schedules plan
      knowledge schedules plan --prefix prod --trigger-arn arn:aws:lambda:eu-central-1:123456789012:function:sync
    """
    providers = config(file).providers
    changes = rules_of(endpoint_url, region, prefix, trigger_arn, dead_letter_arn).plan(providers)
    _show(changes, as_json=as_json)


@app.command()
def apply(
    file: File = SHIPPED,
    endpoint_url: EndpointUrl = None,
    region: Region = None,
    prefix: Prefix = None,
    trigger_arn: TriggerArn = None,
    dead_letter_arn: DeadLetterArn = None,
    as_json: Json = False,
) -> None:
    """Make the rules in EventBridge those of the file.

    The migrate function does the same at each deployment, with the file that was deployed. An empty file removes all
    rules, as is due before a stack is deleted. Rules that were not made for this stack are left alone.

    Examples:

    \b
      knowledge schedules apply
      knowledge schedules apply --file /dev/null
    """
    providers = config(file).providers
    changes = rules_of(endpoint_url, region, prefix, trigger_arn, dead_letter_arn).apply(providers)
    _show(changes, as_json=as_json)


def config(file: Path) -> SpotConfig:
    try:
        return load(file)
    except ConfigError as error:
        raise InvalidInput(str(error)) from error


def rules_of(
    endpoint_url: str | None,
    region: str | None,
    prefix: str | None,
    trigger_arn: str | None,
    dead_letter_arn: str | None,
) -> Schedules:
    """The rules of the stack that is named, or whose function is; else of the local one."""
    name = named_stack.get()
    if name is not None:
        outputs = read_stack(name)
        destination = Destination(name, outputs.output("SyncTriggerArn"), outputs.output("LostEventsArn"))
        return Schedules(_client(endpoint_url, region), destination)
    if trigger_arn is not None:
        if prefix is None:
            raise InvalidInput("--prefix is needed with --trigger-arn: the name of the stack")
        return Schedules(_client(endpoint_url, region), Destination(prefix, trigger_arn, dead_letter_arn))
    if endpoint_url is None:
        endpoint_url = running_stack("--trigger-arn")[1].aws_endpoint_url
    return Schedules(_local_client(endpoint_url), _local_destination())


def _local_destination() -> Destination:
    """What the local stack's migrate function works with."""
    functions = load_template(CHECKOUT / "template.yaml", StackNames()).functions
    variables = next(function.environment for function in functions if function.logical_id == "MigrateFunction")
    return Destination(variables["SCHEDULE_PREFIX"], variables["SYNC_TRIGGER_ARN"], variables["SYNC_DLQ_ARN"])


def _local_client(endpoint_url: str) -> Any:
    return _client(endpoint_url, StackNames().region, aws_access_key_id="local", aws_secret_access_key="local")  # noqa: S106


def _client(endpoint_url: str | None, region: str | None, **credentials: str) -> Any:
    import boto3
    from botocore.exceptions import BotoCoreError

    try:
        return boto3.Session(region_name=region, **credentials).client("events", endpoint_url=endpoint_url)
    except (BotoCoreError, ValueError) as error:
        raise InvalidInput(f"EventBridge cannot be used: {error}") from error


def _show(changes: Sequence[Change], *, as_json: bool) -> None:
    if as_json:
        print_json({"changes": [change.model_dump() for change in changes]})
        return
    for change in changes:
        results.print(str(change), soft_wrap=True)
    counts = Counter(change.action for change in changes)
    note(", ".join(f"{number} {action}" for action, number in counts.items()) or "no rules, none wanted")
