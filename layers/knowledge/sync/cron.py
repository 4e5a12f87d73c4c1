"""Unix cron expressions as EventBridge rules that fire in the same minutes.

    expression = minute hour day-of-month month day-of-week | "@" alias
    field      = part { "," part }
    part       = ("*" | value | value "-" value) [ "/" step ]        a step needs "*" or a range
    value      = number, or in the last two fields JAN-DEC and SUN-SAT

Where both day fields are restricted, unix fires when either matches; EventBridge cannot say that in one rule, so there
are two. As in Debian's cron, a day field that begins with "*" does not count as restricted; if it restricts all the
same ("*/2"), both must match, which no number of rules can say, and it is refused. EventBridge counts weekdays from
1 (Sunday) and wants "?" in one day field. Times are UTC.

Sources: crontab(5); "Cron expressions reference" of the Amazon EventBridge user guide.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

MAX_RULE_LENGTH = 256
MAX_EXPRESSION_LENGTH = 1000

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

_MONTHS = {
    "JAN": 1,
    "FEB": 2,
    "MAR": 3,
    "APR": 4,
    "MAY": 5,
    "JUN": 6,
    "JUL": 7,
    "AUG": 8,
    "SEP": 9,
    "OCT": 10,
    "NOV": 11,
    "DEC": 12,
}
_WEEKDAYS = {name: number for number, name in enumerate(("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"))}
_PART = re.compile(r"(?P<first>\*|\w+)(?:-(?P<last>\w+))?(?:/(?P<step>\d+))?", re.ASCII)


class CronError(ValueError):
    """The expression is refused; the message says why and, where there is one, gives the nearest that works."""


@dataclass(frozen=True, slots=True)
class _Field:
    """One of the five fields; ``low`` to ``high`` are the values that unix allows."""

    name: str
    low: int
    high: int
    names: dict[str, int]


_FIELDS = (
    _Field("minute", 0, 59, {}),
    _Field("hour", 0, 23, {}),
    _Field("day-of-month", 1, 31, {}),
    _Field("month", 1, 12, _MONTHS),
    _Field("day-of-week", 0, 7, _WEEKDAYS),  # 0 and 7 are Sunday
)


@dataclass(frozen=True, slots=True)
class Schedule:
    """The minutes in which an expression fires (UTC), and the EventBridge rules that fire in the same."""

    minutes: frozenset[int]
    hours: frozenset[int]
    months: frozenset[int]
    days: frozenset[int] | None  # None: not restricted
    weekdays: frozenset[int] | None  # 0 is Sunday

    @property
    def rules(self) -> list[str]:
        """EventBridge schedule expressions, one or two."""
        month = _write(self.months, 1, 12)
        days = None if self.days is None else f"{_write(self.days, 1, 31)} {month} ?"
        weekdays = None if self.weekdays is None else f"? {month} {_write({day + 1 for day in self.weekdays}, 1, 7)}"
        time = f"{_write(self.minutes, 0, 59)} {_write(self.hours, 0, 23)}"
        return [f"cron({time} {part} *)" for part in (days, weekdays) if part] or [f"cron({time} * {month} ? *)"]

    def fires_on(self, day: datetime) -> bool:
        """True when there is a firing on this day."""
        if day.month not in self.months:
            return False
        if self.days is None and self.weekdays is None:
            return True
        return day.day in (self.days or ()) or (day.weekday() + 1) % 7 in (self.weekdays or ())

    def after(self, moment: datetime) -> Iterator[datetime]:
        """The firings after ``moment`` (with a time zone of UTC), without end."""
        day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
        while True:
            if self.fires_on(day):
                for hour in sorted(self.hours):
                    for minute in sorted(self.minutes):
                        firing = day.replace(hour=hour, minute=minute)
                        if firing > moment:
                            yield firing
            day += timedelta(days=1)


def translate(expression: str) -> Schedule:
    """What a unix cron expression means. Raises CronError when EventBridge cannot do the same."""
    text = expression.strip()
    if not text.isascii() or len(text) > MAX_EXPRESSION_LENGTH:
        raise CronError(f"expected at most {MAX_EXPRESSION_LENGTH} ASCII characters")
    if text.startswith("@"):
        if text.lower() not in ALIASES:
            raise CronError(f"{text} is no time of day; use one of {', '.join(ALIASES)}, or five fields")
        text = ALIASES[text.lower()]
    parts = text.upper().split()
    if len(parts) == 6:
        raise CronError(f"six fields: unix cron has no seconds and no years; did you mean {' '.join(parts[1:])!r}?")
    if len(parts) != 5:
        raise CronError(f"expected five fields (minute hour day-of-month month day-of-week), found {len(parts)}")

    minutes, hours, days, months, weekdays = (
        frozenset(_read(field, part)) for field, part in zip(_FIELDS, parts, strict=True)
    )
    weekdays = frozenset(day % 7 for day in weekdays)
    every_day, every_weekday = len(days) == 31, len(weekdays) == 7
    both_must_match = parts[2].startswith("*") or parts[4].startswith("*")
    if both_must_match and not (every_day or every_weekday):
        raise CronError(
            f"both day fields must match in {text!r}, which EventBridge cannot say; the nearest are "
            f"{_without(parts, 4)!r} and {_without(parts, 2)!r}"
        )
    if both_must_match:
        schedule = Schedule(minutes, hours, months, None if every_day else days, None if every_weekday else weekdays)
    elif every_day or every_weekday:
        schedule = Schedule(minutes, hours, months, None, None)
    else:
        schedule = Schedule(minutes, hours, months, _possible(days, months), weekdays)
    if schedule.days is not None and not _possible(schedule.days, months):
        raise CronError(f"{text!r} never fires: no such day is in these months")
    too_long = [rule for rule in schedule.rules if len(rule) > MAX_RULE_LENGTH]
    if too_long:
        raise CronError(f"as an EventBridge rule this has {len(too_long[0])} characters; {MAX_RULE_LENGTH} are allowed")
    return schedule


def _read(field: _Field, text: str) -> set[int]:
    """The values of one field, whose parts are separated by commas."""
    return {value for part in text.split(",") for value in _read_part(field, part)}


def _read_part(field: _Field, text: str) -> range:
    match = _PART.fullmatch(text)
    if match is None:
        raise CronError(f"{field.name}: cannot read {text!r}; expected a number, a range a-b, *, and /step after them")
    first, last, step = match["first"], match["last"], int(match["step"] or 1)
    if first == "*" and last is not None:
        raise CronError(f"{field.name}: cannot read {text!r}; a range has a number on both sides")
    low = field.low if first == "*" else _value(field, first)
    high = field.high if first == "*" else low if last is None else _value(field, last)
    if high < low:
        raise CronError(f"{field.name}: {text!r} runs backwards; write {_wrapped(field, low, high)!r}")
    if match["step"] is not None and low == high:  # some crons read it as a range to the end, some as one value
        advice = first if low == field.high else f"{first}-{field.high}/{step}"
        raise CronError(f"{field.name}: in {text!r} the step has no range; write {advice!r}")
    if step < 1 or step > field.high - field.low + 1:
        raise CronError(f"{field.name}: the step in {text!r} must be 1 to {field.high - field.low + 1}")
    return range(low, high + 1, step)


def _value(field: _Field, text: str) -> int:
    value = field.names.get(text, int(text) if text.isdigit() else -1)
    if not field.low <= value <= field.high:
        names = f" or {next(iter(field.names))}-{list(field.names)[-1]}" if field.names else ""
        raise CronError(f"{field.name}: {text!r} is not {field.low}-{field.high}{names}")
    return value


def _wrapped(field: _Field, low: int, high: int) -> str:
    """A range that runs over the end of its field, in two parts."""
    last = 6 if field.names is _WEEKDAYS else field.high
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ((low, last), (field.low, high)) if a <= b)


def _without(parts: list[str], number: int) -> str:
    return " ".join("*" if place == number else part for place, part in enumerate(parts))


def _possible(days: frozenset[int], months: frozenset[int]) -> frozenset[int] | None:
    """Those of the days that some of the months have; None when there is none."""
    longest = max(calendar.monthrange(2024, month)[1] for month in months)  # 2024: with a 29 February
    return frozenset(day for day in days if day <= longest) or None


def _write(values: frozenset[int] | set[int], low: int, high: int) -> str:
    """Values as EventBridge writes them: ``*``, ``0/15``, or a list of numbers and ranges."""
    ordered = sorted(values)
    if len(ordered) == high - low + 1:
        return "*"
    if len(ordered) > 2:
        step = ordered[1] - ordered[0]
        if step > 1 and ordered == list(range(ordered[0], high + 1, step)):
            return f"{ordered[0]}/{step}"
    runs: list[list[int]] = []
    for value in ordered:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs)
