"""The operators' file, ``infra/spot.yaml``: providers with their schedules, and stages with their limits.

plugins:
  context_providers:
    employee-dir:
      enabled: true
      url: http://provider-employee-dir:8000
      sync_schedule: "0 */6 * * *"
      sync_timeout_ms: 120000
sync:
  allow_http_hosts: [provider-employee-dir]
stages:
  - name: enrichment
    retrieval_limits: { max_top_k: 10, min_score_floor: 0.3 }
    analyzers: [{ id: analyzer-rules }]
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from knowledge.sync.cron import CronError, translate
from spot_sdk.workflow import WorkflowStage

MAX_URL_LENGTH = 2_000
MAX_TIMEOUT_MS = 840_000  # a Lambda function lives 15 minutes; one is left for recording how it went

_NAME_TAGS = {"tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"}


class ConfigError(Exception):
    """The file cannot be used; each line of the message names a line of the file and a field."""


def _http_url(url: str) -> str:
    expected = "expected http(s)://host[:port][/path] without user, query or fragment"
    if not url.isascii() or not url.isprintable() or " " in url or len(url) > MAX_URL_LENGTH:
        raise ValueError(
            f"{expected}, of at most {MAX_URL_LENGTH} printable ASCII characters (a host such as bücher.example is "
            "written xn--bcher-kva.example)"
        )
    try:
        parts = urlsplit(url)
        is_right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError as error:  # a port that is no port
        raise ValueError(f"{expected}: {error}") from None
    if not is_right or parts.query or parts.fragment or parts.username is not None or parts.password is not None:
        raise ValueError(expected)
    return parts.geturl().rstrip("/")  # the scheme in small letters


def _schedule(expression: str) -> str:
    try:
        translate(expression)
    except CronError as error:
        raise ValueError(str(error)) from error
    return expression


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Provider(_Section):
    """One context provider; without ``sync_schedule`` it is synced by hand only."""

    enabled: bool = True
    url: Annotated[str, AfterValidator(_http_url)]
    sync_schedule: Annotated[str, AfterValidator(_schedule)] | None = None
    sync_timeout_ms: Annotated[int, Field(ge=1_000, le=MAX_TIMEOUT_MS)] = 60_000

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""


class SyncSection(_Section):
    """``allow_http_hosts``: hosts that may be called without TLS, because only a private network leads to them."""

    allow_http_hosts: list[str] = []


ProviderId = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,47}$")]


class Plugins(_Section):
    context_providers: dict[ProviderId, Provider] = {}


class SpotConfig(_Section):
    """The whole file."""

    plugins: Plugins = Plugins()
    sync: SyncSection = SyncSection()
    stages: list[WorkflowStage] = []

    @property
    def providers(self) -> dict[str, Provider]:
        return self.plugins.context_providers

    @model_validator(mode="after")
    def _http_only_where_allowed(self) -> SpotConfig:
        for name, provider in self.providers.items():
            if provider.url.startswith("http:") and provider.host not in self.sync.allow_http_hosts:
                raise ValueError(
                    f"plugins.context_providers.{name}.url: "
                    f"use https, or add {provider.host!r} to sync.allow_http_hosts"
                )
        return self


def load(path: Path) -> SpotConfig:
    """The file's contents. Raises ConfigError, which names each line and field at fault."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
    return parse(text, str(path))


def parse(text: str, name: str = "spot.yaml") -> SpotConfig:
    """The configuration in a YAML text. Raises ConfigError."""
    lines: dict[tuple[str | int, ...], int] = {}
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if root is not None:
            lines.update(_lines(root, (), set()))
        content = yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader
        return SpotConfig.model_validate({} if content is None else content)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}" if mark else name
        raise ConfigError(f"{where}: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{name}: {error}") from error
    except RecursionError:
        raise ConfigError(f"{name}: nested too deeply, or in itself") from None
    except ValidationError as error:
        raise ConfigError("\n".join(_finding(found, lines, name) for found in error.errors())) from None


class _Loader(yaml.SafeLoader):
    """A SafeLoader that says where a value is that its constructors do not survive, such as a date 2024-99-99."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except ValueError as error:
            raise yaml.MarkedYAMLError(problem=str(error)[:200], problem_mark=node.start_mark) from error


def _lines(node: yaml.Node, path: tuple[str | int, ...], visited: set[int]) -> Any:
    """Each place in the document with its line, refusing keys that stand twice (YAML would keep the last).

    What aliases repeat is visited once: nine lines of them can stand for more places than there is time for.
    """
    yield path, node.start_mark.line + 1
    if id(node) in visited:
        return
    visited.add(id(node))
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.MarkedYAMLError(problem="expected a name before the colon", problem_mark=key.start_mark)
            if key.tag not in _NAME_TAGS:
                raise yaml.MarkedYAMLError(
                    problem=f"YAML takes {key.value!r} for something else than a name; put it in quotes",
                    problem_mark=key.start_mark,
                )
            if key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"{key.value!r} stands twice", problem_mark=key.start_mark)
            seen.add(key.value)
            yield (*path, key.value), key.start_mark.line + 1
            for place, line in _lines(value, (*path, key.value), visited):
                if place != (*path, key.value):
                    yield place, line
    elif isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            yield from _lines(item, (*path, number), visited)


def _finding(found: Any, lines: dict[tuple[str | int, ...], int], name: str) -> str:
    message = re.sub(r"^Value error, ", "", found["msg"])
    location: tuple[str | int, ...] = tuple(part for part in found["loc"] if part != "[key]")
    field = ".".join(map(str, location))
    if not location and ": " in message:  # a rule over the whole file names its field itself
        field, message = message.split(": ", 1)
        location = tuple(field.split("."))
    while location and location not in lines:
        location = location[:-1]
    return f"{name}:{lines.get(location, 1)}: {field or 'the file'}: {message}"
