"""``GET /metrics``: lines of all workers become one page that Prometheus can read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.testclient import TestClient

from knowledge import metrics
from knowledge.metrics import METRICS
from knowledge.telemetry import publishing, record
from local.lambda_service.logs import LogLine
from local.lambda_service.metrics import MetricsPage

EMPTY = json.dumps({"_aws": {"CloudWatchMetrics": [{"Metrics": [{"Name": "knowledge_docs_total"}]}]}})


def told(capsys: pytest.CaptureFixture[str], work: Any) -> list[str]:
    with publishing():
        work()
    return capsys.readouterr().out.splitlines()


def observe(page: MetricsPage, *lines: str) -> None:
    for line in lines:
        page.observe(LogLine("QueryFunction", "request", line))


def samples(page: MetricsPage) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page.text().decode())
        for sample in family.samples
    }


def test_values_of_all_workers_are_added_up(capsys: pytest.CaptureFixture[str]) -> None:
    def one_worker() -> None:
        record(metrics.UPSERTS, 3, source="wiki")
        record(metrics.DOCS, 5)
        for seconds in (0.002, 0.3, 60.0):
            record(metrics.QUERY_DURATION, seconds, cache_hit="false", has_tag_filter="true")

    page = MetricsPage()
    observe(page, *told(capsys, one_worker), *told(capsys, one_worker))
    found = samples(page)
    labels = (("cache_hit", "false"), ("has_tag_filter", "true"))
    assert found["knowledge_upserts_total", (("source", "wiki"),)] == 6
    assert found["knowledge_docs_total", ()] == 5  # a gauge: as it is now
    assert found["knowledge_query_duration_seconds_count", labels] == 6
    assert found["knowledge_query_duration_seconds_sum", labels] == pytest.approx(120.604)
    bucket = "knowledge_query_duration_seconds_bucket"
    counts = {dict(key)["le"]: value for (name, key), value in found.items() if name == bucket}
    assert (counts["0.001"], counts["0.0025"], counts["0.5"], counts["10.0"], counts["+Inf"]) == (0, 2, 4, 4, 6)


def test_every_metric_is_on_the_page_under_its_name_and_kind(capsys: pytest.CaptureFixture[str]) -> None:
    page = MetricsPage()
    for metric in METRICS:
        dimensions = dict.fromkeys(metric.dimensions, "x")
        observe(page, *told(capsys, lambda metric=metric, dimensions=dimensions: record(metric, 1, **dimensions)))
    families = list(text_string_to_metric_families(page.text().decode()))
    kinds = {sample.name: family.type for family in families for sample in family.samples}
    for metric in METRICS:
        name = f"{metric.name}_bucket" if metric.kind == "histogram" else metric.name
        assert kinds[name] == metric.kind
    assert {family.documentation for family in families} == {metric.help for metric in METRICS}
    assert not [name for name in kinds if name.endswith("_created")]


@pytest.mark.parametrize(
    "line",
    [
        '{"_aws": {"Timestamp": 1',
        '{"_aws": null}',
        '{"_aws": {"CloudWatchMetrics": [{"Metrics": [{"Name": "another_metric"}]}]}, "another_metric": 1}',
        '{"_aws": {"CloudWatchMetrics": [{"Metrics": [{"Name": "knowledge_upserts_total"}]}]}}',
        EMPTY,
        json.dumps({"level": "INFO", "message": "knowledge_upserts_total"}),
    ],
)
def test_lines_that_are_no_metrics_of_ours_are_left_out(line: str) -> None:
    page = MetricsPage()
    before = page.text()
    observe(page, line)
    assert page.text() == before


def test_the_page_is_served_as_prometheus_asks_for_it() -> None:
    answer = TestClient(Starlette(routes=[MetricsPage().route])).get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert "# TYPE knowledge_query_duration_seconds histogram" in answer.text
