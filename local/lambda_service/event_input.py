"""What a target of an EventBridge rule is invoked with: the event, a part of it, or a text made with parts of it.

    InputPath                 $.a.b
    InputTransformer          InputPathsMap {"name": "$.a.b"}, InputTemplate with <name>

In a template, a value outside quotes becomes JSON (a text gets its quotes), one inside quotes is put in as it is.

Source: "Amazon EventBridge input transformation", EventBridge user guide.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_PATH = re.compile(r"\$((?:\.[A-Za-z_][\w-]*|\[\d+\])*)")
_STEP = re.compile(r"\.([\w-]+)|\[(\d+)\]")
_QUOTED_OR_PLACEHOLDER = re.compile(r'"(?:[^"\\]|\\.)*"|<[^<>\s]+>')
_PLACEHOLDER = re.compile(r"<([^<>\s]+)>")


class BadInput(ValueError):
    """The target's input cannot be made of this event; the message says why."""


def target_input(target: Mapping[str, Any], event: Mapping[str, Any]) -> bytes:
    """The JSON text that a target gets for an event, as the target's description has it. Raises BadInput."""
    if "Input" in target:
        return _checked(target["Input"])
    if "InputPath" in target:
        return json.dumps(_find(target["InputPath"], event)).encode()
    if "InputTransformer" in target:
        transformer = target["InputTransformer"]
        values = {name: _find(path, event) for name, path in transformer.get("InputPathsMap", {}).items()}
        return _checked(_fill(transformer["InputTemplate"], values))
    return json.dumps(event).encode()


def _fill(template: str, values: Mapping[str, Any]) -> str:
    def value(placeholder: str) -> Any:
        if placeholder not in values:
            raise BadInput(f"the input template names <{placeholder}>, which InputPathsMap does not have")
        return values[placeholder]

    def in_quotes(match: re.Match[str]) -> str:
        found = value(match[1])
        return json.dumps(found if isinstance(found, str) else json.dumps(found))[1:-1]

    def replaced(match: re.Match[str]) -> str:
        text = match[0]
        return _PLACEHOLDER.sub(in_quotes, text) if text.startswith('"') else json.dumps(value(text[1:-1]))

    return _QUOTED_OR_PLACEHOLDER.sub(replaced, template)


def _find(path: str, event: Mapping[str, Any]) -> Any:
    match = _PATH.fullmatch(path)
    if match is None:
        raise BadInput(f"the path {path!r} is not of the form $.name.name")
    found: Any = event
    try:
        for name, index in _STEP.findall(match[1]):
            found = found[name] if name else found[int(index)]
    except (KeyError, IndexError, TypeError):
        raise BadInput(f"the event has nothing at {path!r}") from None
    return found


def _checked(text: str) -> bytes:
    try:
        json.loads(text)
    except ValueError as error:
        raise BadInput(f"the input is not JSON: {error}") from error
    return text.encode()
