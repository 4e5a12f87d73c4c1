"""The template's functions as SAM runs them: containers, a database on their network, and the layer as it is shipped.

Everything here is real but the images, where no registry can be reached: see stand_ins.py. Where containers cannot run
at all, the tests are skipped and the run ends with a notice that says so.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import yaml
from docker_engine import DockerImpossible, Engine, running_engine
from sam_local import SamLocal
from stand_ins import CHECKOUT, install_compose, make_stand_ins

CACHE = CHECKOUT / ".cache" / "sam"
COMPOSE_FILE = CHECKOUT / "infra" / "compose.yaml"
SERVICES = yaml.safe_load(COMPOSE_FILE.read_text())["services"]
PROVIDERS = ("provider-employee-dir", "provider-wiki")

_not_run = pytest.StashKey[str]()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    reason = config.stash.get(_not_run, None)
    if reason is not None:
        terminalreporter.section("NOT RUN: the functions in containers, under SAM", bold=True, yellow=True)
        terminalreporter.line(reason)


@pytest.fixture(scope="session")
def engine(pytestconfig: pytest.Config) -> Generator[Engine]:
    """An engine that has every image that the tests use."""
    try:
        with running_engine(CACHE / "docker") as engine:
            if engine.is_ours:
                images = SERVICES["db"]["image"], SERVICES["provider-wiki"]["image"]
                make_stand_ins(engine, CACHE, database=images[0], python=images[1])
                install_compose(engine, CACHE)
            yield engine
    except DockerImpossible as reason:
        pytestconfig.stash[_not_run] = str(reason)
        pytest.skip(str(reason))


class Compose:
    """infra/compose.yaml under a project and on a network and ports of the tests' own."""

    def __init__(self, engine: Engine, override: Path) -> None:
        self._engine = engine
        self._files = ["--project-name", "spot-knowledge-test", "--file", str(COMPOSE_FILE), "--file", str(override)]
        self._profiles = ["--profile", "providers"]

    def __call__(self, *arguments: str, **variables: str) -> str:
        engine = Engine({**self._engine.environment, **variables}, self._engine.is_ours)
        return engine.docker("compose", *self._files, *self._profiles, *arguments)


NETWORK = "knowledge-test"
OVERRIDE = f"""
services:
  db: {{ ports: !reset [] }}
  localstack: {{ ports: !reset [] }}
networks:
  knowledge: {{ name: {NETWORK} }}
"""


@pytest.fixture(scope="session")
def compose(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Generator[Compose]:
    override = tmp_path_factory.mktemp("compose") / "override.yaml"
    override.write_text(OVERRIDE)
    compose = Compose(engine, override)
    compose("down", "--volumes", "--timeout", "5")  # what a run that was killed has left
    compose("up", "--detach", "--wait", "db")
    try:
        yield compose
    finally:
        compose("down", "--volumes", "--timeout", "5")


@pytest.fixture(scope="session")
def gateway(engine: Engine, compose: Compose) -> str:
    """This machine's address on the containers' network."""
    return engine.docker("network", "inspect", "--format", "{{(index .IPAM.Config 0).Gateway}}", NETWORK)


@pytest.fixture(scope="session")
def layer(engine: Engine) -> Path:
    """The layer's contents, built by ``sam build``; /opt of every function."""
    make = subprocess.run(
        ["make", "build"],
        cwd=CHECKOUT,
        env={name: value for name, value in os.environ.items() if not name.startswith("MAKE")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if make.returncode:
        pytest.fail(f"make build failed:\n{make.stdout}")
    return CHECKOUT / ".aws-sam" / "build" / "KnowledgeLayer"


@pytest.fixture(scope="session")
def sam(engine: Engine, compose: Compose, layer: Path, tmp_path_factory: pytest.TempPathFactory) -> SamLocal:
    return SamLocal(engine, NETWORK, tmp_path_factory.mktemp("sam"))


@pytest.fixture(scope="session")
def migrated(sam: SamLocal) -> dict[str, Any]:
    """What the migrate function said of an empty database. The first invocation also makes the image with the layer."""
    return sam.invoke("MigrateFunction", CHECKOUT / "events" / "migrate.json")


@pytest.fixture(scope="session")
def api(sam: SamLocal, migrated: dict[str, Any], gateway: str) -> Generator[str]:
    """The API where both this machine and the containers reach it."""
    with sam.start_api(gateway) as url:
        yield f"{url}/api/v1/knowledge"


@pytest.fixture(scope="session")
def providers(compose: Compose, api: str) -> None:
    """The example company's providers in containers, under the names of infra/spot.yaml."""
    subprocess.run(["make", "--silent", ".providers"], cwd=CHECKOUT, check=True)
    compose("up", "--detach", "--wait", *PROVIDERS, PROVIDERS_KNOWLEDGE_URL=api)
