"""CloudFormation's YAML, and its intrinsic functions as far as they can be computed without an account."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

_SUB_PLACEHOLDER = re.compile(r"\$\{(!?)([^}]+)\}")


class TemplateError(ValueError):
    """The template cannot be used; the message is one line that says where and why."""


@dataclass(frozen=True)
class Unresolved:
    """A value that only a deployed stack knows; `expression` names what was asked for."""

    expression: str


class _NoValue:
    """AWS::NoValue: the property that holds it is removed."""


NO_VALUE = _NoValue()


class _Loader(yaml.SafeLoader):
    """Reads the short tags (`!Ref`, `!Sub`, ...) as their long forms."""


def _construct_short_tag(loader: _Loader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    if isinstance(node, yaml.ScalarNode):
        value: Any = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        assert isinstance(node, yaml.MappingNode)
        value = loader.construct_mapping(node, deep=True)
    if suffix in ("Ref", "Condition"):
        return {suffix: value}
    if suffix == "GetAtt" and isinstance(value, str):
        value = value.split(".", 1)
    return {f"Fn::{suffix}": value}


_Loader.add_multi_constructor("!", _construct_short_tag)


def parse_yaml(text: str) -> dict[str, Any]:
    """The template as plain dictionaries and lists, short tags in their long form.

    Raises TemplateError for text that is no YAML, or no mapping with `Resources`.
    """
    try:
        document = yaml.load(text, Loader=_Loader)  # noqa: S506 - a subclass of SafeLoader
    except yaml.YAMLError as error:
        raise TemplateError(f"not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict) or not isinstance(document.get("Resources"), dict):
        raise TemplateError("a template needs a mapping with Resources")
    return document


class Resolver:
    """Evaluates intrinsic functions against parameters, conditions, mappings and `lookup`.

    `lookup(logical_id, attribute)` gives the value of a resource (attribute None: its Ref), or None when only a
    deployed stack knows it. Whatever cannot be computed becomes `Unresolved` and stays where it stands.
    """

    def __init__(
        self,
        template: Mapping[str, Any],
        parameters: Mapping[str, Any],
        lookup: Callable[[str, str | None], str | None],
    ) -> None:
        self._parameters = parameters
        self._mappings: Mapping[str, Any] = template.get("Mappings", {})
        self._conditions: Mapping[str, Any] = template.get("Conditions", {})
        self._lookup = lookup
        self._functions: dict[str, Callable[[Any], Any]] = {
            "Ref": self._ref,
            "Condition": self.condition,
            "Fn::GetAtt": self._get_att,
            "Fn::Sub": self._sub,
            "Fn::Join": self._join,
            "Fn::Select": self._select,
            "Fn::Split": self._split,
            "Fn::FindInMap": self._find_in_map,
            "Fn::If": self._if,
            "Fn::Equals": self._equals,
            "Fn::And": lambda arguments: all(self.resolve(argument) is True for argument in arguments),
            "Fn::Or": lambda arguments: any(self.resolve(argument) is True for argument in arguments),
            "Fn::Not": lambda arguments: self.resolve(arguments[0]) is False,
        }

    def resolve(self, node: Any) -> Any:
        """`node` with every intrinsic function evaluated and every AWS::NoValue removed."""
        if isinstance(node, dict):
            if len(node) == 1:
                (name, argument), *_ = node.items()
                if name in self._functions:
                    return self._functions[name](argument)
                if isinstance(name, str) and name.startswith("Fn::"):
                    return Unresolved(name)
            resolved = {key: self.resolve(value) for key, value in node.items()}
            return {key: value for key, value in resolved.items() if value is not NO_VALUE}
        if isinstance(node, list):
            return [value for value in map(self.resolve, node) if value is not NO_VALUE]
        return node

    def condition(self, name: str) -> bool:
        """Whether the named condition holds. Raises TemplateError for a name that the template does not declare."""
        if name not in self._conditions:
            raise TemplateError(f"the condition {name} is not declared")
        return self.resolve(self._conditions[name]) is True

    def _ref(self, name: str) -> Any:
        if name in self._parameters:
            return self._parameters[name]
        value = self._lookup(name, None)
        return Unresolved(f"Ref {name}") if value is None else value

    def _get_att(self, argument: Any) -> Any:
        logical_id, attribute = argument
        value = self._lookup(logical_id, attribute)
        return Unresolved(f"GetAtt {logical_id}.{attribute}") if value is None else value

    def _sub(self, argument: Any) -> Any:
        text, variables = argument if isinstance(argument, list) else (argument, {})
        missing: list[Unresolved] = []

        def replacement(match: re.Match[str]) -> str:
            literal, name = match.groups()
            if literal:
                return f"${{{name}}}"
            if name in variables:
                value = self.resolve(variables[name])
            elif "." in name:
                value = self._get_att(name.split(".", 1))
            else:
                value = self._ref(name)
            if isinstance(value, Unresolved):
                missing.append(value)
            return as_text(value)

        result = _SUB_PLACEHOLDER.sub(replacement, text)
        return missing[0] if missing else result

    def _join(self, argument: Any) -> Any:
        separator, parts = argument
        resolved = self.resolve(parts)
        if isinstance(resolved, Unresolved):
            return resolved
        missing = next((part for part in resolved if isinstance(part, Unresolved)), None)
        return missing or separator.join(map(as_text, resolved))

    def _select(self, argument: Any) -> Any:
        index, choices = self.resolve(argument)
        if isinstance(choices, Unresolved):
            return choices
        return choices[int(index)]

    def _split(self, argument: Any) -> Any:
        separator, text = self.resolve(argument)
        return text if isinstance(text, Unresolved) else text.split(separator)

    def _find_in_map(self, argument: Any) -> Any:
        mapping, first, second, *_ = self.resolve(argument)
        try:
            return self._mappings[mapping][first][second]
        except (KeyError, TypeError):
            return Unresolved(f"FindInMap {mapping}")

    def _if(self, argument: Any) -> Any:
        condition, when_true, when_false = argument
        return self.resolve(when_true if self.condition(condition) else when_false)

    def _equals(self, argument: Any) -> bool:
        left, right = self.resolve(argument)
        return as_text(left) == as_text(right)


def is_intrinsic(node: Any) -> bool:
    """Whether `node` is a call of an intrinsic function rather than a mapping of the template's own."""
    return isinstance(node, dict) and len(node) == 1 and str(next(iter(node))).startswith(("Ref", "Fn::", "Condition"))


def as_text(value: Any) -> str:
    """A scalar as CloudFormation writes it into a string: booleans in lower case, lists joined by commas."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(map(as_text, value))
    return str(value)
