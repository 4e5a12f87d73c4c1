"""The AWS emulator as the functions meet it: through boto3."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import boto3
import psutil
import pytest
from botocore.config import Config

from local.aws_emulator import AwsEmulator
from spot_sdk.errors import Unavailable


def _client(service: str, emulator: AwsEmulator) -> Any:
    return boto3.client(
        service,
        endpoint_url=emulator.endpoint_url,
        region_name="us-east-1",
        aws_access_key_id="local",
        aws_secret_access_key="local",
        config=Config(proxies={}, retries={"total_max_attempts": 1}),
    )


def test_it_keeps_what_the_store_uses_and_forgets_it_at_its_end(tmp_path: Path) -> None:
    log_path = tmp_path / "logs" / "aws.log"
    emulator = AwsEmulator(log_path)
    emulator.launch()  # and not waited for: the first request is
    try:
        events = _client("events", emulator)
        events.put_rule(Name="nightly", ScheduleExpression="cron(0 3 * * ? *)")
        assert [rule["Name"] for rule in events.list_rules()["Rules"]] == ["nightly"]

        secrets = _client("secretsmanager", emulator)
        secrets.create_secret(Name="database", SecretString="its parts")
        assert secrets.get_secret_value(SecretId="database")["SecretString"] == "its parts"

        queue = _client("sqs", emulator).create_queue(QueueName="failed")["QueueUrl"]
        _client("sqs", emulator).send_message(QueueUrl=queue, MessageBody="a run")
        assert _client("sqs", emulator).receive_message(QueueUrl=queue)["Messages"][0]["Body"] == "a run"

        emulator.wait_until_ready()
        assert log_path.read_text() == "the AWS emulator is ready\n", "requests are not logged"
    finally:
        pid = emulator.child.pid
        emulator.stop()
    assert not psutil.pid_exists(pid)
    emulator.stop()

    with AwsEmulator(log_path) as second:
        assert _client("events", second).list_rules()["Rules"] == []


def test_two_run_side_by_side(tmp_path: Path) -> None:
    with AwsEmulator(tmp_path / "one.log") as one, AwsEmulator(tmp_path / "two.log") as two:
        assert one.endpoint_url != two.endpoint_url
        assert one.endpoint_url.startswith("http://127.0.0.1:")


def test_one_that_is_killed_before_it_is_ready_says_so(tmp_path: Path) -> None:
    emulator = AwsEmulator(tmp_path / "aws.log")
    emulator.launch()
    os.kill(emulator.child.pid, signal.SIGKILL)
    with pytest.raises(Unavailable, match="AWS emulator was ended by SIGKILL"):
        emulator.wait_until_ready()
    emulator.stop()


def test_one_that_was_not_started_has_no_address(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="not started"):
        _ = AwsEmulator(tmp_path / "aws.log").endpoint_url
