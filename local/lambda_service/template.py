"""Reads template.yaml (AWS SAM) into FunctionSpecs: the only source of functions, routes, environment and limits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local.lambda_service.cloudformation import (
    NO_VALUE,
    Resolver,
    TemplateError,
    Unresolved,
    as_text,
    is_intrinsic,
    parse_yaml,
)
from local.lambda_service.functions import DEFAULT_ROUTE, AsyncPolicy, FunctionSpec, HttpRoute, Schedule
from local.lambda_service.stack_names import NAME_PROPERTIES, StackNames

_FUNCTION = "AWS::Serverless::Function"
_LAYER = "AWS::Serverless::LayerVersion"
_DASHBOARD = "AWS::CloudWatch::Dashboard"
_HTTP_API = "AWS::Serverless::HttpApi"
_IMPLICIT_HTTP_API = "ServerlessHttpApi"
_SCHEDULE_EVENTS = {"Schedule": "Schedule", "ScheduleV2": "ScheduleExpression"}
_KNOWN_EVENTS = {"HttpApi", *_SCHEDULE_EVENTS}


@dataclass(frozen=True)
class Template:
    """The functions of a template, and notes on what of it does not run here."""

    functions: tuple[FunctionSpec, ...]
    notes: tuple[str, ...] = ()
    dashboard: str | None = None
    """The DashboardBody of its first CloudWatch dashboard."""


def load_template(
    path: Path,
    names: StackNames,
    *,
    parameters: Mapping[str, str] | None = None,
    overrides: Mapping[str, Mapping[str, str]] | None = None,
) -> Template:
    """The template at `path`, resolved.

    `parameters` replace defaults. `overrides` are environment variables by function (logical id), "Parameters" being
    those of all functions; only variables that the template declares are replaced, as `sam local` does it.
    Raises TemplateError for a template that cannot be used, OSError for one that cannot be read.
    """
    return _Reader(path, names, parameters or {}, overrides or {}).read()


class _Reader:
    def __init__(
        self,
        path: Path,
        names: StackNames,
        parameters: Mapping[str, str],
        overrides: Mapping[str, Mapping[str, str]],
    ) -> None:
        self._folder = path.resolve().parent
        self._names = names
        self._overrides = overrides
        self._notes: list[str] = []
        template = parse_yaml(path.read_text(encoding="utf-8"))
        self._globals: Mapping[str, Any] = template.get("Globals", {}).get("Function", {})
        self._resources: Mapping[str, Mapping[str, Any]] = template["Resources"]
        self._resolver = Resolver(template, self._parameters(template, parameters), self._lookup)

    def read(self) -> Template:
        functions = tuple(
            self._function(logical_id, resource)
            for logical_id, resource in self._resources.items()
            if resource.get("Type") == _FUNCTION and self._is_wanted(resource)
        )
        if not functions:
            raise TemplateError(f"no {_FUNCTION} in the template")
        known = {"Parameters", *(function.logical_id for function in functions)}
        unknown = sorted(set(self._overrides) - known)
        self._notes += [f"environment file: there is no function {name}" for name in unknown]
        return Template(functions, tuple(self._notes), self._dashboard())

    def _dashboard(self) -> str | None:
        for resource in self._resources.values():
            if resource.get("Type") == _DASHBOARD and self._is_wanted(resource):
                body = self._resolver.resolve(resource["Properties"]["DashboardBody"])
                return body if isinstance(body, str) else None
        return None

    def _parameters(self, template: Mapping[str, Any], given: Mapping[str, str]) -> dict[str, Any]:
        declared: Mapping[str, Mapping[str, Any]] = template.get("Parameters", {})
        if unknown := sorted(set(given) - set(declared)):
            raise TemplateError(f"the template declares no parameter {', '.join(unknown)}")
        values: dict[str, Any] = {**self._names.pseudo_parameters(), "AWS::NoValue": NO_VALUE}
        for name, declaration in declared.items():
            value = given.get(name, declaration.get("Default"))
            if value is None:
                values[name] = Unresolved(f"parameter {name}, which has no default")
            elif declaration.get("Type") == "CommaDelimitedList" or str(declaration.get("Type")).startswith("List<"):
                values[name] = [part.strip() for part in str(value).split(",")]
            else:
                values[name] = as_text(value)
        return values

    def _is_wanted(self, resource: Mapping[str, Any]) -> bool:
        return "Condition" not in resource or self._resolver.condition(resource["Condition"])

    def _lookup(self, logical_id: str, attribute: str | None) -> str | None:
        if logical_id == _IMPLICIT_HTTP_API:
            return self._names.value_of(logical_id, _HTTP_API, {}, attribute)
        if attribute == "FunctionUrl":
            owner = logical_id.removesuffix("Url")  # SAM calls the generated resource <function>Url
            return self._names.function_url(self._function_name(owner)) if owner in self._resources else None
        if logical_id not in self._resources:
            return None
        resource = self._resources[logical_id]
        return self._names.value_of(logical_id, resource.get("Type", ""), self._name_properties(resource), attribute)

    def _name_properties(self, resource: Mapping[str, Any]) -> dict[str, Any]:
        properties = resource.get("Properties", {})
        return {key: self._resolver.resolve(properties[key]) for key in NAME_PROPERTIES if key in properties}

    def _function_name(self, logical_id: str) -> str:
        resource = self._resources[logical_id]
        return self._names.physical_name(logical_id, _FUNCTION, self._name_properties(resource))

    def _function(self, logical_id: str, resource: Mapping[str, Any]) -> FunctionSpec:
        properties = self._resolver.resolve(_merged(self._globals, resource.get("Properties", {})))

        def value(key: str, default: Any = None) -> Any:
            found = properties.get(key, default)
            if isinstance(found, Unresolved):
                raise TemplateError(f"{logical_id}.{key}: {found.expression} is not known here")
            return found

        for required in ("CodeUri", "Handler", "Runtime"):
            if not isinstance(value(required), str):
                raise TemplateError(f"{logical_id}: {required} is missing or no text")
        code_dir = self._folder / value("CodeUri")
        if not code_dir.is_dir():
            raise TemplateError(f"{logical_id}.CodeUri: there is no folder {code_dir}")
        name = self._function_name(logical_id)
        reserved = value("ReservedConcurrentExecutions")
        events: Mapping[str, Mapping[str, Any]] = value("Events", {})
        self._notes += [
            f"{logical_id}: the event {event_id} does not arrive here, for its type is {event.get('Type')}"
            for event_id, event in events.items()
            if event.get("Type") not in _KNOWN_EVENTS
        ]
        return FunctionSpec(
            logical_id=logical_id,
            name=name,
            arn=self._names.function_arn(name),
            code_dir=code_dir.resolve(),
            handler=value("Handler"),
            runtime=value("Runtime"),
            region=self._names.region,
            timeout_s=float(value("Timeout", 3)),
            memory_mb=int(value("MemorySize", 128)),
            environment=self._environment(logical_id, value("Environment", {}).get("Variables", {})),
            reserved_concurrency=None if reserved is None else int(reserved),
            layers=self._layers(logical_id, value("Layers", [])),
            routes=tuple(_route(event) for event in events.values() if event.get("Type") == "HttpApi"),
            function_url="FunctionUrlConfig" in properties,
            log_group=as_text(value("LoggingConfig", {}).get("LogGroup", f"/aws/lambda/{name}")),
            schedules=tuple(
                _schedule(f"{logical_id}{event_id}", event)
                for event_id, event in events.items()
                if event.get("Type") in _SCHEDULE_EVENTS
            ),
            async_policy=_async_policy(value("EventInvokeConfig", {})),
            lambda_url=self._names.base_url,
        )

    def _environment(self, logical_id: str, declared: Mapping[str, Any]) -> dict[str, str]:
        own = self._overrides.get(logical_id, {})
        overrides = {**self._overrides.get("Parameters", {}), **own}
        self._notes += [
            f"{logical_id}: the template declares no variable {name}, so the environment file cannot set it"
            for name in sorted(set(own) - set(declared))
        ]
        environment: dict[str, str] = {}
        for name, value in declared.items():
            if name in overrides:
                environment[name] = as_text(overrides[name])
            elif isinstance(value, Unresolved):
                self._notes.append(f"{logical_id}: {name} is left out, for {value.expression} is not known here")
            else:
                environment[name] = as_text(value)
        return environment

    def _layers(self, logical_id: str, layers: list[Any]) -> tuple[Path, ...]:
        folders: list[Path] = []
        by_arn = {
            self._lookup(layer_id, None): self._folder / as_text(resource["Properties"]["ContentUri"])
            for layer_id, resource in self._resources.items()
            if resource.get("Type") == _LAYER
        }
        for layer in layers:
            if layer not in by_arn:
                self._notes.append(f"{logical_id}: the layer {layer} is not in the template, so it is left out")
                continue
            content = by_arn[layer]
            built = content / "python"  # how a layer's archive is laid out; a source folder is used as it is
            folders.append((built if built.is_dir() else content).resolve())
        return tuple(folders)


def _merged(defaults: Any, own: Any) -> Any:
    """SAM's rule for Globals: mappings merge, lists add up, everything else is replaced."""
    if is_intrinsic(defaults) or is_intrinsic(own):
        return own
    if isinstance(defaults, dict) and isinstance(own, dict):
        return {**defaults, **{key: _merged(defaults[key], own[key]) if key in defaults else own[key] for key in own}}
    if isinstance(defaults, list) and isinstance(own, list):
        return [*defaults, *own]
    return own


def _route(event: Mapping[str, Any]) -> HttpRoute:
    properties: Mapping[str, Any] = event.get("Properties", {})
    timeout_s = float(properties.get("TimeoutInMillis", 30_000)) / 1000
    if "Path" not in properties or properties["Path"] == DEFAULT_ROUTE:
        return HttpRoute("ANY", DEFAULT_ROUTE, timeout_s)
    return HttpRoute(str(properties.get("Method", "ANY")).upper(), properties["Path"], timeout_s)


def _async_policy(invoke_config: Mapping[str, Any]) -> AsyncPolicy:
    on_failure = invoke_config.get("DestinationConfig", {}).get("OnFailure", {})
    queue = on_failure.get("Destination") if on_failure.get("Type") == "SQS" else None
    return AsyncPolicy(
        max_retries=int(invoke_config.get("MaximumRetryAttempts", AsyncPolicy.max_retries)),
        max_age_s=float(invoke_config.get("MaximumEventAgeInSeconds", AsyncPolicy.max_age_s)),
        on_failure=queue if isinstance(queue, str) else None,
    )


def _schedule(name: str, event: Mapping[str, Any]) -> Schedule:
    properties: Mapping[str, Any] = event.get("Properties", {})
    event_input = properties.get("Input")
    return Schedule(
        name=properties.get("Name", name),
        expression=as_text(properties[_SCHEDULE_EVENTS[event["Type"]]]),
        input=event_input if event_input is None or isinstance(event_input, str) else json.dumps(event_input),
        enabled=properties.get("Enabled", True) is not False and properties.get("State", "ENABLED") == "ENABLED",
    )
