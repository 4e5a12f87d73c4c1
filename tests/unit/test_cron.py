"""Cron: for every expression the same minutes as unix, or a refusal. Oracles: cronsim, and AWS's grammar by force."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest
from cronsim import CronSim

from knowledge.sync.cron import CronError, translate

START = datetime(2027, 12, 20, tzinfo=UTC)  # 400 days with the 29 February of 2028
DAYS = 400
NAMES = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]


def matches(field: str, low: int, high: int) -> set[int]:
    """AWS's grammar, field by field: comma, dash, slash, star and question mark."""
    values: set[int] = set()
    for part in field.split(","):
        base, _, step = part.partition("/")
        first, dash, last = base.partition("-")
        if base in ("*", "?"):
            begin, end = low, high
        else:
            begin = int(first)
            end = int(last) if dash else high if step else begin
        assert low <= begin <= end <= high, part
        values |= set(range(begin, end + 1, int(step or 1)))
    return values


def aws_minutes(rule: str) -> set[datetime]:
    assert rule.startswith("cron(")
    assert len(rule) <= 256
    minute, hour, day, month, weekday, year = rule.removeprefix("cron(").removesuffix(")").split()
    assert year == "*"
    assert (day == "?") != (weekday == "?"), "exactly one day field is a question mark"
    minutes, hours = matches(minute, 0, 59), matches(hour, 0, 23)
    days, months, weekdays = matches(day, 1, 31), matches(month, 1, 12), matches(weekday, 1, 7)
    fired: set[datetime] = set()
    for number in range(DAYS):
        date = START + timedelta(days=number)
        if date.month in months and date.day in days and date.isoweekday() % 7 + 1 in weekdays:
            fired |= {date.replace(hour=h, minute=m) for h in hours for m in minutes}
    return fired


def unix_minutes(expression: str) -> set[datetime]:
    end = START + timedelta(days=DAYS)
    fired: set[datetime] = set()
    for moment in CronSim(expression, START - timedelta(minutes=1)):
        if moment >= end:
            break
        fired.add(moment)
    return fired


def agrees(expression: str) -> bool:
    """True when the rules fire as unix does, False when the expression is refused; anything else fails."""
    try:
        schedule = translate(expression)
    except CronError:
        return False
    fired = set[datetime]().union(*map(aws_minutes, schedule.rules))
    assert fired == unix_minutes(expression), (expression, schedule.rules)
    return True


def random_field(rng: random.Random, low: int, high: int, names: list[str], offset: int) -> str:
    def value() -> str:
        number = rng.randint(low, high)
        name = number - offset
        return names[name] if names and name < len(names) and rng.random() < 0.3 else str(number)

    kind = rng.random()
    if kind < 0.35:
        return "*"
    if kind < 0.5:
        return f"*/{rng.randint(1, high)}"
    if kind < 0.65:
        first, last = sorted((rng.randint(low, high), rng.randint(low, high)))
        return f"{first}-{last}" + (f"/{rng.randint(1, 9)}" if rng.random() < 0.5 else "")
    return ",".join(value() for _ in range(rng.randint(1, 4)))


def random_expression(rng: random.Random) -> str:
    # Few minutes and hours: the set of all minutes of 400 days is compared for each.
    return " ".join(
        (
            ",".join(str(rng.randint(0, 59)) for _ in range(rng.randint(1, 2))) if rng.random() < 0.95 else "*/20",
            ",".join(str(rng.randint(0, 23)) for _ in range(1)) if rng.random() < 0.95 else "*/6",
            random_field(rng, 1, 31, [], 0),
            random_field(rng, 1, 12, NAMES, 1),
            random_field(rng, 0, 7, WEEKDAYS, 0),
        )
    )


@pytest.mark.timeout(600)
def test_five_thousand_random_expressions_fire_in_the_same_minutes_or_are_refused() -> None:
    rng = random.Random(20261130)
    accepted = sum(agrees(random_expression(rng)) for _ in range(5_000))
    assert accepted > 2_500


@pytest.mark.parametrize(
    "expression",
    [
        "* * * * *", "*/15 * * * *", "0 */6 * * *", "7-59/13 3-21/5 * * *", "0 0 * * 0", "0 0 * * 7", "0 0 * * 0-7",
        "0 0 * * 5-7", "0 0 * * */7", "0 0 * * */2", "0 0 1-31 * MON", "0 0 13 * FRI", "0 0 */1 * MON", "0 0 1,15 * *",
        "30 4 1,15 * 5", "0 0 29 2 *", "0 0 31 2 MON", "0 0 31 * *", "0 9-17 * * MON-FRI", "0 0 * JAN,JUL SUN",
        "  5  4 * * sun ",
        "0 0 1-7 * *", "0 0 *,5 * MON",
    ],
)  # fmt: skip
def test_fires_in_the_same_minutes(expression: str) -> None:
    assert agrees(expression)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("0 0 * * FRI-MON", "5-6,0-1"),
        ("0 22-2 * * *", "22-23,0-2"),
        ("*/61 * * * *", "step"),
        ("*/0 * * * *", "step"),
        ("@reboot", "@hourly"),
        ("0 0 12 * * *", "'0 12 * * *'"),
        ("0 0 */2 * MON", "'0 0 */2 * *' and '0 0 * * MON'"),
        ("0 0 1 * */2", "'0 0 1 * *'"),
        ("0 0 31 2 *", "never"),
        ("0 0 30 FEB *", "never"),
        ("0 0 0 * *", "1-31"),
        ("60 * * * *", "0-59"),
        ("0 24 * * *", "0-23"),
        ("0 0 * 13 *", "1-12 or JAN-DEC"),
        ("0 0 * * 8", "0-7 or SUN-SAT"),
        ("5/10 * * * *", "5-59/10"),
        ("0 0 L * *", "day-of-month"),
        ("0 0 * * MON#1", "day-of-week"),
        ("0 0 15W * *", "day-of-month"),
        ("0 0 ? * MON", "day-of-month"),
        ("", "five fields"),
        ("* * * *", "five fields"),
        ("1,,2 * * * *", "minute"),
        ("*-5 * * * *", "minute"),
        ("１ * * * *", "ASCII"),
        ("-1 * * * *", "minute"),
        ("59-59/1 * * * *", "write '59'"),
        ("0 0 * * \u017fun", "ASCII"),
        ("1" * 5_000 + " * * * *", "at most 1000"),
        ("*/" + "1" * 900 + " * * * *", "step"),
    ],
)
def test_refuses_with_the_reason_and_the_nearest_that_works(expression: str, reason: str) -> None:
    with pytest.raises(CronError) as refusal:
        translate(expression)
    assert reason in str(refusal.value)


@pytest.mark.parametrize(
    ("alias", "fields"),
    [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@MIDNIGHT", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
    ],
)
def test_an_alias_means_its_fields(alias: str, fields: str) -> None:
    assert translate(alias) == translate(fields)


def test_both_day_fields_make_two_rules() -> None:
    assert translate("30 4 1,15 * 5").rules == ["cron(30 4 1,15 * ? *)", "cron(30 4 ? * 6 *)"]


def test_the_next_firings_are_those_of_unix() -> None:
    for expression in ("0 */6 * * *", "0 0 29 2 *", "30 4 1,15 * 5", "*/7 * * * *"):
        ours = list(islice(translate(expression).after(START), 10))
        assert ours == list(islice(CronSim(expression, START), 10))
