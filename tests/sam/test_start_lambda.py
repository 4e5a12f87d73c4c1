"""``sam local start-lambda``: the functions by the Lambda API, through boto3 and an endpoint like LocalStack's."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

import boto3
import pytest
from botocore.config import Config
from sam_local import SamLocal
from stand_ins import CHECKOUT


@pytest.fixture(scope="module")
def functions(sam: SamLocal, migrated: dict[str, Any]) -> Generator[Any]:
    with sam.start_lambda() as endpoint_url:
        session = boto3.Session(aws_access_key_id="nobody", aws_secret_access_key="nobody", region_name="eu-central-1")
        patient = Config(read_timeout=120, retries={"max_attempts": 0})
        yield session.client("lambda", endpoint_url=endpoint_url, config=patient)


def test_a_function_answers_an_event(functions: Any) -> None:
    event = (CHECKOUT / "events" / "admin.json").read_bytes()
    answer = functions.invoke(FunctionName="AdminFunction", Payload=event)
    assert "FunctionError" not in answer
    result = json.load(answer["Payload"])
    assert result["statusCode"] == 200
    assert json.loads(result["body"])["documents"] >= 0


def test_an_event_that_a_function_cannot_read_is_its_error(functions: Any) -> None:
    """SAM answers with the error alone; AWS also sets FunctionError, which SAM leaves out."""
    error = json.load(functions.invoke(FunctionName="SyncTriggerFunction", Payload=b"{}")["Payload"])
    assert error["errorType"]
    assert error["errorMessage"]
