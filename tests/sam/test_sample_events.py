"""Every sample event under events/, given to its function by ``sam local invoke``, with what must come back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sam_local import SamLocal
from stand_ins import CHECKOUT

from local.lambda_service.cloudformation import parse_yaml

EVENTS = CHECKOUT / "events"
MIGRATIONS = [path.stem for path in sorted((CHECKOUT / "layers/knowledge/db/migrations").glob("*.sql"))]
FUNCTIONS = {
    Path(resource["Properties"]["CodeUri"]).name: name
    for name, resource in parse_yaml((CHECKOUT / "template.yaml").read_text())["Resources"].items()
    if resource["Type"] == "AWS::Serverless::Function"
}


def body(answer: dict[str, Any]) -> Any:
    assert answer["statusCode"] == 200, answer
    assert answer["headers"]["x-correlation-id"] == "5f2b7c1e-sample"
    return json.loads(answer["body"])


def upserted(answer: dict[str, Any]) -> None:
    result = body(answer)
    assert result["created"] + result["updated"] + result["unchanged"] == 1


def found(answer: dict[str, Any]) -> None:
    documents = body(answer)["documents"]
    assert [document["id"] for document in documents][:1] == ["employee:alice.ng@example.com"]


def counted(answer: dict[str, Any]) -> None:
    documents = {source["source"]: source["documents"] for source in body(answer)["sources"]}
    assert documents["sample"] == 1


def synced(answer: dict[str, Any]) -> None:
    assert answer["status"] == "succeeded", answer
    assert answer["name"] == "provider:employee-dir"
    assert answer["created"] + answer["unchanged"] > 0


def shown(answer: dict[str, Any]) -> None:
    assert answer["statusCode"] in (200, 303), answer
    assert answer["headers"]["Content-Type"].startswith("text/html")


def cleaned(answer: dict[str, Any]) -> None:
    assert answer["deleted"] == 0


# In the order in which they build on one another; migrate comes first of all, as a fixture.
CHECKS: dict[str, Callable[[dict[str, Any]], None]] = {
    "upsert": upserted,
    "query": found,
    "admin": counted,
    "console": shown,
    "sync_trigger": synced,
    "ttl_cleanup": cleaned,
}


def test_every_sample_event_is_run_here() -> None:
    assert {path.stem for path in EVENTS.glob("*.json")} == {"migrate", *CHECKS}


def test_migrate_brings_an_empty_database_to_the_schema(migrated: dict[str, Any]) -> None:
    assert migrated == {"applied": MIGRATIONS, "schedules": None}


@pytest.mark.usefixtures("migrated", "providers")
@pytest.mark.parametrize("name", CHECKS)
def test_a_sample_event_is_answered_as_it_should_be(name: str, sam: SamLocal) -> None:
    CHECKS[name](sam.invoke(FUNCTIONS[name], EVENTS / f"{name}.json"))
