"""EventBridge's schedule expressions: in which minutes they fire.

    expression = "cron(" minutes hours day-of-month month day-of-week year ")" | "rate(" number unit ")"
    field      = part { "," part }, or "?" in one of the two day fields and only there
    part       = ( "*" | value | value "-" value ) [ "/" step ]      a value with a step counts on to the field's end
    value      = number, or in their fields JAN-DEC and SUN-SAT; weekdays are 1 (Sunday) to 7
               | in day-of-month: "L" (last day), "LW" (last weekday), value "W" (the weekday nearest to it)
               | in day-of-week: "L" (7), value "L" (the last such day of the month), value "#" 1-5 (the nth one)

On AWS a rate counts from the moment when its rule was made. Here it counts from 1970, so that an hourly rule fires at
the full hour however often the service was started anew in between. Times are UTC.

Source: "Creating a rule that runs on a schedule", Amazon EventBridge user guide. What unix cron means is another matter
(knowledge/sync/cron.py); that both agree is tested.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache, partial

_RATE = re.compile(r"rate\((\d+) (minute|minutes|hour|hours|day|days)\)")
_CRON = re.compile(r"cron\((.*)\)")
_PART = re.compile(r"(?P<first>\*|\w+)(?:-(?P<last>\w+))?(?:/(?P<step>\d+))?", re.ASCII)
_UNIT_MINUTES = {"minute": 1, "hour": 60, "day": 24 * 60}
_SUNDAY, _SATURDAY = 1, 7

Matcher = Callable[[datetime], bool]
_DayMatcher = Callable[[date], bool]


class BadExpression(ValueError):
    """EventBridge would not take this expression; the message says why."""


@dataclass(frozen=True, slots=True)
class _Field:
    """One field of a cron expression, and the values that it may hold."""

    name: str
    low: int
    high: int
    names: Mapping[str, int]


def _numbered(names: str) -> dict[str, int]:
    return {name: number for number, name in enumerate(names.split(), start=1)}


_MINUTES = _Field("minutes", 0, 59, {})
_HOURS = _Field("hours", 0, 23, {})
_DAYS = _Field("day-of-month", 1, 31, {})
_MONTHS = _Field("month", 1, 12, _numbered("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC"))
_WEEKDAYS = _Field("day-of-week", 1, 7, _numbered("SUN MON TUE WED THU FRI SAT"))
_YEARS = _Field("year", 1970, 2199, {})


@lru_cache(maxsize=512)
def parse(expression: str) -> Matcher:
    """Tells of a minute (UTC) whether the expression fires in it. Raises BadExpression."""
    if match := _RATE.fullmatch(expression):
        return _rate(int(match[1]), match[2])
    if match := _CRON.fullmatch(expression):
        return _cron(match[1].upper().split())
    raise BadExpression(f"{expression!r} is neither cron(...) nor rate(...)")


def _rate(number: int, unit: str) -> Matcher:
    if number < 1 or (number == 1) == unit.endswith("s"):
        raise BadExpression(f"rate({number} {unit}): expected a positive number, and a plural only above one")
    period = number * _UNIT_MINUTES[unit.removesuffix("s")]
    return lambda moment: int(moment.timestamp()) // 60 % period == 0


def _cron(parts: list[str]) -> Matcher:
    if len(parts) != 6:
        raise BadExpression(
            f"expected six fields (minutes hours day-of-month month day-of-week year), not {len(parts)}"
        )
    minutes, hours = _values(_MINUTES, parts[0]), _values(_HOURS, parts[1])
    months, years = _values(_MONTHS, parts[3]), _values(_YEARS, parts[5])
    if (parts[2] == "?") == (parts[4] == "?"):
        raise BadExpression("exactly one of day-of-month and day-of-week is '?'")
    on_day = _any_of(_day_of_month, parts[2]) if parts[4] == "?" else _any_of(_day_of_week, parts[4])

    def fires(moment: datetime) -> bool:
        return (
            moment.minute in minutes
            and moment.hour in hours
            and moment.month in months
            and moment.year in years
            and on_day(moment.date())
        )

    return fires


def _any_of(read: Callable[[str], _DayMatcher], text: str) -> _DayMatcher:
    """True of a day that one of the parts between the commas matches."""
    matchers = [read(part) for part in text.split(",")]
    return lambda day: any(matches(day) for matches in matchers)


def _day_of_month(part: str) -> _DayMatcher:
    if part == "L":
        return lambda day: day.day == _last_day(day)
    if part == "LW":
        return lambda day: day == _nearest_weekday(day, _last_day(day))
    if part.endswith("W"):
        wanted = _value(_DAYS, part.removesuffix("W"))
        return lambda day: wanted <= _last_day(day) and day == _nearest_weekday(day, wanted)
    values = _values(_DAYS, part)
    return lambda day: day.day in values


def _day_of_week(part: str) -> _DayMatcher:
    weekday, hash_sign, nth = part.partition("#")
    if hash_sign:
        if nth not in ("1", "2", "3", "4", "5"):
            raise BadExpression(f"day-of-week: in {part!r} a number from 1 to 5 follows '#'")
        return partial(_is_nth, _value(_WEEKDAYS, weekday), int(nth))
    if part == "L":
        return lambda day: _weekday(day) == _SATURDAY
    if part.endswith("L"):
        wanted = _value(_WEEKDAYS, part.removesuffix("L"))
        return lambda day: _weekday(day) == wanted and day.day + 7 > _last_day(day)
    values = _values(_WEEKDAYS, part)
    return lambda day: _weekday(day) in values


def _is_nth(weekday: int, nth: int, day: date) -> bool:
    return _weekday(day) == weekday and (day.day - 1) // 7 + 1 == nth


def _weekday(day: date) -> int:
    return day.isoweekday() % 7 + 1


def _last_day(day: date) -> int:
    return calendar.monthrange(day.year, day.month)[1]


def _nearest_weekday(day: date, wanted: int) -> date:
    """Of the month of ``day``: the Monday to Friday that is nearest to its day number ``wanted``, in the same month."""
    target = day.replace(day=wanted)
    step = {_SATURDAY: -1, _SUNDAY: 1}.get(_weekday(target), 0)
    nearest = target + timedelta(days=step)
    return nearest if nearest.month == day.month else target - timedelta(days=2 * step)


def _values(field: _Field, text: str) -> frozenset[int]:
    return frozenset(value for part in text.split(",") for value in _range(field, part))


def _range(field: _Field, text: str) -> range:
    match = _PART.fullmatch(text)
    if match is None or (match["first"] == "*" and match["last"]):
        raise BadExpression(f"{field.name}: cannot read {text!r}")
    low = field.low if match["first"] == "*" else _value(field, match["first"])
    if match["last"]:
        high = _value(field, match["last"])
    else:
        high = field.high if match["first"] == "*" or match["step"] else low
    step = int(match["step"] or 1)
    if high < low or step < 1:
        raise BadExpression(f"{field.name}: {text!r} names no value")
    return range(low, high + 1, step)


def _value(field: _Field, text: str) -> int:
    value = field.names.get(text, int(text) if text.isascii() and text.isdigit() else -1)
    if not field.low <= value <= field.high:
        raise BadExpression(f"{field.name}: {text!r} is not {field.low} to {field.high}")
    return value
