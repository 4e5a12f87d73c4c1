"""SAM's own ways to run functions in containers: ``sam local invoke``, ``start-api`` and ``start-lambda``."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from docker_engine import Engine
from stand_ins import CHECKOUT, SAM_MACHINE

START_PATIENCE_S = 60
STOP_PATIENCE_S = 60
SAM = CHECKOUT / ".venv-sam" / "bin" / "sam"
SAM_LOCAL_JSON = CHECKOUT / "infra" / "sam-local.json"


class SamLocal:
    """Runs the built functions on the containers' network; ``log`` is the folder for what services say."""

    def __init__(self, engine: Engine, network: str, log: Path) -> None:
        self._engine = engine
        self._common = [
            *("--docker-network", network, "--env-vars", str(SAM_LOCAL_JSON), "--skip-pull-image"),
            *("--parameter-overrides", f"Architecture={SAM_MACHINE}", "--region", "eu-central-1"),
        ]
        self._log = log

    def invoke(self, function: str, event: Path) -> Any:
        """What a function returns for the event in a file. Raises RuntimeError with the log when it returns nothing."""
        command = [str(SAM), "local", "invoke", function, "--event", str(event), *self._common]
        run = subprocess.run(
            command,
            cwd=CHECKOUT,
            env=self._engine.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        lines = run.stdout.strip().splitlines()
        if run.returncode or not lines:
            raise RuntimeError(f"sam local invoke {function} failed:\n{run.stderr}\n{run.stdout}")
        return json.loads(lines[-1])

    @contextmanager
    def start_api(self, host: str) -> Generator[str]:
        """The base address of the HTTP API, served on ``host``."""
        with self._service("start-api", host, "--warm-containers", "LAZY") as port:
            yield f"http://{host}:{port}"

    @contextmanager
    def start_lambda(self) -> Generator[str]:
        """The address of the Lambda API, as ``endpoint_url`` of a boto3 client."""
        with self._service("start-lambda", "127.0.0.1") as port:
            yield f"http://127.0.0.1:{port}"

    @contextmanager
    def _service(self, name: str, host: str, *options: str) -> Generator[int]:
        port = _free_port(host)
        command = [str(SAM), "local", name, "--host", host, "--port", str(port), *options, *self._common]
        log_path = self._log / f"{name}.log"
        with (
            log_path.open("wb") as log,
            subprocess.Popen(command, cwd=CHECKOUT, env=self._engine.environment, stdout=log, stderr=log) as process,
        ):
            try:
                until = time.monotonic() + START_PATIENCE_S
                while not _listens(host, port):
                    if process.poll() is not None or time.monotonic() > until:
                        raise RuntimeError(f"sam local {name} does not start:\n{log_path.read_text()}")
                    time.sleep(0.2)
                yield port
            finally:
                process.terminate()  # on which it removes its containers
                try:
                    process.wait(STOP_PATIENCE_S)
                except subprocess.TimeoutExpired:
                    process.kill()


def _free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def _listens(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((host, port)) == 0
