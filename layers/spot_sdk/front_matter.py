"""Front matter: what a Markdown page says about itself, in YAML between two lines ``---`` at its very top."""

from __future__ import annotations

import re
from typing import Any

from spot_sdk.knowledge_tags import to_tag

MAX_FRONT_MATTER_LENGTH = 65_536

_FRONT_MATTER = re.compile(
    r"\A---[ \t]*\n(?P<yaml>.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)(?P<body>.*)", re.DOTALL | re.MULTILINE
)
_TAG_KEYS = ("tags", "labels")
_NULLS = ("", "~", "null", "Null", "NULL")


def split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """The front matter of a page, and the text below it. A page without any has an empty one.

    Scalars stay the text that was written: ``version: 1.10`` is not a number to us, ``tags: [no]`` not a truth value.
    Raises ValueError, with the line, for YAML that is too long or cannot be read; ModuleNotFoundError without PyYAML.
    """
    match = _FRONT_MATTER.match(text)
    if match is None:
        return {}, text
    if len(match["yaml"]) > MAX_FRONT_MATTER_LENGTH:
        raise ValueError(f"front matter: longer than {MAX_FRONT_MATTER_LENGTH:,} characters")
    values = _parse_yaml(match["yaml"])
    if values is None:
        return {}, match["body"]
    if not isinstance(values, dict):
        return {}, text  # prose between two thematic breaks
    return {key: value for key, value in values.items() if isinstance(key, str)}, match["body"]


def scalars(front_matter: dict[str, Any]) -> dict[str, str]:
    """The keys with one value that is there, tags apart."""
    return {
        key: value
        for key, value in front_matter.items()
        if isinstance(value, str) and value not in _NULLS and key not in _TAG_KEYS
    }


def tags(front_matter: dict[str, Any]) -> list[str]:
    """The tags for the labels under ``tags`` and ``labels``: lists, or one text with commas.

    Raises ValueError for a label of which no tag can be made.
    """
    labels: list[str] = []
    for key in _TAG_KEYS:
        value = front_matter.get(key, [])
        if isinstance(value, str):
            value = [] if value in _NULLS else value.split(",")
        if not isinstance(value, list) or not all(isinstance(label, str) for label in value):
            raise ValueError(f"front matter, {key}: expected a list of labels")
        labels += [label for label in value if label.strip()]
    return [to_tag(label) for label in labels]


def _parse_yaml(text: str) -> Any:
    try:
        import yaml
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("front matter is YAML: install spot-sdk[markdown]", name=error.name) from error
    try:
        return yaml.load(text, yaml.BaseLoader)  # noqa: S506 - builds strings, lists and dicts only
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 2 if error.problem_mark else 1  # counted from 0, and below the first "---"
        raise ValueError(f"front matter, line {line}: {error.problem or error.context or 'not YAML'}") from error
    except yaml.YAMLError as error:
        raise ValueError(f"front matter: {str(error).splitlines()[0]}") from error
    except RecursionError as error:
        raise ValueError("front matter: nested too deep") from error
