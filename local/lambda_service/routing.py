"""Which route of an HTTP API serves a request: AWS's order of precedence, and its ways with paths."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import unquote

from local.lambda_service.functions import DEFAULT_ROUTE, HttpRoute

T = TypeVar("T")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


class BadPath(ValueError):
    """API Gateway answers 400 to this path."""


@dataclass(frozen=True)
class Match(Generic[T]):
    route: HttpRoute
    target: T
    path_parameters: dict[str, str]


def decode_http_api_path(raw_path: str) -> str:
    """The path as an HTTP API hands it over: decoded, cut at a decoded `?`, then decoded once more.

    This is what requests to AWS showed (captures that the voker project published in July 2026): `/a%3Fb` arrives as
    `/a`, `/a%252Fb` as `/a/b`, and `/a%25b`, which the second decoding cannot read, is refused. Function URLs and REST
    APIs hand the path over as it was sent. Raises BadPath.
    """
    return _decode(_decode(raw_path).partition("?")[0])


def _decode(path: str) -> str:
    if _BAD_ESCAPE.search(path):
        raise BadPath(path)
    return unquote(path)


def match_route(routes: Iterable[tuple[HttpRoute, T]], method: str, path: str) -> Match[T] | None:
    """The route for a decoded path: literals before {name}, then {name+}, then $default; a method before ANY."""
    candidates = [
        (_precedence(route), Match(route, target, parameters))
        for route, target in routes
        if route.method in (method, "ANY") and (parameters := _parameters(route.path, path)) is not None
    ]
    return min(candidates, key=lambda candidate: candidate[0])[1] if candidates else None


def parameters_as_sent(match: Match[T], raw_path: str) -> dict[str, str]:
    """The route's path parameters, decoded once and cut nowhere.

    The captures tell of the path and not of its parameters. Taking them as they were sent is the reading under which a
    function can see that the path was damaged; on the other reading it cannot, and ids with `%` or `?` are better sent
    in a body.
    """
    return _parameters(match.route.path, unquote(raw_path)) or match.path_parameters


def _precedence(route: HttpRoute) -> tuple[bool, bool, list[bool], bool]:
    segments = route.path.split("/")
    is_greedy = segments[-1].endswith("+}")
    return (
        route.path == DEFAULT_ROUTE,
        is_greedy,
        [segment.startswith("{") for segment in segments],
        route.method == "ANY",
    )


def _parameters(pattern: str, path: str) -> dict[str, str] | None:
    if pattern == DEFAULT_ROUTE:
        return {}
    expected, found = pattern.split("/"), path.split("/")
    parameters: dict[str, str] = {}
    for index, segment in enumerate(expected):
        rest = found[index:]
        if segment.startswith("{") and segment.endswith("+}"):
            parameters[segment[1:-2]] = "/".join(rest)
            return parameters if any(rest) else None
        if not rest:
            return None
        if segment.startswith("{") and segment.endswith("}"):
            if not rest[0]:
                return None
            parameters[segment[1:-1]] = rest[0]
        elif segment != rest[0]:
            return None
    return parameters if len(expected) == len(found) else None
