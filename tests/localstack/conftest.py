"""LocalStack in host mode: no Docker, a process of our own, in an environment of its own (.venv-localstack)."""

from __future__ import annotations

import socket
from collections.abc import Generator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from local.processes import Child
from local.settings import child_environment

CHECKOUT = Path(__file__).resolve().parents[2]
PYTHON = CHECKOUT / ".venv-localstack" / "bin" / "python"
START_PATIENCE_S = 120
REGION = "us-east-1"


@pytest.fixture(scope="session")
def localstack(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """The address under which LocalStack answers for every service."""
    folder = tmp_path_factory.mktemp("localstack")
    port = _free_port()
    child = Child.start(
        "LocalStack",
        [PYTHON, "-m", "localstack.runtime.main"],
        log_path=folder / "localstack.log",
        ready_text="Ready.",
        environment=child_environment(
            GATEWAY_LISTEN=f"127.0.0.1:{port}",
            LOCALSTACK_HOST=f"127.0.0.1:{port}",
            DNS_ADDRESS="0",
            DISABLE_EVENTS="1",
            SKIP_SSL_CERT_DOWNLOAD="1",
            FILESYSTEM_ROOT=str(folder / "root"),
            CONFIG_DIR=str(folder / "config"),
            TMPDIR=str(folder),
        ),
    )
    try:
        child.wait_until_ready(START_PATIENCE_S)
        yield f"http://127.0.0.1:{port}"
    finally:
        child.stop()


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, REGION)
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)


class Aws:
    """Clients of the services that LocalStack plays."""

    def __init__(self, endpoint_url: str) -> None:
        self.endpoint_url = endpoint_url

    def __call__(self, service: str) -> Any:
        return boto3.client(service, endpoint_url=self.endpoint_url, config=Config(proxies={}, read_timeout=60))


@pytest.fixture
def aws(localstack: str, _credentials: None) -> Aws:
    return Aws(localstack)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
