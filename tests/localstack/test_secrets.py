"""Secrets by the settings that the functions read, from LocalStack's Secrets Manager."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

import pytest
from aws_lambda_powertools.utilities import parameters
from psycopg.conninfo import conninfo_to_dict

from knowledge import wiring

PARTS = {"host": "db.example", "port": 5433, "username": "writer", "password": "p w'\"", "dbname": "store"}


@pytest.fixture(autouse=True)
def _fresh(aws: Any, monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    monkeypatch.setenv("AWS_ENDPOINT_URL", aws.endpoint_url)
    parameters.clear_caches()
    wiring.reset()
    yield
    parameters.clear_caches()
    wiring.reset()


def secret(aws: Any, name: str, **members: Any) -> str:
    return aws("secretsmanager").create_secret(Name=name, SecretString=json.dumps(members))["ARN"]


def test_the_database_is_the_one_that_a_secret_names(aws: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_SECRET_ARN", secret(aws, "database", **PARTS))
    address = conninfo_to_dict(wiring.database_url())
    assert (address["host"], str(address["port"]), address["dbname"]) == ("db.example", "5433", "store")
    assert (address["user"], address["password"], address["sslmode"]) == ("writer", "p w'\"", "verify-full")


def test_a_rotated_key_is_taken_up_beside_the_one_before(aws: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    arn = secret(aws, "keys", current="one")
    monkeypatch.setenv("INTERNAL_API_KEY_SECRET_ARN", arn)
    assert wiring.internal_keys() == ["one"]
    rotated = json.dumps({"current": "two", "previous": "one"})
    aws("secretsmanager").put_secret_value(SecretId=arn, SecretString=rotated)
    parameters.clear_caches()  # what a minute does
    assert wiring.internal_keys() == ["two", "one"]
