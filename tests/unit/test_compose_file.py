"""What infra/compose.yaml and infra/sam-local.json promise to whoever runs the functions with Docker."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from knowledge.sync.config import load
from local.lambda_service.cloudformation import parse_yaml

CHECKOUT = Path(__file__).resolve().parents[2]
COMPOSE = yaml.safe_load((CHECKOUT / "infra" / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
TOLD: dict[str, str] = json.loads((CHECKOUT / "infra" / "sam-local.json").read_text())["Parameters"]


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_pinned_watched_and_on_the_named_network(name: str) -> None:
    service = SERVICES[name]
    assert re.fullmatch(r"[\w./-]+:\d+\.\d+[\w.-]*", service["image"]), "a release, not what is latest today"
    assert service["healthcheck"]["test"]
    assert service["networks"] == ["knowledge"]
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


def test_the_network_has_a_name_that_sam_can_be_told() -> None:
    assert COMPOSE["networks"]["knowledge"] == {"name": "knowledge"}
    assert "--docker-network knowledge" in (CHECKOUT / "Makefile").read_text()


def test_only_the_database_and_localstack_start_unasked() -> None:
    assert {name for name, service in SERVICES.items() if "profiles" not in service} == {"db", "localstack"}


def test_passwords_and_keys_come_from_the_environment() -> None:
    values = {name: value for service in SERVICES.values() for name, value in service.get("environment", {}).items()}
    secrets = [name for name in values if re.search("PASSWORD|KEY", name)]
    assert sorted(secrets) == ["POSTGRES_PASSWORD", "SPOT_INTERNAL_API_KEY", "SPOT_SYNC_KEY"]
    assert all(re.fullmatch(r"\$\{\w+:-[\w-]+\}", values[name]) for name in secrets)


def test_the_functions_are_told_of_the_database_that_compose_makes() -> None:
    where = urlsplit(TOLD["DATABASE_URL"])
    environment = SERVICES["db"]["environment"]
    default = {name: re.sub(r"\$\{\w+:-(.*)\}", r"\1", value) for name, value in environment.items()}
    assert where.hostname == "db"
    assert (where.username, where.password, where.path[1:]) == (
        default["POSTGRES_USER"],
        default["POSTGRES_PASSWORD"],
        default["POSTGRES_DB"],
    )


def test_sam_overrides_only_what_the_template_declares() -> None:
    """Any other variable would silently not reach the functions."""
    template = parse_yaml((CHECKOUT / "template.yaml").read_text())
    assert TOLD.keys() <= template["Globals"]["Function"]["Environment"]["Variables"].keys()


def test_the_keys_of_providers_and_functions_are_the_same() -> None:
    environment = SERVICES["provider-wiki"]["environment"]
    assert environment["SPOT_INTERNAL_API_KEY"].endswith(f":-{TOLD['SPOT_INTERNAL_API_KEY']}}}")
    assert environment["SPOT_SYNC_KEY"].endswith(f":-{TOLD['SYNC_CALL_KEY']}}}")


def test_providers_are_where_the_operators_file_says() -> None:
    for provider in load(CHECKOUT / "infra" / "spot.yaml").providers.values():
        service = SERVICES[provider.host]
        assert service["command"][-2:] == ["--port", str(urlsplit(provider.url).port)]
