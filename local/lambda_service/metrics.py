"""``GET /metrics``: what all workers of all functions have told in CloudWatch's embedded metric format, for Prometheus.

Values are counted from the start of the service on, as Prometheus expects it of a process.
"""

from __future__ import annotations

import json
from typing import Any

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from knowledge.metrics import METRICS, Metric
from local.lambda_service.logs import LogLine

_MARK = '{"_aws": '


class MetricsPage:
    """Reads log lines, and answers with the metrics that were in them; those that it does not know are left out."""

    def __init__(self) -> None:
        disable_created_metrics()  # else each series has a second one, with the time of its beginning
        self._registry = CollectorRegistry()
        self._series = {metric.name: (metric, _make(metric, self._registry)) for metric in METRICS}

    @property
    def route(self) -> Route:
        return Route("/metrics", self._answer, methods=["GET"])

    def observe(self, line: LogLine) -> None:
        """Take up the values of a line, if it is one of metrics."""
        if not line.text.startswith(_MARK):
            return
        try:
            told = json.loads(line.text)
        except ValueError:  # cut off, as a very long line is
            return
        for name in _names(told):
            if name in self._series:
                self._take_up(name, told)

    def text(self) -> bytes:
        """Everything so far, in Prometheus's text format."""
        return generate_latest(self._registry)

    def _take_up(self, name: str, told: dict[str, Any]) -> None:
        metric, series = self._series[name]
        if not all(isinstance(told.get(dimension), str) for dimension in metric.dimensions):
            return
        labels = [told[dimension] for dimension in metric.dimensions]
        child: Any = series.labels(*labels) if labels else series
        values = told.get(name)
        for value in values if isinstance(values, list) else [values]:
            if not isinstance(value, int | float):
                continue
            match series:
                case Counter():
                    child.inc(value)
                case Gauge():
                    child.set(value)
                case Histogram():
                    child.observe(value)

    async def _answer(self, request: Request) -> Response:
        return Response(self.text(), media_type=CONTENT_TYPE_LATEST)


def _names(told: Any) -> list[str]:
    """The metrics that a line says it has."""
    try:
        return [metric["Name"] for part in told["_aws"]["CloudWatchMetrics"] for metric in part["Metrics"]]
    except (KeyError, TypeError):
        return []


def _make(metric: Metric, registry: CollectorRegistry) -> Counter | Gauge | Histogram:
    match metric.kind:
        case "counter":
            return Counter(metric.name, metric.help, metric.dimensions, registry=registry)
        case "gauge":
            return Gauge(metric.name, metric.help, metric.dimensions, registry=registry)
        case "histogram":
            return Histogram(metric.name, metric.help, metric.dimensions, buckets=metric.buckets, registry=registry)
