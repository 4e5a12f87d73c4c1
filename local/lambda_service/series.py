"""The functions' metrics over time, and CloudWatch's dashboard body drawn from them.

    log line in the embedded metric format ─► Series ─► draw(body) ─► {"widgets": [{"title", "series": [...]}]}

So much of CloudWatch is here as a dashboard of ours uses: the statistics Sum, SampleCount, Average, Minimum, Maximum
and percentiles; sums, products and quotients of metrics by their ids; SEARCH over one namespace, set of dimensions and
metric. What only AWS measures (its own namespaces) has no points here.
"""

from __future__ import annotations

import ast
import json
import operator
import re
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from local.lambda_service.logs import LogLine

PERIOD_S = 60
KEPT_S = 12 * 3600
_MAX_SAMPLES = 1_000
"""Of each metric in each period, for percentiles."""

Key = tuple[str, str, tuple[tuple[str, str], ...]]
"""Namespace, name, and dimensions in order."""
Points = dict[int, float]
"""Value by the beginning of the period, in seconds since 1970."""

_MARK = '{"_aws": '
_SEARCH = re.compile(r"""SEARCH\('\{"?([^",}]+)"?((?:,\s*"?\w+"?)*)\}\s+MetricName="?(\w+)"?'\s*,\s*'(\w+)'""")
_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


@dataclass
class _Period:
    total: float = 0.0
    count: int = 0
    least: float = float("inf")
    most: float = float("-inf")
    samples: list[float] = field(default_factory=list[float])

    def add(self, value: float) -> None:
        self.total += value
        self.count += 1
        self.least, self.most = min(self.least, value), max(self.most, value)
        if len(self.samples) < _MAX_SAMPLES:
            self.samples.append(value)

    def statistic(self, name: str) -> float:
        """A statistic by CloudWatch's name for it. Raises ValueError for one that is not known here."""
        match name:
            case "Sum":
                return self.total
            case "SampleCount":
                return float(self.count)
            case "Average":
                return self.total / self.count
            case "Minimum":
                return self.least
            case "Maximum":
                return self.most
            case _:
                return self._percentile(name)

    def _percentile(self, name: str) -> float:
        if not re.fullmatch(r"p\d{1,2}(\.\d+)?", name):
            raise ValueError(f"the statistic {name} is not known here")
        if len(self.samples) == 1:
            return self.samples[0]
        cuts = statistics.quantiles(self.samples, n=1_000, method="inclusive")
        return cuts[min(998, max(0, round(float(name[1:]) * 10) - 1))]


class Series:
    """Takes up log lines, keeps what they measured for twelve hours, and draws dashboards of it."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._periods: dict[Key, dict[int, _Period]] = defaultdict(dict)

    def observe(self, line: LogLine) -> None:
        """Take up the values of a line, if it is one of metrics."""
        if not line.text.startswith(_MARK):
            return
        try:
            told = json.loads(line.text)
            parts = told["_aws"]["CloudWatchMetrics"]
        except (ValueError, KeyError, TypeError):  # cut off, as a very long line is
            return
        start = int(self._clock()) // PERIOD_S * PERIOD_S
        for part in parts:
            for names in part["Dimensions"]:
                dimensions = tuple(sorted((name, str(told.get(name, ""))) for name in names))
                for metric in part["Metrics"]:
                    self._add((part["Namespace"], metric["Name"], dimensions), start, told.get(metric["Name"]))

    def _add(self, key: Key, start: int, told: Any) -> None:
        periods = self._periods[key]
        if start not in periods:
            for old in [each for each in periods if each < start - KEPT_S]:
                del periods[old]
        for value in told if isinstance(told, list) else [told]:
            if isinstance(value, int | float):
                periods.setdefault(start, _Period()).add(float(value))

    def route(self, body: Callable[[], str | None]) -> Route:
        """``GET /dashboard``: the dashboard whose body this is now, drawn; 404 where the template has none."""

        async def answer(request: Request) -> Response:
            text = await run_in_threadpool(body)
            return Response(status_code=404) if text is None else JSONResponse(self.draw(text))

        return Route("/dashboard", answer, methods=["GET"])

    def draw(self, body: str) -> dict[str, Any]:
        """The widgets of a DashboardBody with their titles and lines, as points of time and value."""
        widgets = [each["properties"] for each in json.loads(body)["widgets"] if each.get("type") == "metric"]
        return {"period_s": PERIOD_S, "widgets": [self._widget(each) for each in widgets]}

    def _widget(self, properties: Mapping[str, Any]) -> dict[str, Any]:
        lines: list[tuple[str, Points]] = []
        by_id: dict[str, Points] = {}
        for entry in properties["metrics"]:
            options: dict[str, Any] = entry[-1] if isinstance(entry[-1], dict) else {}
            if "expression" in options:
                found = self._expression(options, by_id)
            else:
                found = [self._metric([part for part in entry if isinstance(part, str)], options)]
            if "id" in options and len(found) == 1:
                by_id[options["id"]] = found[0][1]
            if options.get("visible", True):
                lines += found
        return {
            "title": properties.get("title", ""),
            "series": [{"label": label, "points": sorted(points.items())} for label, points in lines],
        }

    def _metric(self, parts: list[str], options: Mapping[str, Any]) -> tuple[str, Points]:
        namespace, name, *dimensions = parts
        pairs = zip(dimensions[::2], dimensions[1::2], strict=False)
        key = (namespace, name, tuple(sorted(pairs)))
        return options.get("label", name), self._points(key, options.get("stat", "Average"))

    def _points(self, key: Key, statistic: str) -> Points:
        oldest = self._clock() - KEPT_S
        periods = self._periods.get(key, {})
        return {start: period.statistic(statistic) for start, period in periods.items() if start >= oldest}

    def _expression(self, options: Mapping[str, Any], by_id: Mapping[str, Points]) -> list[tuple[str, Points]]:
        expression = options["expression"]
        searched = _SEARCH.match(expression)
        if searched is None:
            return [(options.get("label", expression), _computed(ast.parse(expression, mode="eval").body, by_id))]
        namespace, names, metric, statistic = searched.groups()
        wanted = {name.strip(' "') for name in names.split(",") if name.strip()}
        return [
            (" ".join(value for _, value in dimensions), self._points((namespace, metric, dimensions), statistic))
            for space, name, dimensions in list(self._periods)
            if (space, name) == (namespace, metric) and {each for each, _ in dimensions} == wanted
        ]


def _computed(node: ast.expr, by_id: Mapping[str, Points]) -> Points:
    """Points of an expression, where all its metrics have some; a quotient by nothing has none."""
    times = sorted(set[int]().union(*(by_id.get(name, {}) for name in _names(node))))
    found = ((start, _value(node, by_id, start)) for start in times)
    return {start: value for start, value in found if value is not None}


def _names(node: ast.expr) -> Iterable[str]:
    return [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]


def _value(node: ast.expr, by_id: Mapping[str, Points], start: int) -> float | None:
    match node:
        case ast.Constant(value=int() | float() as value):
            return float(value)
        case ast.Name(id=name):
            return by_id.get(name, {}).get(start, 0.0)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            first, second = _value(left, by_id, start), _value(right, by_id, start)
            if first is None or second is None or (isinstance(op, ast.Div) and second == 0):
                return None
            return _OPERATORS[type(op)](first, second)
        case _:
            raise ValueError("an expression that is not known here")
