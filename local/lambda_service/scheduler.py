"""Fires the EventBridge rules that are registered in the AWS emulator, which only keeps them.

At each full minute the rules are read, and the targets of those that are due get their event. What was missed - the
laptop slept, the emulator did not answer - is made up for: once for a rule, however many of its minutes were missed.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from local.lambda_service.emulator import EmulatorAway, ScheduledRule
from local.lambda_service.event_input import BadInput, target_input
from local.lambda_service.schedule_expression import BadExpression, parse
from local.lambda_service.service import FunctionNotFound

_MINUTE = timedelta(minutes=1)
_LONGEST_SLEEP_S = 10.0  # a sleep is not counted on while the machine itself sleeps
_RETRY_S = 5.0
_LONGEST_GAP = timedelta(days=1)  # what was missed before that stays missed
_CLOCK_CORRECTION = timedelta(minutes=10)


class Clock(Protocol):
    """Time as the scheduler sees it; `now` is in UTC."""

    def now(self) -> datetime: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class RuleBook(Protocol):
    """Where rules are registered (see Emulator). Both methods block, and raise EmulatorAway."""

    def rules(self) -> list[ScheduledRule]: ...

    def targets(self, rule: str) -> list[dict[str, Any]]: ...


class Scheduler:
    """Calls `invoke(function ARN, event)` for each target of a rule in `book` that is due.

    `refresh` brings the book up to date with the template; it blocks, and may raise EmulatorAway like the book.
    `invoke` may raise FunctionNotFound. `note` takes lines for the log.
    """

    def __init__(
        self,
        book: RuleBook,
        *,
        refresh: Callable[[], None],
        invoke: Callable[[str, bytes], None],
        note: Callable[[str], None],
        clock: Clock | None = None,
    ) -> None:
        self._book = book
        self._refresh = refresh
        self._invoke = invoke
        self._note = note
        self._clock = clock or SystemClock()
        self._last = _minute(self._clock.now())
        self._noted: set[str] = set()

    async def run(self) -> None:
        """Fires until it is cancelled. Nothing is fired for the minute in which it was made, or before."""
        is_away = False
        while True:
            try:
                await self._tick()
            except EmulatorAway as error:
                if not is_away:
                    self._note(f"schedules wait for the AWS emulator: {error}")
                is_away = True
                await self._clock.sleep(_RETRY_S)
            else:
                is_away = False
                await self._next_minute()

    async def _tick(self) -> None:
        """Fires once what has become due since the last time. Raises EmulatorAway; nothing was fired then."""
        await asyncio.to_thread(self._refresh)
        rules = await asyncio.to_thread(self._book.rules)
        now = _minute(self._clock.now())
        due = [(rule, minute) for rule in rules if (minute := self._due(rule, now)) is not None]
        firings = [(rule, minute, await asyncio.to_thread(self._book.targets, rule.name)) for rule, minute in due]
        self._last = now
        for rule, minute, targets in firings:
            self._fire(rule, minute, targets)

    async def _next_minute(self) -> None:
        """Waits until the clock shows a minute after the last one that was looked at."""
        while (now := self._clock.now()) < self._last + _MINUTE:
            if now < self._last - _CLOCK_CORRECTION:
                self._note(f"the clock was set back to {now:%Y-%m-%d %H:%M} UTC: schedules go on from there")
                self._last = _minute(now)
            until_full = (_minute(now) + _MINUTE - now).total_seconds()
            await self._clock.sleep(min(until_full, _LONGEST_SLEEP_S))

    def _due(self, rule: ScheduledRule, now: datetime) -> datetime | None:
        """The last minute, up to now, in which the rule should have fired and did not."""
        try:
            fires = parse(rule.expression)
        except BadExpression as error:
            self._note_once(f"rule {rule.name} never fires: {error}")
            return None
        minute = now
        while minute > max(self._last, now - _LONGEST_GAP):
            if fires(minute):
                return minute
            minute -= _MINUTE
        return None

    def _fire(self, rule: ScheduledRule, minute: datetime, targets: list[dict[str, Any]]) -> None:
        event = scheduled_event(rule, minute)
        for target in targets:
            try:
                self._invoke(target["Arn"], target_input(target, event))
            except BadInput as error:
                self._note_once(f"rule {rule.name} cannot call {target['Arn']}: {error}")
            except FunctionNotFound:
                self._note_once(f"rule {rule.name} leads to {target['Arn']}, which is no function of this template")

    def _note_once(self, text: str) -> None:
        if text not in self._noted:
            self._noted.add(text)
            self._note(text)


def scheduled_event(rule: ScheduledRule, minute: datetime) -> dict[str, Any]:
    """EventBridge's event of a rule with a schedule."""
    _, _, _, region, account, _ = rule.arn.split(":", 5)
    return {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": "Scheduled Event",
        "source": "aws.events",
        "account": account,
        "time": f"{minute:%Y-%m-%dT%H:%M:%SZ}",
        "region": region,
        "resources": [rule.arn],
        "detail": {},
    }


def _minute(moment: datetime) -> datetime:
    return moment.replace(second=0, microsecond=0)
