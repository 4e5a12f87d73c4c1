"""EventBridge's grammar, against a table written by hand, cronsim, and the translation that deployments use."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from cronsim import CronSim

from knowledge.sync.cron import CronError, translate
from local.lambda_service.schedule_expression import BadExpression, parse


def firings(expression: str, start: datetime, days: int) -> list[datetime]:
    matches = parse(expression)
    minutes = (start + timedelta(minutes=number) for number in range(days * 24 * 60))
    return [minute for minute in minutes if matches(minute)]


def days_of(expression: str, year: int, month: int) -> list[int]:
    """The days of a month on which the expression fires; it must name 12:00."""
    matches = parse(expression)
    first = datetime(year, month, 1, 12, tzinfo=UTC)
    moments = (first + timedelta(days=number) for number in range(31))
    return [moment.day for moment in moments if moment.month == month and matches(moment)]


def test_minutes_and_hours() -> None:
    day = datetime(2026, 11, 30, tzinfo=UTC)
    assert firings("cron(0/15 8,20 * * ? *)", day, 1) == [
        day.replace(hour=hour, minute=minute) for hour in (8, 20) for minute in (0, 15, 30, 45)
    ]
    assert len(firings("cron(* * * * ? *)", day, 1)) == 24 * 60
    assert [moment.hour for moment in firings("cron(5 9-17/4 ? * MON 2026)", day, 2)] == [9, 13, 17]


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        # November 2026: the 1st is a Sunday, the 30th a Monday.
        ("? * SUN", [1, 8, 15, 22, 29]),
        ("? * 1", [1, 8, 15, 22, 29]),
        ("? * 7", [7, 14, 21, 28]),
        ("? * L", [7, 14, 21, 28]),
        ("? * 2-6", [2, 3, 4, 5, 6, 9, 10, 11, 12, 13, 16, 17, 18, 19, 20, 23, 24, 25, 26, 27, 30]),
        ("? nov mon-tue", [2, 3, 9, 10, 16, 17, 23, 24, 30]),
        ("? * 2#1", [2]),
        ("? * MON#5", [30]),
        ("? * TUE#5", []),
        ("? * 6L", [27]),
        ("? * MONL", [30]),
        ("? * TUEL", [24]),
        ("? * 2#1,6L", [2, 27]),
        ("1,15 * ?", [1, 15]),
        ("31 * ?", []),
        ("L * ?", [30]),
        ("LW * ?", [30]),
        ("1W * ?", [2]),  # Sunday: the Monday after it
        ("14W * ?", [13]),  # Saturday: the Friday before it
        ("15W * ?", [16]),
        ("31W * ?", []),
        ("3W,L * ?", [3, 30]),
        ("10/9 * ?", [10, 19, 28]),
        ("* 11 ?", list(range(1, 31))),
        ("* JAN,DEC ?", []),
    ],
)
def test_days(days: str, expected: list[int]) -> None:
    assert days_of(f"cron(0 12 {days} *)", 2026, 11) == expected


@pytest.mark.parametrize(
    ("days", "year", "month", "expected"),
    [
        ("1W * ?", 2026, 8, [3]),  # a Saturday whose Friday is in July
        ("LW * ?", 2026, 5, [29]),  # the 31st is a Sunday, and the Monday after it is in June
        ("LW * ?", 2026, 10, [30]),  # the 31st is a Saturday
        ("29 2 ?", 2028, 2, [29]),
        ("29 2 ?", 2027, 2, []),
        ("L * ?", 2028, 2, [29]),
        ("30W * ?", 2028, 2, []),
    ],
)
def test_days_at_the_ends_of_months(days: str, year: int, month: int, expected: list[int]) -> None:
    assert days_of(f"cron(0 12 {days} *)", year, month) == expected


def test_years() -> None:
    matches = parse("cron(0 0 1 1 ? 2027,2030-2040/5)")
    assert [year for year in range(2020, 2050) if matches(datetime(year, 1, 1, tzinfo=UTC))] == [2027, 2030, 2035, 2040]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("rate(1 minute)", 1440),
        ("rate(5 minutes)", 288),
        ("rate(1 hour)", 24),
        ("rate(7 hours)", 4),
        ("rate(1 day)", 1),
    ],
)
def test_rates(expression: str, expected: int) -> None:
    fired = firings(expression, datetime(2026, 11, 30, tzinfo=UTC), 1)
    assert len(fired) in (expected, expected - 1)
    gaps = {later - earlier for earlier, later in pairwise(fired)}
    assert len(gaps) <= 1


def test_a_rate_goes_on_from_day_to_day() -> None:
    fired = firings("rate(7 hours)", datetime(2026, 11, 30, tzinfo=UTC), 5)
    assert {later - earlier for earlier, later in pairwise(fired)} == {timedelta(hours=7)}


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "0 12 * * ? *",
        "cron()",
        "cron(0 12 * * ?)",
        "cron(0 12 * * ? * *)",
        "cron(0 12 * * * *)",
        "cron(0 12 ? * ? *)",
        "cron(0 12 1 * MON *)",
        "cron(60 12 * * ? *)",
        "cron(0 24 * * ? *)",
        "cron(0 12 0 * ? *)",
        "cron(0 12 32 * ? *)",
        "cron(0 12 * 13 ? *)",
        "cron(0 12 ? * 0 *)",
        "cron(0 12 ? * 8 *)",
        "cron(0 12 ? * FUN *)",
        "cron(0 12 * * ? 1969)",
        "cron(0 12 * * ? 2200)",
        "cron(? 12 * * ? *)",
        "cron(0,? 12 * * ? *)",
        "cron(5-3 12 * * ? *)",
        "cron(0/0 12 * * ? *)",
        "cron(*-5 12 * * ? *)",
        "cron(1,,2 12 * * ? *)",
        "cron(-1 12 * * ? *)",
        "cron(L 12 * * ? *)",
        "cron(0 12 32W * ? *)",
        "cron(0 12 W * ? *)",
        "cron(0 12 ? * MON#6 *)",
        "cron(0 12 ? * #1 *)",
        "cron(0 12 ? * 8L *)",
        "rate(0 minutes)",
        "rate(1 minutes)",
        "rate(2 minute)",
        "rate(-5 minutes)",
        "rate(5 seconds)",
        "rate(5  minutes)",
        "Rate(5 minutes)",
        "at(2026-11-30T12:00:00)",
    ],
)
def test_what_eventbridge_does_not_take_is_refused(expression: str) -> None:
    with pytest.raises(BadExpression):
        parse(expression)


def test_translated_unix_cron_fires_in_the_minutes_of_unix() -> None:
    """Both halves of a local schedule at once: what deployments register, as the local scheduler reads it."""
    rng = random.Random(20261201)
    start, compared = datetime(2028, 2, 28, tzinfo=UTC), 0  # of a leap year
    while compared < 20:
        fields = [random_field(rng, low, high) for low, high in ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))]
        expression = " ".join(fields)
        try:
            rules = translate(expression).rules
        except CronError:
            continue
        ours = sorted({moment for rule in rules for moment in firings(rule, start, 3)})
        assert ours == unix(expression, start, 3), (expression, rules)
        compared += bool(ours)


def unix(expression: str, start: datetime, days: int) -> list[datetime]:
    fired: list[datetime] = []
    for moment in CronSim(expression, start - timedelta(minutes=1)):
        if moment >= start + timedelta(days=days):
            break
        fired.append(moment)
    return fired


def random_field(rng: random.Random, low: int, high: int) -> str:
    match rng.randrange(5):
        case 0 | 1:
            return "*"
        case 2:
            return f"*/{rng.randint(2, high)}"
        case 3:
            first, last = sorted((rng.randint(low, high), rng.randint(low, high)))
            return f"{first}-{last}"
        case _:
            return ",".join(str(rng.randint(low, high)) for _ in range(rng.randint(1, 3)))
