"""What the product tells of itself, by Powertools: logs as lines of JSON, and metrics in CloudWatch's embedded format.

Neither holds what was said. A text appears as its keyed hash (``knowledge.text_hash``), an error as types and places,
for the messages of libraries may quote data.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch import AmazonCloudWatchEMFProvider

from knowledge import settings
from knowledge.correlation import correlated_as
from knowledge.metrics import Metric
from spot_sdk.errors import KnowledgeError

logger = Logger(service="knowledge")
logging.getLogger("aws_lambda_powertools").setLevel(logging.WARNING)  # at DEBUG, it would print whole requests

_MAX_NAMES = 32
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")
_MAX_FRAMES = 8
_MAX_VALUES = 99  # of one metric in one line; at a hundred Powertools prints by itself


class _Recorded(NamedTuple):
    metric: Metric
    value: float
    dimensions: tuple[str, ...]


_recorded: ContextVar[list[_Recorded] | None] = ContextVar("recorded", default=None)
_known_names: set[str] = set()


def record(metric: Metric, value: float = 1.0, /, **dimensions: str) -> None:
    """Note a value, to be published at the end of ``publishing``; outside of one - in a command - it is dropped."""
    recorded = _recorded.get()
    if recorded is not None:
        recorded.append(_Recorded(metric, value, tuple(dimensions[name] for name in metric.dimensions)))


def one_of_few(name: str) -> str:
    """A source's or a run's name as a dimension: itself for the first few that a process meets, else ``other``.

    A name that is no plain word, an address for instance, is ``other`` as well.
    """
    if not name:
        return "unnamed"
    if name not in _known_names:
        if len(_known_names) >= _MAX_NAMES or not _NAME.fullmatch(name):
            return "other"
        _known_names.add(name)
    return name


@contextmanager
def publishing() -> Generator[None]:
    """Print what is recorded in the block when it ends, however it does: one line for each set of dimensions."""
    recorded: list[_Recorded] = []
    token = _recorded.set(recorded)
    try:
        yield
    finally:
        _recorded.reset(token)
        if recorded:
            sys.stdout.write("".join(f"{json.dumps(line)}\n" for line in _embedded_format(recorded)))
            sys.stdout.flush()


def _embedded_format(recorded: list[_Recorded]) -> Generator[Any]:
    series: dict[tuple[str, tuple[str, ...]], list[_Recorded]] = {}
    for each in recorded:
        series.setdefault((each.metric.name, each.dimensions), []).append(each)
    # "" keeps Powertools from adding a dimension of its own, which every graph and alarm would have to name.
    line = AmazonCloudWatchEMFProvider(namespace=settings.metrics().namespace, service="")
    for values in series.values():
        metric, dimensions = values[0].metric, values[0].dimensions
        for start in range(0, len(values), _MAX_VALUES):
            for name, value in zip(metric.dimensions, dimensions, strict=True):
                line.add_dimension(name, value)
            for each in values[start : start + _MAX_VALUES]:
                line.add_metric(metric.name, metric.unit, each.value)
            content = line.serialize_metric_set()
            content["_aws"]["CloudWatchMetrics"][0]["Dimensions"] += [list(names) for names in metric.also_by]
            yield content
            line.clear_metrics()


@contextmanager
def of_event(request_id: str) -> Generator[None]:
    """Around an invocation that is no HTTP request: its lines and metrics, and its end if it breaks.

    An error of ours passes through. Of any other only the type does, for whoever logs it; the log has the place.
    """
    logger.set_correlation_id(request_id)
    with publishing(), correlated_as(request_id):
        try:
            yield
        except (KnowledgeError, settings.SettingsError):
            raise
        except Exception as error:
            logger.error("broken", reason=type(error).__name__, broke=where_it_broke(error))
            raise Broken(type(error).__name__) from None


class Broken(Exception):
    """Something broke that should not have; the message is the type of what it was."""


def where_it_broke(error: BaseException) -> list[dict[str, Any]]:
    """An error and its causes as types and places, the outermost first, without any of their words."""
    told: list[dict[str, Any]] = []
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        frames = traceback.extract_tb(cause.__traceback__)[-_MAX_FRAMES:]
        places = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]
        sqlstate = getattr(cause, "sqlstate", None)
        told.append({"type": type(cause).__qualname__, "at": places, **({"sqlstate": sqlstate} if sqlstate else {})})
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return told
