"""The template's dashboard and alarms, made in LocalStack's CloudWatch as CloudFormation makes them on AWS."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conftest import CHECKOUT

from local.lambda_service.cloudformation import NO_VALUE, Resolver, parse_yaml
from local.lambda_service.stack_names import StackNames

TEMPLATE = parse_yaml((CHECKOUT / "template.yaml").read_text())
NAMES = StackNames(stack_name="prod")


def lookup(logical_id: str, attribute: str | None) -> str | None:
    resource = TEMPLATE["Resources"].get(logical_id)
    return None if resource is None else NAMES.value_of(logical_id, resource["Type"], {}, attribute)


def resolved(kind: str) -> dict[str, dict[str, Any]]:
    parameters: dict[str, Any] = {**NAMES.pseudo_parameters(), "AWS::NoValue": NO_VALUE}
    parameters |= {name: str(parameter.get("Default", "")) for name, parameter in TEMPLATE["Parameters"].items()}
    resolver = Resolver(TEMPLATE, parameters, lookup)
    return {
        name: resolver.resolve(resource["Properties"])
        for name, resource in TEMPLATE["Resources"].items()
        if resource["Type"] == kind
    }


ALARMS = resolved("AWS::CloudWatch::Alarm")


@pytest.mark.parametrize("name", ALARMS)
def test_an_alarm_is_accepted_as_it_stands_in_the_template(aws: Any, name: str) -> None:
    cloudwatch = aws("cloudwatch")
    wanted = ALARMS[name] | {"Threshold": float(ALARMS[name]["Threshold"])}
    cloudwatch.put_metric_alarm(AlarmName=f"prod-{name}", **wanted)
    (alarm,) = cloudwatch.describe_alarms(AlarmNames=[f"prod-{name}"])["MetricAlarms"]
    assert {key: alarm[key] for key in ("Threshold", "ComparisonOperator", "EvaluationPeriods")} == {
        key: wanted[key] for key in ("Threshold", "ComparisonOperator", "EvaluationPeriods")
    }


def test_the_dashboard_is_kept_with_every_widget(aws: Any) -> None:
    (dashboard,) = resolved("AWS::CloudWatch::Dashboard").values()
    cloudwatch = aws("cloudwatch")
    cloudwatch.put_dashboard(**dashboard)
    kept = json.loads(cloudwatch.get_dashboard(DashboardName=dashboard["DashboardName"])["DashboardBody"])
    assert kept == json.loads(dashboard["DashboardBody"])
    assert len(kept["widgets"]) >= 8
    assert "${" not in dashboard["DashboardBody"]
