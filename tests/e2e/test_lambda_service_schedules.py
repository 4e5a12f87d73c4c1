"""A schedule of a template, from the clock to the queue of lost events, with real processes and real time."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import boto3
import pytest

from local.aws_emulator import AwsEmulator
from local.processes import Child

CRASHER = Path(__file__).parent / "fixtures_functions" / "crasher"
PATIENCE_S = 100.0

TEMPLATE = f"""
Resources:
  Lost:
    Type: AWS::SQS::Queue
    Properties: {{QueueName: lost}}
  CrasherFunction:
    Type: AWS::Serverless::Function
    Properties:
      Runtime: python3.13
      Handler: app.handler
      CodeUri: {CRASHER}
      Timeout: 10
      MemorySize: 256
      EventInvokeConfig:
        MaximumRetryAttempts: 0
        DestinationConfig: {{OnFailure: {{Type: SQS, Destination: !GetAtt Lost.Arn}}}}
      Events:
        Often: {{Type: Schedule, Properties: {{Schedule: rate(1 minute), Input: '{{"way": "raise"}}'}}}}
"""


def client(service: str, emulator: AwsEmulator) -> Any:
    return boto3.client(
        service,
        endpoint_url=emulator.endpoint_url,
        region_name="us-east-1",
        aws_access_key_id="x",
        aws_secret_access_key="x",
    )


@pytest.mark.timeout(240)
def test_the_clock_fires_a_rule_and_what_its_function_does_not_handle_is_kept(tmp_path: Path) -> None:
    (tmp_path / "template.yaml").write_text(TEMPLATE)
    with AwsEmulator(tmp_path / "aws.log") as emulator:
        service = Child.start(
            "local Lambda service",
            [
                *(sys.executable, "-P", "-m", "local.lambda_service", "--port", "0", "--no-reload"),
                *("--template", tmp_path / "template.yaml", "--aws-endpoint-url", emulator.endpoint_url),
            ],
            log_path=tmp_path / "service.log",
            ready_text="ready http://",
        )
        try:
            service.wait_until_ready(PATIENCE_S)
            message = first_message(client("sqs", emulator))
            (rule,) = client("events", emulator).list_rules()["Rules"]
        finally:
            assert service.stop(grace_s=PATIENCE_S) == 0
    assert (rule["Name"], rule["ScheduleExpression"]) == ("CrasherFunctionOften", "rate(1 minute)")
    assert message["requestPayload"] == {"way": "raise"}
    assert message["requestContext"]["condition"] == "RetriesExhausted"
    assert message["requestContext"]["approximateInvokeCount"] == 1
    assert message["requestContext"]["functionArn"].endswith(":function:CrasherFunction:$LATEST")
    assert message["responsePayload"]["errorType"] == "OwnError"


def first_message(sqs: Any) -> dict[str, Any]:
    """The first message of the queue, which the service makes at its start."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        queues = sqs.list_queues().get("QueueUrls", [])
        received = sqs.receive_message(QueueUrl=queues[0], WaitTimeSeconds=1) if queues else {}
        for message in received.get("Messages", []):
            return json.loads(message["Body"])
        time.sleep(0.2)
    raise AssertionError("no event was lost in time")
