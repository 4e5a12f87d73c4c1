"""What the service keeps in the AWS emulator: the rules and queues that its template declares.

Every call blocks, so the service makes them in threads.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from local.lambda_service.functions import FunctionSpec, Schedule

_CONNECT_TIMEOUT_S = 2.0
_READ_TIMEOUT_S = 20.0  # the emulator imports what a service needs before the first answer for it
_TARGET_ID = "function"


class EmulatorAway(Exception):
    """The emulator did not answer, or not as asked; the message says how."""


@dataclass(frozen=True)
class ScheduledRule:
    """A rule with a schedule that is switched on; `arn` names region and account."""

    name: str
    arn: str
    expression: str


class Emulator:
    """The emulator's EventBridge and SQS. Every method raises EmulatorAway. Without a URL it is AWS itself."""

    def __init__(self, endpoint_url: str | None, region: str) -> None:
        self._endpoint_url = endpoint_url
        self._region = region
        self._declared: dict[str, tuple[Schedule, str]] = {}

    def declare(self, functions: Sequence[FunctionSpec]) -> None:
        """Make the rules and queues that a template's functions name, and remove rules that only its last version had.

        Rules and queues of others stay, and so does what somebody did to a rule that the template did not change.
        """
        wanted = {schedule.name: (schedule, function.arn) for function in functions for schedule in function.schedules}
        with _answering():
            for name in self._declared.keys() - wanted.keys():
                self._remove_rule(name)
                del self._declared[name]
            for name, declared in wanted.items():
                if self._declared.get(name) != declared:
                    self._put_rule(*declared)
                    self._declared[name] = declared
            for queue_arn in {function.async_policy.on_failure for function in functions}:
                if queue_arn is not None:
                    self._queue_url(queue_arn)

    def rules(self) -> list[ScheduledRule]:
        """All rules with a schedule that are switched on, whoever made them."""
        with _answering():
            pages = self._events.get_paginator("list_rules").paginate()
            return [
                ScheduledRule(rule["Name"], rule["Arn"], rule["ScheduleExpression"])
                for page in pages
                for rule in page["Rules"]
                if rule.get("ScheduleExpression") and rule["State"] != "DISABLED"
            ]

    def targets(self, rule: str) -> list[dict[str, Any]]:
        """The targets of a rule, in EventBridge's own terms."""
        with _answering():
            pages = self._events.get_paginator("list_targets_by_rule").paginate(Rule=rule)
            return [target for page in pages for target in page["Targets"]]

    def send(self, queue_arn: str, body: str) -> None:
        """Put a message into a queue, which is made if it is not there."""
        with _answering():
            self._sqs.send_message(QueueUrl=self._queue_url(queue_arn), MessageBody=body)

    def _put_rule(self, schedule: Schedule, function_arn: str) -> None:
        state = "ENABLED" if schedule.enabled else "DISABLED"
        target = {"Id": _TARGET_ID, "Arn": function_arn, **({"Input": schedule.input} if schedule.input else {})}
        self._events.put_rule(Name=schedule.name, ScheduleExpression=schedule.expression, State=state)
        self._events.put_targets(Rule=schedule.name, Targets=[target])

    def _remove_rule(self, name: str) -> None:
        self._events.remove_targets(Rule=name, Ids=[_TARGET_ID])
        self._events.delete_rule(Name=name)

    def _queue_url(self, arn: str) -> str:
        return self._sqs.create_queue(QueueName=arn.rpartition(":")[2])["QueueUrl"]

    @cached_property
    def _events(self) -> Any:
        return self._client("events")

    @cached_property
    def _sqs(self) -> Any:
        return self._client("sqs")

    def _client(self, service: str) -> Any:
        import boto3
        from botocore.config import Config

        own = {"aws_access_key_id": "local", "aws_secret_access_key": "local"}  # never the developer's
        session = boto3.Session(**own, region_name=self._region)
        config = Config(
            connect_timeout=_CONNECT_TIMEOUT_S,
            read_timeout=_READ_TIMEOUT_S,
            retries={"mode": "standard", "total_max_attempts": 1},  # the scheduler tries again
        )
        return session.client(service, endpoint_url=self._endpoint_url, config=config)


@contextlib.contextmanager
def _answering() -> Generator[None]:
    """Turns whatever boto3 raises for a call into EmulatorAway."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise EmulatorAway(str(error)) from error
