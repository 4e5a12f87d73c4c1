"""One list of metrics: what is recorded, drawn, alarmed of and documented is what it says, and nothing else."""

from __future__ import annotations

import ast
import json
import re
import runpy
from pathlib import Path
from typing import Any

from knowledge import metrics
from knowledge.metrics import METRICS, Metric
from local.lambda_service.cloudformation import parse_yaml

CHECKOUT = Path(__file__).resolve().parents[2]
BY_NAME = {metric.name: metric for metric in METRICS}
CONSTANTS = {name: value for name, value in vars(metrics).items() if isinstance(value, Metric)}
RESOURCES: dict[str, Any] = parse_yaml((CHECKOUT / "template.yaml").read_text())["Resources"]

DESIGNED = {
    "knowledge_query_duration_seconds": ("histogram", {"cache_hit", "has_tag_filter"}),
    "knowledge_embed_duration_seconds": ("histogram", {"backend"}),
    "knowledge_embed_cache_hits_total": ("counter", set[str]()),
    "knowledge_embed_cache_misses_total": ("counter", set[str]()),
    "knowledge_upserts_total": ("counter", {"source"}),
    "knowledge_docs_total": ("gauge", set[str]()),
    "knowledge_cleanup_deleted_total": ("counter", set[str]()),
}


def test_the_list_is_complete_and_has_no_name_twice() -> None:
    assert set(METRICS) == set(CONSTANTS.values())
    assert len(BY_NAME) == len(METRICS)


def test_what_the_design_names_is_there_and_means_the_same() -> None:
    found = {name: (BY_NAME[name].kind, set(BY_NAME[name].dimensions)) for name in DESIGNED}
    assert found == DESIGNED


def test_no_dimension_could_be_an_id_a_tag_or_a_text() -> None:
    dimensions = {dimension for metric in METRICS for dimension in metric.dimensions}
    assert dimensions == {"cache_hit", "has_tag_filter", "backend", "plan", "function", "status", "source", "name"}


def test_only_histograms_have_buckets_and_every_other_choice_is_one_of_the_dimensions() -> None:
    for metric in METRICS:
        assert bool(metric.buckets) == (metric.kind == "histogram"), metric.name
        assert list(metric.buckets) == sorted(metric.buckets)
        assert all(set(names) < set(metric.dimensions) for names in metric.also_by), metric.name
        assert metric.kind != "gauge" or not metric.also_by, metric.name  # the values of several are no value of all


def calls_of_record() -> set[tuple[str, frozenset[str]]]:
    """Each ``record(metrics.NAME, ..., dimension=...)`` in the server, as the constant and its dimensions."""
    found: set[tuple[str, frozenset[str]]] = set()
    for path in (CHECKOUT / "layers" / "knowledge").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "record":
                first = node.args[0] if node.args else None
                if isinstance(first, ast.Attribute):
                    found.add((first.attr, frozenset(keyword.arg or "**" for keyword in node.keywords)))
    return found


def test_every_metric_is_recorded_with_its_dimensions() -> None:
    assert calls_of_record() == {(name, frozenset(metric.dimensions)) for name, metric in CONSTANTS.items()}


def drawn() -> set[tuple[str, frozenset[str]]]:
    """Each of our metrics in the dashboard and the alarms, with the dimensions by which it is asked for."""
    body = RESOURCES["Dashboard"]["Properties"]["DashboardBody"]["Fn::Sub"]
    text = body[0] if isinstance(body, list) else body
    found: set[tuple[str, frozenset[str]]] = set()
    for row in re.findall(r'\["\$\{AWS::StackName\}", ("knowledge_[^{\]]*)', text):
        name, *rest = json.loads(f"[{row.rstrip(', ')}]")
        found.add((name, frozenset(rest[::2])))
    for dimensions, name in re.findall(r"\$\{AWS::StackName\}\\\"((?:,\w+)*)} MetricName=\\\"(knowledge_\w+)", text):
        found.add((name, frozenset(dimensions.split(",")[1:])))
    for resource in RESOURCES.values():
        if resource["Type"] == "AWS::CloudWatch::Alarm":
            asked = [resource["Properties"]]
            asked += [it["MetricStat"]["Metric"] for it in asked[0].get("Metrics", []) if "MetricStat" in it]
            for it in asked:
                if str(it.get("MetricName", "")).startswith("knowledge_"):
                    found.add((it["MetricName"], frozenset(each["Name"] for each in it.get("Dimensions", []))))
    return found


def test_dashboard_and_alarms_ask_for_series_that_there_are() -> None:
    published = {
        (metric.name, frozenset(names)) for metric in METRICS for names in (metric.dimensions, *metric.also_by)
    }
    assert len(drawn()) >= 10
    assert drawn() <= published


def test_the_reference_is_made_from_the_list() -> None:
    tool = runpy.run_path(str(CHECKOUT / "tools" / "metrics.py"))
    assert tool["TARGET"].read_text(encoding="utf-8") == tool["describe"]()
