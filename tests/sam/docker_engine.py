"""A Docker engine to run containers with: the one that runs already, else one of our own, stopped by its pid."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

START_PATIENCE_S = 60
STOP_PATIENCE_S = 60
# With any of these SAM would ask the real AWS who it is, and wait.
_CREDENTIALS = ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


class DockerImpossible(Exception):
    """Containers cannot run here; the message says why and what would help."""


@dataclass(frozen=True)
class Engine:
    """An engine that answers; ``is_ours`` means that its images are nobody else's, so that stand-ins may be there."""

    environment: Mapping[str, str]
    is_ours: bool

    def docker(self, *arguments: str, timeout_s: float = 300) -> str:
        """The output of a docker command. Raises RuntimeError with what it complained of."""
        run = subprocess.run(
            ["docker", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )
        if run.returncode:
            raise RuntimeError(f"docker {' '.join(arguments)}: {run.stderr.strip() or run.stdout.strip()}")
        return run.stdout.strip()

    def label_of(self, image: str, name: str) -> str | None:
        """An image's label; None where the image or the label is not there."""
        try:
            return self.docker("image", "inspect", "--format", f'{{{{index .Config.Labels "{name}"}}}}', image) or None
        except RuntimeError:
            return None


@contextmanager
def running_engine(storage: Path) -> Generator[Engine]:
    """The engine that the environment leads to, or one of our own that keeps its images in ``storage``.

    Raises DockerImpossible where neither can be had.
    """
    if shutil.which("docker") is None:
        raise DockerImpossible("there is no docker command; on Debian: apt install docker.io")
    environment = {name: value for name, value in os.environ.items() if name not in _CREDENTIALS}
    environment["SAM_CLI_TELEMETRY"] = "0"
    environment["DOCKER_BUILDKIT"] = "0"  # of Debian's engine, which has no buildx
    if _answers(environment):
        yield Engine(environment, is_ours=False)
        return
    if os.geteuid() != 0:
        raise DockerImpossible("no Docker engine runs, and only root can start one")
    if shutil.which("dockerd") is None:
        raise DockerImpossible(
            "no Docker engine runs, and there is no dockerd to start; on Debian: apt install docker.io"
        )
    # Sockets have short names, so they do not go into a checkout that may lie deep.
    with tempfile.TemporaryDirectory(prefix="engine-") as short:
        environment["DOCKER_HOST"] = f"unix://{short}/docker.sock"
        environment["DOCKER_CONFIG"] = f"{short}/config"
        with _started(storage, Path(short), environment):
            yield Engine(environment, is_ours=True)


@contextmanager
def _started(storage: Path, short: Path, environment: Mapping[str, str]) -> Generator[None]:
    storage.mkdir(parents=True, exist_ok=True)
    log_path = storage.parent / "dockerd.log"
    command = ["dockerd", "--host", environment["DOCKER_HOST"], "--data-root", str(storage)]
    command += ["--exec-root", str(short / "exec"), "--pidfile", str(short / "pid")]
    with log_path.open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as daemon:
        try:
            until = time.monotonic() + START_PATIENCE_S
            while not _answers(environment):
                if daemon.poll() is not None or time.monotonic() > until:
                    raise DockerImpossible(f"dockerd does not start here: {_last_line(log_path)}")
                time.sleep(0.2)
            yield
        finally:
            daemon.terminate()
            try:
                daemon.wait(STOP_PATIENCE_S)
            except subprocess.TimeoutExpired:
                daemon.kill()


def _answers(environment: Mapping[str, str]) -> bool:
    command = ["docker", "version", "--format", "{{.Server.Version}}"]
    return subprocess.run(command, env=environment, capture_output=True, check=False).returncode == 0


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    return next((line for line in reversed(lines) if line.strip()), "it says nothing")
