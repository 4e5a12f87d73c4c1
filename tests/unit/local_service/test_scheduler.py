"""The scheduler on a clock of the test's own: what is due fires, once, whatever clock, laptop and emulator do."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from local.lambda_service.emulator import EmulatorAway, ScheduledRule
from local.lambda_service.scheduler import Scheduler
from local.lambda_service.service import FunctionNotFound

pytestmark = pytest.mark.anyio

START = datetime(2026, 11, 30, 11, 59, 30, tzinfo=UTC)
SYNC = "arn:aws:lambda:eu-central-1:123456789012:function:Sync"
MINUTE = timedelta(minutes=1)


class TheEnd(Exception):
    """The time that the test looks at is over."""


@dataclass
class Clock:
    """Goes on when the scheduler sleeps, and ends it at `until`. `at` has something happen at a moment."""

    time: datetime = START
    until: datetime = START + 10 * MINUTE
    events: list[tuple[datetime, Callable[[], None]]] = field(default_factory=list)
    sleeps: list[float] = field(default_factory=list)

    def now(self) -> datetime:
        return self.time

    async def sleep(self, seconds: float) -> None:
        assert seconds > 0, "this would be a busy loop"
        self.sleeps.append(seconds)
        self.time += timedelta(seconds=seconds)
        for event in [event for event in self.events if event[0] <= self.time]:
            self.events.remove(event)
            event[1]()
        if self.time >= self.until:
            raise TheEnd

    def at(self, clock: str, action: Callable[[], None]) -> None:
        self.events.append((moment(clock), action))

    def jump(self, by: timedelta) -> Callable[[], None]:
        def jump() -> None:
            self.time += by

        return jump


def moment(clock: str) -> datetime:
    """HH:MM or HH:MM:SS of the day of START."""
    return datetime.fromisoformat(f"2026-11-30T{clock}+00:00")


@dataclass
class Book:
    """Rules in memory, which can be out of reach."""

    expressions: dict[str, str] = field(default_factory=dict)
    targets_of: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    away: set[str] = field(default_factory=set)
    """The operations that fail."""
    refreshed: int = 0

    def refresh(self) -> None:
        self._answer("refresh")
        self.refreshed += 1

    def rules(self) -> list[ScheduledRule]:
        self._answer("rules")
        return [
            ScheduledRule(name, f"arn:aws:events:eu-central-1:123456789012:rule/{name}", expression)
            for name, expression in self.expressions.items()
        ]

    def targets(self, rule: str) -> list[dict[str, Any]]:
        self._answer("targets")
        return self.targets_of.get(rule, [{"Id": "1", "Arn": SYNC}])

    def _answer(self, operation: str) -> None:
        if operation in self.away:
            raise EmulatorAway("connection refused")


@dataclass
class Run:
    """What the scheduler did."""

    fired: list[tuple[str, str, Any]]
    """When, by the clock; what was called; with which event."""
    notes: list[str]
    book: Book
    clock: Clock

    def times(self, rule: str = "") -> list[str]:
        """The minutes in which a rule fired, by its events."""
        return [
            event["time"][11:16] for _, _, event in self.fired if not rule or event["resources"][0].endswith(f"/{rule}")
        ]


async def run(book: Book, clock: Clock) -> Run:
    done = Run([], [], book, clock)

    def invoke(arn: str, event: bytes) -> None:
        if ":function:" not in arn:
            raise FunctionNotFound(arn)
        done.fired.append((f"{clock.now():%H:%M:%S}", arn, json.loads(event)))

    scheduler = Scheduler(book, refresh=book.refresh, invoke=invoke, note=done.notes.append, clock=clock)
    with pytest.raises(TheEnd):
        await scheduler.run()
    return done


async def test_a_rule_fires_at_the_full_minute_with_eventbridges_event() -> None:
    done = await run(Book({"nightly": "cron(0 12 * * ? *)"}), Clock())
    ((at, function, event),) = done.fired
    assert (at, function) == ("12:00:00", SYNC)
    assert event.pop("id")
    assert event == {
        "version": "0",
        "detail-type": "Scheduled Event",
        "source": "aws.events",
        "account": "123456789012",
        "time": "2026-11-30T12:00:00Z",
        "region": "eu-central-1",
        "resources": ["arn:aws:events:eu-central-1:123456789012:rule/nightly"],
        "detail": {},
    }
    assert done.notes == []


async def test_every_minute_fires_once_and_each_event_has_its_own_id() -> None:
    done = await run(Book({"often": "cron(* * * * ? *)"}), Clock())
    assert done.times() == [f"12:0{minute}" for minute in range(10)]
    assert len({event["id"] for _, _, event in done.fired}) == len(done.fired)


async def test_nothing_is_fired_for_the_minute_of_the_start_or_before() -> None:
    clock = Clock(time=moment("12:00:05"), until=moment("12:03"))
    assert (await run(Book({"noon": "cron(0 12 * * ? *)"}), clock)).fired == []


async def test_rates_and_several_rules() -> None:
    book = Book({"five": "rate(5 minutes)", "three": "rate(3 minutes)", "hourly": "rate(1 hour)"})
    done = await run(book, Clock())
    assert done.times("five") == ["12:00", "12:05"]
    assert done.times("three") == ["12:00", "12:03", "12:06", "12:09"]
    assert done.times("hourly") == ["12:00"]


async def test_rules_are_read_anew_each_minute() -> None:
    """Whatever is switched off or removed is not among the rules any more."""
    book, clock = Book(), Clock()
    clock.at("12:02:30", lambda: book.expressions.update(late="cron(* * * * ? *)"))
    clock.at("12:05:30", book.expressions.clear)
    assert (await run(book, clock)).times() == ["12:03", "12:04", "12:05"]


async def test_each_target_gets_its_own_input() -> None:
    transformer = {"InputPathsMap": {"time": "$.time"}, "InputTemplate": '{"provider_id": "wiki", "time": <time>}'}
    book = Book({"noon": "cron(0 12 * * ? *)"})
    book.targets_of["noon"] = [
        {"Id": "1", "Arn": SYNC, "InputTransformer": transformer},
        {"Id": "2", "Arn": f"{SYNC}2", "Input": '{"constant": 1}'},
    ]
    assert [call[1:] for call in (await run(book, Clock())).fired] == [
        (SYNC, {"provider_id": "wiki", "time": "2026-11-30T12:00:00Z"}),
        (f"{SYNC}2", {"constant": 1}),
    ]


async def test_a_laptop_that_slept_fires_each_rule_at_most_once_for_what_it_missed() -> None:
    book = Book({"often": "cron(* * * * ? *)", "half": "cron(30 * * * ? *)", "seven": "cron(0 7 * * ? *)"})
    clock = Clock(until=moment("15:17"))
    clock.at("12:02:05", clock.jump(timedelta(hours=3, minutes=12)))
    done = await run(book, clock)
    assert done.times("often") == ["12:00", "12:01", "12:02", "15:14", "15:15", "15:16"]
    assert done.times("half") == ["14:30"]
    assert done.times("seven") == []


async def test_waking_up_is_noticed_within_seconds() -> None:
    """The sleeps are short: time that a machine sleeps is not counted by them."""
    clock = Clock()
    await run(Book(), clock)
    assert max(clock.sleeps) <= 10


async def test_what_was_missed_longer_than_a_day_ago_stays_missed() -> None:
    book = Book({"yearly": "cron(0 13 30 11 ? *)"})
    clock = Clock(until=START + timedelta(days=2, minutes=5))
    clock.at("12:02:05", clock.jump(timedelta(days=2)))
    assert (await run(book, clock)).fired == []


@pytest.mark.parametrize("operation", ["refresh", "rules", "targets"])
async def test_an_emulator_that_is_away_for_a_moment_costs_nothing_but_a_delay(operation: str) -> None:
    book, clock = Book({"noon": "cron(0 12 * * ? *)", "often": "cron(* * * * ? *)"}), Clock(until=moment("12:03:30"))
    clock.at("11:59:50", lambda: book.away.add(operation))
    clock.at("12:00:20", book.away.clear)
    done = await run(book, clock)
    assert done.times("noon") == ["12:00"]
    assert done.times("often") == ["12:00", "12:01", "12:02", "12:03"]
    assert done.fired[0][0] <= "12:00:25"
    (note,) = done.notes
    assert "connection refused" in note


async def test_an_emulator_that_is_away_for_minutes_makes_up_once() -> None:
    book, clock = Book({"often": "cron(* * * * ? *)"}, away={"rules"}), Clock(until=moment("12:06:30"))
    clock.at("12:04:10", book.away.clear)
    done = await run(book, clock)
    assert done.times() == ["12:04", "12:05", "12:06"]
    assert len(done.notes) == 1


async def test_being_away_again_is_told_again() -> None:
    book, clock = Book(away={"rules"}), Clock(until=moment("12:06:30"))
    clock.at("12:01:10", book.away.clear)
    clock.at("12:03:10", lambda: book.away.add("rules"))
    assert len((await run(book, clock)).notes) == 2


async def test_what_the_template_declares_is_there_before_the_first_minute_and_kept_up_to_date() -> None:
    clock = Clock(until=START + timedelta(seconds=9))
    assert (await run(Book(), clock)).book.refreshed == 1
    assert (await run(Book(), Clock())).book.refreshed == 11


async def test_a_clock_that_is_set_back_a_little_fires_no_minute_twice() -> None:
    book, clock = Book({"often": "cron(* * * * ? *)"}), Clock(until=moment("12:08:30"))
    clock.at("12:03:05", clock.jump(-3 * MINUTE))
    done = await run(book, clock)
    assert done.times() == [f"12:0{minute}" for minute in range(9)]
    assert done.notes == []


async def test_a_clock_that_was_hours_ahead_does_not_stop_the_schedules_for_hours() -> None:
    book, clock = Book({"often": "cron(* * * * ? *)"}), Clock()

    def set_back() -> None:
        clock.time -= timedelta(hours=2)
        clock.until = moment("10:06:30")

    clock.at("12:03:05", set_back)
    done = await run(book, clock)
    assert done.times() == ["12:00", "12:01", "12:02", "12:03", "10:04", "10:05", "10:06"]
    (note,) = done.notes
    assert "set back to 2026-11-30 10:03" in note


@pytest.mark.parametrize(
    ("expression", "target", "reason"),
    [
        ("cron(61 * * * ? *)", {"Id": "1", "Arn": SYNC}, "minutes"),
        ("cron(* * * * ? *)", {"Id": "1", "Arn": "arn:aws:sqs:eu-central-1:123456789012:q"}, "no function"),
        ("cron(* * * * ? *)", {"Id": "1", "Arn": SYNC, "InputPath": "$.absent"}, "absent"),
    ],
)
async def test_what_cannot_be_fired_is_told_once_and_harms_no_other_rule(
    expression: str, target: dict[str, Any], reason: str
) -> None:
    book = Book({"bad": expression, "good": "cron(* * * * ? *)"}, {"bad": [target]})
    done = await run(book, Clock())
    assert len(done.times("good")) == 10
    (note,) = done.notes
    assert "bad" in note
    assert reason in note
