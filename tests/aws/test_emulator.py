"""What the local Lambda service keeps in the emulator. moto is the emulator, so its API within this process will do."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest

from local.lambda_service.emulator import Emulator, EmulatorAway, ScheduledRule
from local.lambda_service.functions import AsyncPolicy, FunctionSpec, Schedule

REGION = "eu-central-1"
QUEUE = f"arn:aws:sqs:{REGION}:123456789012:lost"
HOURLY = Schedule("Hourly", "rate(1 hour)", input='{"a": 1}')


def function(*schedules: Schedule, on_failure: str | None = None) -> FunctionSpec:
    return FunctionSpec(
        logical_id="Cleanup",
        name="cleanup",
        arn=f"arn:aws:lambda:{REGION}:123456789012:function:cleanup",
        code_dir=Path("/code"),
        handler="app.handler",
        runtime="python3.13",
        log_group="/logs",
        schedules=schedules,
        async_policy=AsyncPolicy(on_failure=on_failure),
    )


@pytest.fixture
def emulator() -> Emulator:
    return Emulator(None, REGION)


def states(events: Any) -> dict[str, str]:
    return {rule["Name"]: rule["State"] for rule in events.list_rules()["Rules"]}


def test_the_schedules_of_a_template_become_rules_with_their_function_as_target(
    emulator: Emulator, events: Any
) -> None:
    emulator.declare([function(HOURLY)])
    assert emulator.rules() == [
        ScheduledRule("Hourly", f"arn:aws:events:{REGION}:123456789012:rule/Hourly", "rate(1 hour)")
    ]
    assert emulator.targets("Hourly") == [{"Id": "function", "Arn": function().arn, "Input": '{"a": 1}'}]


def test_rules_that_are_off_or_wait_for_events_do_not_fire(emulator: Emulator, events: Any) -> None:
    emulator.declare([function(replace(HOURLY, enabled=False))])
    events.put_rule(Name="pattern", EventPattern=json.dumps({"source": ["x"]}))
    events.put_rule(Name="off", ScheduleExpression="rate(1 hour)", State="DISABLED")
    events.put_rule(Name="on", ScheduleExpression="rate(2 hours)")
    assert [rule.name for rule in emulator.rules()] == ["on"]


def test_all_pages_of_rules_are_read(emulator: Emulator, events: Any) -> None:
    for number in range(51):
        events.put_rule(Name=f"rule-{number}", ScheduleExpression="rate(1 hour)")
    assert events.list_rules().get("NextToken"), "the point of this test: one page does not hold them"
    assert len(emulator.rules()) == 51


def test_a_changed_template_changes_its_own_rules_only(emulator: Emulator, events: Any) -> None:
    events.put_rule(Name="theirs", ScheduleExpression="rate(1 hour)")
    emulator.declare([function(HOURLY, replace(HOURLY, name="Second"))])
    emulator.declare([function(replace(HOURLY, expression="rate(2 hours)"))])
    assert {rule.name: rule.expression for rule in emulator.rules()} == {
        "theirs": "rate(1 hour)",
        "Hourly": "rate(2 hours)",
    }


def test_a_rule_that_somebody_switched_off_stays_off(emulator: Emulator, events: Any) -> None:
    emulator.declare([function(HOURLY)])
    events.disable_rule(Name="Hourly")
    emulator.declare([function(HOURLY)])
    assert states(events) == {"Hourly": "DISABLED"}


def test_queues_for_lost_events_are_there_from_the_start_and_are_sent_to(emulator: Emulator) -> None:
    sqs = boto3.client("sqs")
    emulator.declare([function(on_failure=QUEUE), function()])
    (url,) = sqs.list_queues()["QueueUrls"]
    emulator.send(QUEUE, "one")
    emulator.send(QUEUE.replace("lost", "another"), "two")
    assert [message["Body"] for message in sqs.receive_message(QueueUrl=url)["Messages"]] == ["one"]
    assert len(sqs.list_queues()["QueueUrls"]) == 2


def test_an_answer_that_is_none_is_an_emulator_that_is_away(emulator: Emulator) -> None:
    with pytest.raises(EmulatorAway, match="absent"):
        emulator.targets("absent")
    nowhere = Emulator("http://emulator.invalid:1", REGION)
    for call in (nowhere.rules, lambda: nowhere.targets("x"), lambda: nowhere.declare([function(HOURLY)])):
        with pytest.raises(EmulatorAway):
            call()
    with pytest.raises(EmulatorAway):
        nowhere.send(QUEUE, "one")


def test_what_could_not_be_declared_is_declared_the_next_time(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as away:
        away.setitem(emulator.__dict__, "_events", Emulator("http://emulator.invalid:1", REGION)._events)
        with pytest.raises(EmulatorAway):
            emulator.declare([function(HOURLY)])
    emulator.declare([function(HOURLY)])
    assert [rule.name for rule in emulator.rules()] == ["Hourly"]
