"""EventBridge rules follow the declared providers, and nobody else's rules are touched."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from knowledge import wiring
from knowledge.settings import SettingsError
from knowledge.sync.config import Provider
from knowledge.sync.schedules import OWNER_TAG, PROVIDER_TAG, Change, Destination, Schedules
from spot_sdk.errors import Conflict, InvalidInput, Unavailable

TRIGGER = "arn:aws:lambda:eu-central-1:123456789012:function:prod-sync-trigger"
QUEUE = "arn:aws:sqs:eu-central-1:123456789012:prod-lost-events"
WRITES = {"PutRule", "PutTargets", "RemoveTargets", "DeleteRule", "TagResource", "EnableRule", "DisableRule"}


def provider(schedule: str | None = "@hourly", *, enabled: bool = True) -> Provider:
    return Provider(url="https://provider.example", sync_schedule=schedule, enabled=enabled)


@pytest.fixture
def schedules(events: Any) -> Schedules:
    return Schedules(events, Destination("prod", TRIGGER, QUEUE))


def actions(changes: list[Change]) -> dict[str, str]:
    return {change.rule: change.action for change in changes}


def rules(events: Any) -> dict[str, dict[str, Any]]:
    return {rule["Name"]: rule for rule in events.list_rules()["Rules"]}


def targets(events: Any, rule: str) -> list[dict[str, Any]]:
    return events.list_targets_by_rule(Rule=rule)["Targets"]


def tags(events: Any, rule: str) -> dict[str, str]:
    arn = events.describe_rule(Name=rule)["Arn"]
    return {tag["Key"]: tag["Value"] for tag in events.list_tags_for_resource(ResourceARN=arn)["Tags"]}


def strangers_rule(events: Any, name: str, **tags: str) -> None:
    events.put_rule(
        Name=name, ScheduleExpression="rate(5 minutes)", Tags=[{"Key": k, "Value": v} for k, v in tags.items()]
    )
    events.put_targets(Rule=name, Targets=[{"Id": "theirs", "Arn": "arn:aws:sqs:eu-central-1:123456789012:theirs"}])


@pytest.fixture
def calls(events: Any) -> list[str]:
    """The operations that EventBridge was asked for, as they come."""
    made: list[str] = []
    events.meta.events.register("before-call.events", lambda model, **_: made.append(model.name))
    return made


Answer = Callable[[str, dict[str, Any]], None]


@pytest.fixture
def answer(events: Any) -> Answer:
    """``answer("PutTargets", {...})`` has EventBridge answer this, for the provider "broken" only."""

    def install(operation: str, body: dict[str, Any], status: int = 200) -> None:
        def reply(params: dict[str, Any], **_: Any) -> Any:
            if b"broken" not in params["body"]:
                return None
            return type("Response", (), {"status_code": status, "headers": {}})(), body

        events.meta.events.register(f"before-call.events.{operation}", reply)

    return install


def test_a_provider_gets_a_rule_that_asks_the_function_to_sync_it(events: Any, schedules: Schedules) -> None:
    schedules.apply({"wiki": provider("0 */6 * * *")})
    (rule,) = rules(events).values()
    assert rule["Name"] == "prod-sync-wiki-1"
    assert rule["ScheduleExpression"] == "cron(0 0/6 * * ? *)"
    assert rule["State"] == "ENABLED"
    assert "0 */6 * * *" in rule["Description"]
    assert tags(events, "prod-sync-wiki-1") == {OWNER_TAG: "prod", PROVIDER_TAG: "wiki"}
    (target,) = targets(events, "prod-sync-wiki-1")
    template = target["InputTransformer"].pop("InputTemplate")
    assert json.loads(template.replace("<time>", '"now"')) == {
        "trigger": "schedule",
        "provider_id": "wiki",
        "time": "now",
    }
    assert target == {
        "Id": "sync-trigger",
        "Arn": TRIGGER,
        "InputTransformer": {"InputPathsMap": {"time": "$.time"}},
        "RetryPolicy": {"MaximumRetryAttempts": 10, "MaximumEventAgeInSeconds": 3600},
        "DeadLetterConfig": {"Arn": QUEUE},
    }


def test_without_a_queue_events_that_do_not_arrive_go_nowhere(events: Any) -> None:
    Schedules(events, Destination("prod", TRIGGER)).apply({"wiki": provider()})
    assert "DeadLetterConfig" not in targets(events, "prod-sync-wiki-1")[0]


def test_what_cron_says_with_two_rules_gets_two(events: Any, schedules: Schedules) -> None:
    schedules.apply({"wiki": provider("30 4 1,15 * 5")})
    assert {name: rule["ScheduleExpression"] for name, rule in rules(events).items()} == {
        "prod-sync-wiki-1": "cron(30 4 1,15 * ? *)",
        "prod-sync-wiki-2": "cron(30 4 ? * 6 *)",
    }
    assert actions(schedules.apply({"wiki": provider("30 4 * * 5")})) == {
        "prod-sync-wiki-1": "change",
        "prod-sync-wiki-2": "remove",
    }
    assert set(rules(events)) == {"prod-sync-wiki-1"}


def test_a_provider_without_a_schedule_has_no_rule(events: Any, schedules: Schedules) -> None:
    assert schedules.apply({"wiki": provider(None)}) == []
    schedules.apply({"wiki": provider()})
    assert actions(schedules.apply({"wiki": provider(None)})) == {"prod-sync-wiki-1": "remove"}
    assert rules(events) == {}


def test_planning_changes_nothing(events: Any, schedules: Schedules, calls: list[str]) -> None:
    schedules.apply({"gone": provider()})
    calls.clear()
    planned = schedules.plan({"wiki": provider()})
    assert actions(planned) == {"prod-sync-gone-1": "remove", "prod-sync-wiki-1": "create"}
    assert not WRITES & set(calls)
    assert schedules.apply({"wiki": provider()}) == planned


def test_applying_again_writes_nothing(schedules: Schedules, calls: list[str]) -> None:
    providers = {"wiki": provider("30 4 1,15 * 5"), "directory": provider(enabled=False)}
    assert set(actions(schedules.apply(providers)).values()) == {"create"}
    calls.clear()
    assert set(actions(schedules.apply(providers)).values()) == {"keep"}
    assert calls
    assert not WRITES & set(calls)


def test_a_disabled_provider_keeps_its_rule_switched_off(events: Any, schedules: Schedules) -> None:
    schedules.apply({"wiki": provider()})
    assert actions(schedules.apply({"wiki": provider(enabled=False)})) == {"prod-sync-wiki-1": "disable"}
    assert rules(events)["prod-sync-wiki-1"]["State"] == "DISABLED"
    assert actions(schedules.apply({"wiki": provider()})) == {"prod-sync-wiki-1": "enable"}
    assert rules(events)["prod-sync-wiki-1"]["State"] == "ENABLED"
    assert tags(events, "prod-sync-wiki-1") == {OWNER_TAG: "prod", PROVIDER_TAG: "wiki"}


def test_a_new_provider_that_is_disabled_never_fires(events: Any, schedules: Schedules) -> None:
    (change,) = schedules.apply({"wiki": provider(enabled=False)})
    assert str(change) == "+ create prod-sync-wiki-1: cron(0 * * * ? *) (disabled)"
    assert rules(events)["prod-sync-wiki-1"]["State"] == "DISABLED"


def test_a_change_says_what_changes(schedules: Schedules) -> None:
    schedules.apply({"wiki": provider("@hourly"), "same": provider("@daily")})
    changes = schedules.plan({"wiki": provider("@daily", enabled=False), "same": provider("@daily")})
    assert "\n".join(map(str, changes)) == (
        "= prod-sync-same-1: cron(0 0 * * ? *)\n"
        "~ change prod-sync-wiki-1: cron(0 0 * * ? *) (disabled)\n"
        "    schedule: cron(0 * * * ? *) → cron(0 0 * * ? *)\n"
        "    state: ENABLED → DISABLED\n"
        "    description: Syncs wiki at @hourly (cron, UTC) → Syncs wiki at @daily (cron, UTC)"
    )


def test_another_function_or_queue_is_a_change(events: Any, schedules: Schedules) -> None:
    schedules.apply({"wiki": provider()})
    elsewhere = Schedules(events, Destination("prod", f"{TRIGGER}-2"))
    (change,) = elsewhere.apply({"wiki": provider()})
    assert change.action == "change"
    assert change.differences == [
        f"target.Arn: {TRIGGER} → {TRIGGER}-2",
        f"target.DeadLetterConfig.Arn: {QUEUE} → none",
    ]
    assert targets(events, "prod-sync-wiki-1")[0]["Arn"] == f"{TRIGGER}-2"


def test_a_rule_that_lost_its_target_gets_it_back(events: Any, schedules: Schedules) -> None:
    """As after an end between the two calls that make a rule."""
    schedules.apply({"wiki": provider()})
    events.remove_targets(Rule="prod-sync-wiki-1", Ids=["sync-trigger"])
    assert actions(schedules.apply({"wiki": provider()})) == {"prod-sync-wiki-1": "change"}
    assert targets(events, "prod-sync-wiki-1")[0]["Arn"] == TRIGGER


def test_a_rule_of_somebody_else_with_our_name_is_reported_and_left_alone(events: Any, schedules: Schedules) -> None:
    strangers_rule(events, "prod-sync-wiki-1")
    with pytest.raises(Conflict, match=r"provider wiki: .*'prod-sync-wiki-1'"):
        schedules.plan({"wiki": provider()})
    with pytest.raises(Conflict) as refusal:
        schedules.apply({"other": provider(), "wiki": provider()})
    assert [problem.field for problem in refusal.value.problems] == ["wiki"]
    assert set(rules(events)) == {"prod-sync-wiki-1"}
    assert rules(events)["prod-sync-wiki-1"]["ScheduleExpression"] == "rate(5 minutes)"
    assert [target["Id"] for target in targets(events, "prod-sync-wiki-1")] == ["theirs"]


def test_rules_of_others_stay_when_ours_go(events: Any, schedules: Schedules) -> None:
    strangers_rule(events, "prod-sync-by-hand")
    strangers_rule(events, "prod-sync-eu-sync-wiki-1", **{OWNER_TAG: "prod-sync-eu"})  # a stack called prod-sync-eu
    strangers_rule(events, "other-sync-wiki-1", **{OWNER_TAG: "prod"})  # the tag alone does not make it ours
    before = rules(events)
    schedules.apply({"wiki": provider()})
    assert actions(schedules.apply({})) == {"prod-sync-wiki-1": "remove"}
    assert rules(events) == before
    assert [target["Id"] for name in before for target in targets(events, name)] == ["theirs"] * 3


def test_a_target_that_somebody_added_to_our_rule_stays_as_long_as_the_rule(events: Any, schedules: Schedules) -> None:
    schedules.apply({"wiki": provider()})
    events.put_targets(
        Rule="prod-sync-wiki-1", Targets=[{"Id": "log", "Arn": "arn:aws:logs:eu-central-1:1:log-group:x"}]
    )
    schedules.apply({"wiki": provider("@daily")})
    assert {target["Id"] for target in targets(events, "prod-sync-wiki-1")} == {"sync-trigger", "log"}
    schedules.apply({})
    assert rules(events) == {}


def test_more_rules_than_one_page_holds(events: Any, schedules: Schedules) -> None:
    providers = {f"p{number}": provider() for number in range(51)}
    schedules.apply(providers)
    assert events.list_rules().get("NextToken"), "the point of this test: one page does not hold them"
    assert set(actions(schedules.plan(providers)).values()) == {"keep"}
    assert set(actions(schedules.apply({})).values()) == {"remove"}
    assert rules(events) == {}


def test_a_target_that_is_not_taken_is_an_error_and_the_other_providers_are_applied(
    events: Any, schedules: Schedules, answer: Answer
) -> None:
    entry = {"TargetId": "sync-trigger", "ErrorCode": "ConcurrentModification", "ErrorMessage": "try again"}
    answer("PutTargets", {"FailedEntryCount": 1, "FailedEntries": [entry]})
    with pytest.raises(Unavailable, match=r"schedule of broken .*ConcurrentModification: try again") as failure:
        schedules.apply({"a": provider(), "broken": provider(), "c": provider()})
    assert [problem.field for problem in failure.value.problems] == ["broken"]
    assert actions(schedules.plan({"a": provider(), "broken": provider(), "c": provider()})) == {
        "prod-sync-a-1": "keep",
        "prod-sync-broken-1": "change",
        "prod-sync-c-1": "keep",
    }


def test_targets_that_are_not_removed_keep_their_rule(events: Any, schedules: Schedules, answer: Answer) -> None:
    schedules.apply({"broken": provider()})
    answer("RemoveTargets", {"FailedEntryCount": 1, "FailedEntries": [{"ErrorCode": "E", "ErrorMessage": "no"}]})
    with pytest.raises(Unavailable, match=r"schedule of broken .*: E: no"):
        schedules.apply({})
    assert set(rules(events)) == {"prod-sync-broken-1"}


def test_a_refusal_names_the_provider_and_the_reason(events: Any, schedules: Schedules, answer: Answer) -> None:
    answer("PutRule", {"Error": {"Code": "LimitExceededException", "Message": "300 rules"}}, 400)
    with pytest.raises(Unavailable, match=r"schedule of broken .*PutRule: LimitExceededException: 300 rules"):
        schedules.apply({"broken": provider(), "z": provider()})
    assert set(rules(events)) == {"prod-sync-z-1"}


def test_an_eventbridge_that_is_not_there_is_unavailable() -> None:
    config = Config(retries={"total_max_attempts": 1})
    nowhere = boto3.client("events", endpoint_url="http://eventbridge.invalid:1", config=config)
    with pytest.raises(Unavailable, match="EventBridge cannot be used"):
        Schedules(nowhere, Destination("prod", TRIGGER)).plan({})


def test_a_name_that_eventbridge_would_not_take_is_refused_with_its_length(events: Any) -> None:
    longest = "p" * 48
    fits = Schedules(events, Destination("12345678", TRIGGER))
    assert actions(fits.apply({longest: provider()})) == {f"12345678-sync-{longest}-1": "create"}
    with pytest.raises(InvalidInput, match=rf"context_providers\.{longest}: .* 1 longer than the 64"):
        Schedules(events, Destination("123456789", TRIGGER)).plan({longest: provider()})


def test_a_schedule_of_any_length_fits_into_the_description(events: Any, schedules: Schedules) -> None:
    every_hour = ",".join(["0"] * 300) + " * * * *"
    schedules.apply({"wiki": provider(every_hour)})
    assert len(rules(events)["prod-sync-wiki-1"]["Description"]) == 512
    assert actions(schedules.plan({"wiki": provider(every_hour)})) == {"prod-sync-wiki-1": "keep"}


# As the migrate function does it


@pytest.fixture
def spot_yaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path = tmp_path / "spot.yaml"
    path.write_text('plugins: {context_providers: {wiki: {url: "https://wiki.example", sync_schedule: "@daily"}}}')
    monkeypatch.setenv("SPOT_CONFIG_PATH", str(path))
    monkeypatch.setenv("SCHEDULE_PREFIX", "stack")
    monkeypatch.setenv("SYNC_TRIGGER_ARN", TRIGGER)
    monkeypatch.setenv("SYNC_DLQ_ARN", QUEUE)
    yield path
    wiring.reset()


def test_the_environment_says_whose_rules_and_where_they_lead(events: Any, spot_yaml: Path) -> None:
    assert wiring.apply_schedules() == [
        Change(
            action="create", rule="stack-sync-wiki-1", provider_id="wiki", schedule="cron(0 0 * * ? *)", enabled=True
        )
    ]
    (target,) = targets(events, "stack-sync-wiki-1")
    assert (target["Arn"], target["DeadLetterConfig"]["Arn"]) == (TRIGGER, QUEUE)


def test_without_a_function_there_are_no_schedules(
    events: Any, spot_yaml: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SYNC_TRIGGER_ARN", "")
    assert wiring.apply_schedules() is None
    assert rules(events) == {}


def test_a_file_that_cannot_be_used_changes_no_rule(events: Any, spot_yaml: Path) -> None:
    wiring.apply_schedules()
    spot_yaml.write_text('plugins: {context_providers: {wiki: {url: "https://x", sync_schedule: "@never"}}}')
    with pytest.raises(SettingsError, match=r"spot\.yaml:1: .*sync_schedule"):
        wiring.apply_schedules()
    assert set(rules(events)) == {"stack-sync-wiki-1"}
