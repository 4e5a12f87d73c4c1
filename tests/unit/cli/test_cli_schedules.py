"""Explaining a schedule, and comparing the declared ones with EventBridge as moto plays it within this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from local.home import Home, StackState
from local.settings import LocalSettings

Knowledge = Callable[..., Any]

TRIGGER = "arn:aws:lambda:us-east-1:123456789012:function:sync"
NAMES = ("--prefix", "prod", "--trigger-arn", TRIGGER, "--region", "us-east-1")


class TestExplain:
    def test_shows_rules_and_the_next_firings(self, knowledge: Knowledge) -> None:
        ended = knowledge("schedules", "explain", "30 4 1,15 * 5")

        rules, firings = ended.out.split("next:\n")
        assert rules.splitlines() == ["cron(30 4 1,15 * ? *)", "cron(30 4 ? * 6 *)"]
        assert len(firings.splitlines()) == 10
        assert (ended.code, ended.err) == (0, "")

    def test_as_json(self, knowledge: Knowledge) -> None:
        before = datetime.now(UTC)
        ended = knowledge("schedules", "explain", "0 */6 * * *", "--json")

        said = json.loads(ended.out)
        firings = [datetime.fromisoformat(moment) for moment in said["next"]]
        assert said["rules"] == ["cron(0 0/6 * * ? *)"]
        assert before < firings[0] <= datetime.now(UTC) + timedelta(hours=6)
        assert firings == [firings[0] + timedelta(hours=6 * number) for number in range(10)]
        assert firings[0].hour % 6 == firings[0].minute == firings[0].second == 0

    @pytest.mark.parametrize("options", [(), ("--json",)])
    def test_a_refusal_says_why_and_what_works(self, knowledge: Knowledge, options: tuple[str, ...]) -> None:
        ended = knowledge("schedules", "explain", "0 0 */2 * MON", *options)

        assert (ended.code, ended.out) == (2, "")
        assert "'0 0 */2 * *' and '0 0 * * MON'" in ended.err


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "nobody")
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    for name in ("SCHEDULE_PREFIX", "SYNC_TRIGGER_ARN", "SYNC_DLQ_ARN"):
        monkeypatch.delenv(name, raising=False)
    with mock_aws():
        yield boto3.client("events", region_name="us-east-1")


@pytest.fixture
def spot(tmp_path: Path) -> Callable[[str], str]:
    """``spot("@daily")`` is the path of a file in which the wiki has this schedule."""

    def write(schedule: str) -> str:
        path = tmp_path / "spot.yaml"
        path.write_text(
            f"plugins: {{context_providers: {{wiki: {{url: 'https://wiki.example', sync_schedule: '{schedule}'}}}}}}"
        )
        return str(path)

    return write


def rules(events: Any) -> dict[str, str]:
    return {rule["Name"]: rule["ScheduleExpression"] for rule in events.list_rules()["Rules"]}


class TestPlanAndApply:
    def test_the_plan_is_a_diff_and_changes_nothing(
        self, knowledge: Knowledge, events: Any, spot: Callable[[str], str]
    ) -> None:
        ended = knowledge("schedules", "plan", "--file", spot("@daily"), *NAMES)

        assert (ended.code, ended.out) == (0, "+ create prod-sync-wiki-1: cron(0 0 * * ? *)\n")
        assert rules(events) == {}

    def test_apply_does_what_the_plan_said(self, knowledge: Knowledge, events: Any, spot: Callable[[str], str]) -> None:
        knowledge("schedules", "apply", "--file", spot("@daily"), *NAMES)
        ended = knowledge("schedules", "apply", "--file", spot("@hourly"), *NAMES)

        assert ended.code == 0
        assert ended.out.splitlines()[:2] == [
            "~ change prod-sync-wiki-1: cron(0 * * * ? *)",
            "    schedule: cron(0 0 * * ? *) → cron(0 * * * ? *)",
        ]
        assert ended.err == "1 change\n"
        assert rules(events) == {"prod-sync-wiki-1": "cron(0 * * * ? *)"}
        target = events.list_targets_by_rule(Rule="prod-sync-wiki-1")["Targets"][0]
        assert target["Arn"] == TRIGGER

    def test_an_empty_file_removes_all(self, knowledge: Knowledge, events: Any, spot: Callable[[str], str]) -> None:
        knowledge("schedules", "apply", "--file", spot("@daily"), *NAMES)

        assert knowledge("schedules", "apply", "--file", "/dev/null", *NAMES).code == 0
        assert rules(events) == {}
        assert "no rules" in knowledge("schedules", "plan", "--file", "/dev/null", *NAMES).err

    def test_as_json(self, knowledge: Knowledge, events: Any, spot: Callable[[str], str]) -> None:
        ended = knowledge("schedules", "plan", "--json", "--file", spot("@daily"), *NAMES)

        assert json.loads(ended.out) == {
            "changes": [
                {
                    "action": "create",
                    "rule": "prod-sync-wiki-1",
                    "provider_id": "wiki",
                    "schedule": "cron(0 0 * * ? *)",
                    "enabled": True,
                    "differences": [],
                }
            ]
        }

    def test_a_file_that_cannot_be_used_is_refused_with_its_line(
        self, knowledge: Knowledge, events: Any, spot: Callable[[str], str]
    ) -> None:
        ended = knowledge("schedules", "apply", "--file", spot("@never"), *NAMES)

        assert (ended.code, ended.out) == (2, "")
        assert "spot.yaml:1: plugins.context_providers.wiki.sync_schedule" in ended.err

    def test_a_rule_of_somebody_else_is_refused(
        self, knowledge: Knowledge, events: Any, spot: Callable[[str], str]
    ) -> None:
        events.put_rule(Name="prod-sync-wiki-1", ScheduleExpression="rate(1 day)")

        ended = knowledge("schedules", "apply", "--file", spot("@daily"), *NAMES)

        assert ended.code == 2
        assert "left alone" in ended.err
        assert rules(events) == {"prod-sync-wiki-1": "rate(1 day)"}

    def test_a_function_needs_its_stacks_name(self, knowledge: Knowledge, events: Any) -> None:
        ended = knowledge("schedules", "plan", "--trigger-arn", TRIGGER)

        assert ended.code == 2
        assert "--prefix" in ended.err

    def test_without_a_region_aws_cannot_be_asked(self, knowledge: Knowledge, events: Any) -> None:
        ended = knowledge("schedules", "plan", "--prefix", "prod", "--trigger-arn", TRIGGER)

        assert ended.code == 2
        assert "region" in ended.err

    def test_without_a_function_it_is_about_the_local_stack(
        self, knowledge: Knowledge, events: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        nothing_runs = knowledge("schedules", "plan")
        assert (nothing_runs.code, nothing_runs.out) == (3, "")
        assert "--trigger-arn" in nothing_runs.err

        home = Home(LocalSettings.from_environment().home)
        home.make()
        home.lock.acquire()
        try:
            home.write_state(
                StackState(
                    pid=1,
                    port=1,
                    url="http://127.0.0.1:1",
                    knowledge_url="http://127.0.0.1:1/api/v1/knowledge",
                    aws_endpoint_url="https://events.us-east-1.amazonaws.com",  # which moto plays
                    processes=[],
                )
            )
            ended = knowledge("schedules", "apply")
        finally:
            home.lock.release()

        assert ended.code == 0, ended.err
        assert set(rules(events)) == {"local-sync-employee-dir-1", "local-sync-wiki-1"}
        (target,) = events.list_targets_by_rule(Rule="local-sync-wiki-1")["Targets"]
        assert target["Arn"].endswith(":function:SyncTriggerFunction")
        assert target["DeadLetterConfig"]["Arn"].endswith(":local-lost-events")
