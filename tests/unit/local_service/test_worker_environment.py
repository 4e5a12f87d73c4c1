"""What a worker process finds in its environment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from local.lambda_service.environment import worker_environment
from local.lambda_service.functions import FunctionSpec


def spec(**changes: object) -> FunctionSpec:
    values: dict[str, object] = {
        "logical_id": "Query",
        "name": "query",
        "arn": "arn:query",
        "code_dir": Path("/code/query"),
        "handler": "app.handler",
        "runtime": "python3.13",
        "log_group": "/logs/query",
        "region": "eu-central-1",
        "memory_mb": 512,
    }
    return FunctionSpec(**{**values, **changes})  # type: ignore[arg-type]


def test_a_function_finds_what_lambda_gives_it() -> None:
    environment = worker_environment(spec(), runtime_api="127.0.0.1:9")
    expected = {
        "AWS_EXECUTION_ENV": "AWS_Lambda_python3.13",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "512",
        "AWS_LAMBDA_FUNCTION_NAME": "query",
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_LOG_GROUP_NAME": "/logs/query",
        "AWS_LAMBDA_RUNTIME_API": "127.0.0.1:9",
        "AWS_REGION": "eu-central-1",
        "LAMBDA_TASK_ROOT": "/code/query",
        "TZ": ":UTC",
        "_HANDLER": "app.handler",
    }
    assert expected.items() <= environment.items()
    assert "AWS_ENDPOINT_URL" not in environment
    assert "PYTHONPATH" not in environment


def test_the_developers_own_environment_stays_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAREAL")
    monkeypatch.setenv("AWS_PROFILE", "production")
    monkeypatch.setenv("SOME_TOKEN", "secret")
    environment = worker_environment(spec(), runtime_api="127.0.0.1:9")
    assert environment["AWS_ACCESS_KEY_ID"] == "local"
    assert environment["AWS_SHARED_CREDENTIALS_FILE"] == os.devnull
    assert not {"AWS_PROFILE", "SOME_TOKEN", "HOME"} & set(environment)


def test_variables_layers_and_the_emulator() -> None:
    function = spec(
        environment={"LOG_LEVEL": "DEBUG", "AWS_LAMBDA_FUNCTION_NAME": "other"}, layers=(Path("/a"), Path("/b"))
    )
    environment = worker_environment(function, runtime_api="127.0.0.1:9", endpoint_url="http://127.0.0.1:5000")
    assert environment["LOG_LEVEL"] == "DEBUG"
    assert environment["PYTHONPATH"] == f"/a{os.pathsep}/b"
    assert environment["AWS_ENDPOINT_URL"] == "http://127.0.0.1:5000"
    assert environment["AWS_LAMBDA_FUNCTION_NAME"] == "query"  # reserved: Lambda lets no function set it


def test_a_function_finds_lambda_at_this_service_and_everything_else_at_the_emulator() -> None:
    function = spec(lambda_url="http://127.0.0.1:8787")
    environment = worker_environment(function, runtime_api="127.0.0.1:9", endpoint_url="http://127.0.0.1:1")
    assert environment["AWS_ENDPOINT_URL"] == "http://127.0.0.1:1"
    assert environment["AWS_ENDPOINT_URL_LAMBDA"] == "http://127.0.0.1:8787"
