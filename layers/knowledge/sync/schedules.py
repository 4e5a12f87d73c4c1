"""EventBridge rules for the declared providers: what is there is compared with what should be, and made equal to it.

    provider with a schedule ─► one rule, or two where cron.py needs two: <prefix>-sync-<provider id>-<number>
    the rule                 ─► the sync-trigger function, with {"trigger", "provider_id", "time"}

A rule is ours when its name begins with ``<prefix>-sync-`` and its tag ``knowledge:schedules-of`` holds the prefix. No
other rule is changed: one that stands in the way of ours is reported.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict

from knowledge.sync.config import Provider
from knowledge.sync.cron import translate
from spot_sdk.errors import Conflict, InvalidInput, Problem, Unavailable

OWNER_TAG = "knowledge:schedules-of"
PROVIDER_TAG = "knowledge:provider"

# An event that could not be handed to the function for an hour is given up: the next one comes by itself.
MAX_DELIVERY_RETRIES = 10
MAX_EVENT_AGE_S = 3600

_MAX_RULE_NAME = 64
_MAX_DESCRIPTION = 512
_TARGET_ID = "sync-trigger"
_SIGNS = {"create": "+", "change": "~", "enable": "~", "disable": "~", "remove": "-", "keep": "="}

Action = Literal["create", "change", "enable", "disable", "remove", "keep"]
T = TypeVar("T")


class Change(BaseModel):
    """What is to be done with one rule, or was done; ``differences`` say what a change changes, as "what: old → new".

    ``schedule`` and ``enabled`` are the rule's own, after the change where there is one.
    """

    model_config = ConfigDict(frozen=True)

    action: Action
    rule: str
    provider_id: str
    schedule: str
    enabled: bool
    differences: list[str] = []

    def __str__(self) -> str:
        """One line of a diff, and an indented one for each difference."""
        verb = "" if self.action == "keep" else f"{self.action} "
        off = "" if self.enabled else " (disabled)"
        return "\n    ".join([f"{_SIGNS[self.action]} {verb}{self.rule}: {self.schedule}{off}", *self.differences])


@dataclass(frozen=True, slots=True)
class Destination:
    """Whose rules these are, and where they lead: ARNs of the function, and of the queue for what does not arrive."""

    prefix: str
    trigger_arn: str
    dead_letter_arn: str | None = None


@dataclass(frozen=True, slots=True)
class _Rule:
    """A rule, wanted or found; ``target`` is our target in EventBridge's own terms, None when it has none."""

    name: str
    provider_id: str
    schedule: str
    state: str
    description: str
    target: dict[str, Any] | None

    def traits(self) -> dict[str, str]:
        """Everything that can differ, by a name for people."""
        own = {"schedule": self.schedule, "state": self.state, "description": self.description}
        return {**own, **dict(_leaves("target", self.target))}


class Schedules:
    """The rules of one prefix. ``events`` is boto3's client of EventBridge.

    Every method raises Unavailable when EventBridge cannot be reached or refuses, naming the provider where it is about
    one; Conflict when a rule that is not ours has a name that we need; InvalidInput when a name would be too long.
    """

    def __init__(self, events: Any, destination: Destination) -> None:
        self._events = events
        self._destination = destination

    def plan(self, providers: Mapping[str, Provider]) -> list[Change]:
        """What ``apply`` would do, in the order of the rules' names; rules that are right already are kept."""
        wanted = self._wanted(providers)
        return _compare(wanted, self._found(wanted))

    def apply(self, providers: Mapping[str, Provider]) -> list[Change]:
        """Make the rules those of the declared providers; returns what was done.

        A rule that fails does not keep the others from being applied; all failures are in the error's ``problems``.
        """
        wanted = self._wanted(providers)
        changes = _compare(wanted, self._found(wanted))
        failures: list[Problem] = []
        for change in changes:
            try:
                self._carry_out(change, wanted.get(change.rule))
            except Unavailable as failure:
                failures.append(Problem(field=change.provider_id, message=f"{change.rule}: {failure.message}"))
        if failures:
            first = failures[0]
            raise Unavailable(f"the schedule of {first.field} was not applied: {first.message}", problems=failures)
        return changes

    def _wanted(self, providers: Mapping[str, Provider]) -> dict[str, _Rule]:
        rules = (
            self._rule(provider_id, provider, number, expression)
            for provider_id, provider in providers.items()
            if provider.sync_schedule is not None
            for number, expression in enumerate(translate(provider.sync_schedule).rules, start=1)
        )
        return {rule.name: rule for rule in rules}

    def _rule(self, provider_id: str, provider: Provider, number: int, expression: str) -> _Rule:
        name = f"{self._name_prefix}{provider_id}-{number}"
        if len(name) > _MAX_RULE_NAME:
            raise InvalidInput(
                f"plugins.context_providers.{provider_id}: its rule would be called {name!r}, which is "
                f"{len(name) - _MAX_RULE_NAME} longer than the {_MAX_RULE_NAME} characters that EventBridge allows"
            )
        return _Rule(
            name=name,
            provider_id=provider_id,
            schedule=expression,
            state="ENABLED" if provider.enabled else "DISABLED",
            description=f"Syncs {provider_id} at {provider.sync_schedule} (cron, UTC)"[:_MAX_DESCRIPTION],
            target=self._target(provider_id),
        )

    def _target(self, provider_id: str) -> dict[str, Any]:
        target: dict[str, Any] = {
            "Id": _TARGET_ID,
            "Arn": self._destination.trigger_arn,
            "InputTransformer": {
                "InputPathsMap": {"time": "$.time"},
                # EventBridge puts quotes around <time> itself.
                "InputTemplate": f'{{"trigger": "schedule", "provider_id": {json.dumps(provider_id)}, "time": <time>}}',
            },
            "RetryPolicy": {
                "MaximumRetryAttempts": MAX_DELIVERY_RETRIES,
                "MaximumEventAgeInSeconds": MAX_EVENT_AGE_S,
            },
        }
        if self._destination.dead_letter_arn is not None:
            target["DeadLetterConfig"] = {"Arn": self._destination.dead_letter_arn}
        return target

    @property
    def _name_prefix(self) -> str:
        return f"{self._destination.prefix}-sync-"

    def _found(self, wanted: Mapping[str, _Rule]) -> dict[str, _Rule]:
        """Our rules. Raises Conflict when one that is not ours has the name of a wanted one."""
        found: dict[str, _Rule] = {}
        strangers: set[str] = set()
        for rule in _ask(lambda: self._pages("list_rules", "Rules", NamePrefix=self._name_prefix)):
            name = rule["Name"]
            if not name.startswith(self._name_prefix):
                continue
            tags = self._tags(rule["Arn"])
            if tags.get(OWNER_TAG) == self._destination.prefix:
                found[name] = self._found_rule(rule, tags.get(PROVIDER_TAG, ""))
            else:
                strangers.add(name)
        in_the_way = [rule for rule in wanted.values() if rule.name in strangers]
        if in_the_way:
            first = in_the_way[0]
            raise Conflict(
                f"provider {first.provider_id}: there is a rule {first.name!r} that was not made for it and is left "
                "alone; remove or rename that rule, or give the provider another id",
                problems=[Problem(field=rule.provider_id, message=f"{rule.name} is not ours") for rule in in_the_way],
            )
        return found

    def _found_rule(self, rule: Mapping[str, Any], provider_id: str) -> _Rule:
        return _Rule(
            name=rule["Name"],
            provider_id=provider_id,
            schedule=rule.get("ScheduleExpression", ""),
            state=rule["State"],
            description=rule.get("Description", ""),
            target=next((target for target in self._targets(rule["Name"]) if target["Id"] == _TARGET_ID), None),
        )

    def _targets(self, name: str) -> list[dict[str, Any]]:
        return _ask(lambda: self._pages("list_targets_by_rule", "Targets", Rule=name))

    def _tags(self, arn: str) -> dict[str, str]:
        answer = _ask(lambda: self._events.list_tags_for_resource(ResourceARN=arn))
        return {tag["Key"]: tag["Value"] for tag in answer["Tags"]}

    def _carry_out(self, change: Change, wanted: _Rule | None) -> None:
        if change.action == "keep":
            return
        if wanted is None:
            self._remove(change.rule)
        else:
            self._put(wanted, is_new=change.action == "create")

    def _put(self, rule: _Rule, *, is_new: bool) -> None:
        # Tags come with the rule's birth, so that there is no moment at which it is nobody's; later ones are ignored.
        tags = {OWNER_TAG: self._destination.prefix, PROVIDER_TAG: rule.provider_id} if is_new else {}
        _ask(
            lambda: self._events.put_rule(
                Name=rule.name,
                ScheduleExpression=rule.schedule,
                State=rule.state,
                Description=rule.description,
                **({"Tags": [{"Key": key, "Value": value} for key, value in tags.items()]} if tags else {}),
            )
        )
        _require_all(_ask(lambda: self._events.put_targets(Rule=rule.name, Targets=[rule.target])))

    def _remove(self, name: str) -> None:
        """Remove a rule with all its targets: EventBridge deletes no rule that has any."""
        ids = [target["Id"] for target in self._targets(name)]
        if ids:
            _require_all(_ask(lambda: self._events.remove_targets(Rule=name, Ids=ids)))
        _ask(lambda: self._events.delete_rule(Name=name))

    def _pages(self, operation: str, member: str, **arguments: str) -> list[dict[str, Any]]:
        pages = self._events.get_paginator(operation).paginate(**arguments)
        return list(chain.from_iterable(page[member] for page in pages))


def _compare(wanted: Mapping[str, _Rule], found: Mapping[str, _Rule]) -> list[Change]:
    changes = [_towards(rule, found.get(rule.name)) for rule in wanted.values()]
    changes += [_change("remove", rule) for rule in found.values() if rule.name not in wanted]
    return sorted(changes, key=lambda change: change.rule)


def _towards(wanted: _Rule, found: _Rule | None) -> Change:
    """What makes ``found`` equal to ``wanted``."""
    if found is None:
        return _change("create", wanted)
    new, old = wanted.traits(), found.traits()
    differing = [trait for trait in (new | old) if new.get(trait) != old.get(trait)]
    differences = [f"{trait}: {old.get(trait, 'none')} → {new.get(trait, 'none')}" for trait in differing]
    if not differing:
        return _change("keep", wanted)
    if differing == ["state"]:
        return _change("enable" if wanted.state == "ENABLED" else "disable", wanted, differences)
    return _change("change", wanted, differences)


def _change(action: Action, rule: _Rule, differences: Sequence[str] = ()) -> Change:
    return Change(
        action=action,
        rule=rule.name,
        provider_id=rule.provider_id,
        schedule=rule.schedule,
        enabled=rule.state != "DISABLED",
        differences=list(differences),
    )


def _leaves(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Every value in nested dictionaries with its path, dots between."""
    if isinstance(value, dict):
        for key, member in value.items():
            yield from _leaves(f"{name}.{key}", member)
    elif value is not None:
        yield name, str(value)


def _ask(call: Callable[[], T]) -> T:
    """What a call of EventBridge gives. Raises Unavailable with its reason."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return call()
    except ClientError as error:
        said = error.response.get("Error", {})
        reason = f"{error.operation_name}: {said.get('Code', '')}: {said.get('Message', '')}"
        raise Unavailable(f"EventBridge refused {reason}") from error
    except BotoCoreError as error:
        raise Unavailable(f"EventBridge cannot be used: {error}") from error


def _require_all(answer: Mapping[str, Any]) -> None:
    """Raise Unavailable for an answer that reports entries which were not taken, though the call succeeded."""
    if answer.get("FailedEntryCount"):
        first = next(iter(answer.get("FailedEntries", [])), {})
        raise Unavailable(f"EventBridge did not take a target: {first.get('ErrorCode')}: {first.get('ErrorMessage')}")
