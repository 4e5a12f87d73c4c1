"""What callers say stays between them and the database: a canary in every place of every request, and nobody sings.

Looked for in logs, metrics, tracebacks, the list of slow queries, and in answers where no echo is promised: that of a
document's id, of what is wrong with a tag or an expression, and of a correlation id.
"""

from __future__ import annotations

import gzip
import io
import json
import logging
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import httpx
import psycopg
import pytest

from knowledge import telemetry, wiring
from knowledge.embedding.hashing import HashEmbedder
from spot_sdk.client import KnowledgeClient
from tests.contract.conftest import KEY, URL
from tests.contract.lambda_transport import CHECKOUT, Context, LambdaTransport

pytestmark = pytest.mark.anyio

CANARY = "kanari7f3a"
ADDRESS = f"{CANARY}@example.com"
ROOT = URL.removesuffix("/api/v1/knowledge")

DOCUMENT = {
    "id": f"employee:{ADDRESS}",
    "content": f"{CANARY} may change accounts",
    "tags": [CANARY],
    "metadata": {"email": ADDRESS, "title": f"About {CANARY}", CANARY: CANARY, "parent_id": f"wiki:{CANARY}"},
    "source": "provider-wiki",
}


@pytest.fixture
def heard(
    store_client: Callable[..., KnowledgeClient],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Iterator[Callable[[], str]]:
    """All that was told since the last time; at the end nothing of the canary may be in it."""
    store_client()
    monkeypatch.setenv("SLOW_QUERY_MS", "0")
    monkeypatch.setenv("QUERY_CACHE_TTL_S", "0")
    monkeypatch.setenv("LOG_LEVEL", "DEBUG")
    wiring.reset()
    log = io.StringIO()
    monkeypatch.setattr(telemetry.logger.registered_handler, "stream", log)
    libraries = logging.StreamHandler(log)
    libraries.addFilter(lambda record: record.name != "httpx")  # the test's own client
    root, before = logging.getLogger(), logging.getLogger().level
    root.addHandler(libraries)
    monkeypatch.setattr(logging.getLogger("aws_lambda_powertools"), "propagate", True)  # as with POWERTOOLS_DEBUG
    for logger in (root, telemetry.logger):
        logger.setLevel("DEBUG")

    def all_of_it() -> str:
        printed = capfd.readouterr()
        return "\n".join([printed.out, printed.err, log.getvalue()])

    yield all_of_it
    root.removeHandler(libraries)
    root.setLevel(before)
    telemetry.logger.setLevel("INFO")
    told = all_of_it()
    assert '"message":"request"' in told or '"message":"broken"' in told  # else nobody listened
    assert CANARY not in told


async def ask(
    method: str, path: str, *, content: bytes | None = None, body: Any = None, **headers: str
) -> httpx.Response:
    async with httpx.AsyncClient(transport=LambdaTransport()) as http:
        sent = {"X-Internal-API-Key": KEY, "Content-Type": "application/json"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        raw = content if content is not None else (None if body is None else json.dumps(body).encode())
        return await http.request(method, f"{ROOT}{path}", content=raw, headers=sent)


async def test_what_goes_well(heard: Callable[[], str]) -> None:
    api = "/api/v1/knowledge"
    assert (await ask("POST", f"{api}/upsert", body=DOCUMENT)).status_code == 200
    assert (await ask("POST", f"{api}/bulk-upsert", body={"documents": [DOCUMENT]})).status_code == 200
    run = (await ask("POST", f"{api}/sync-runs", body={"source": "provider-wiki"})).json()["run"]
    assert (await ask("POST", f"{api}/bulk-upsert", body={"documents": [DOCUMENT], "run": run})).status_code == 200
    failed = {"fence": run["fence"], "reason": f"cannot read {ADDRESS}"}
    assert (await ask("POST", f"{api}/sync-runs/{run['id']}/fail", body=failed)).status_code == 200
    for strategy in ("similarity", "diverse", "hybrid", "people"):
        asked = {"text": f"is {ADDRESS} allowed to?", "strategy": strategy, "debug": True}
        found = await ask("POST", f"{api}/query", body=asked)
        assert [document["id"] for document in found.json()["documents"]] == [DOCUMENT["id"]]
    assert (await ask("GET", f"{api}/documents?prefix=employee:{CANARY}")).status_code == 200
    slow = await ask("GET", "/debug/slow-queries")
    assert len(slow.json()["queries"]) == 4
    assert CANARY not in slow.text
    replaced = {"parent_id": f"wiki:{CANARY}", "documents": [DOCUMENT]}
    assert (await ask("POST", f"{api}/replace-children", body=replaced)).status_code == 200
    assert (await ask("POST", f"{api}/expire", body={"ids": [DOCUMENT["id"]]})).status_code == 200
    assert (await ask("DELETE", f"{api}/employee:{CANARY}%40example.com")).status_code == 200
    for name in ("ttl_cleanup", "migrate"):
        import_module(f"functions.{name}.app").handler({"detail": CANARY}, Context(name))
    told = heard()
    assert '"message":"query"' in told
    assert '"message":"upsert"' in told
    assert '"created":1,"updated":0,"unchanged":0,"failed":0' in told


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("query", f'{{"text": "{CANARY}"'.encode()),
        ("query", f'{{"text": "{CANARY}", "top_k": NaN}}'.encode()),
        ("query", f'{{"text": "{CANARY}", "top_k": 1e999}}'.encode()),
        ("query", json.dumps({"text": CANARY, "top_k": CANARY}).encode()),
        ("query", json.dumps({"text": CANARY, "strategy": CANARY}).encode()),
        ("query", json.dumps({"text": CANARY * 20_000}).encode()),
        ("query", json.dumps({"text": [CANARY]}).encode()),
        ("query", CANARY.encode()),
        ("query", CANARY.encode("utf-16")),
        ("upsert", json.dumps(DOCUMENT | {"id": "a", "content": [CANARY]}).encode()),
        ("upsert", json.dumps(DOCUMENT | {"id": 7, "metadata": CANARY}).encode()),
        ("upsert", json.dumps(DOCUMENT | {"id": "a", "expires_at": CANARY}).encode()),
        ("upsert", json.dumps(DOCUMENT | {"id": "a", "content": f"{CANARY}\0"}).encode()),
        ("bulk-upsert", json.dumps({"documents": CANARY}).encode()),
        ("sync-runs", json.dumps({"source": {CANARY: CANARY}}).encode()),
    ],
)
async def test_a_body_that_cannot_be_read(heard: Callable[[], str], path: str, content: bytes) -> None:
    answer = await ask("POST", f"/api/v1/knowledge/{path}", content=content)
    assert 400 <= answer.status_code < 500
    assert CANARY not in answer.text + str(answer.headers)


@pytest.mark.parametrize(
    "headers",
    [
        {"X_Internal_API_Key": CANARY},
        {"X_Internal_API_Key": f"{KEY}{CANARY}"},
        {"Content_Type": f"text/{CANARY}"},
        {"Content_Encoding": CANARY},
        {"X_Correlation_Id": ADDRESS},
        {"User_Agent": CANARY, "Cookie": CANARY, "Authorization": CANARY},
    ],
)
async def test_a_header(heard: Callable[[], str], headers: dict[str, str]) -> None:
    answer = await ask("POST", "/api/v1/knowledge/query", body={"text": "a question"}, **headers)
    assert CANARY not in answer.text + str(answer.headers)


async def test_a_packed_body(heard: Callable[[], str]) -> None:
    packed = gzip.compress(CANARY.encode())
    for content in (packed, packed[:-9]):
        answer = await ask("POST", "/api/v1/knowledge/query", content=content, Content_Encoding="gzip")
        assert answer.status_code == 400
        assert CANARY not in answer.text


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "query", {"text": CANARY, "tags": f"{CANARY}++"}),
        ("POST", "query", {"text": CANARY, "tags": f"{CANARY} {CANARY}"}),
        ("POST", "upsert", DOCUMENT | {"tags": [f"{CANARY}&"]}),
        ("POST", "bulk-upsert", {"documents": [DOCUMENT, DOCUMENT]}),
        ("POST", "delete", {"ids": [f"{CANARY}\0"]}),
        ("POST", "sync-runs/1/fail", {"fence": 1, "reason": CANARY}),
        ("GET", f"document?id={CANARY}", None),
        ("PUT", CANARY, None),
        ("DELETE", f"sync-runs/{CANARY}", None),
        ("POST", f"sync-runs/{CANARY}/fail", {}),
    ],
)
async def test_what_is_refused_may_be_echoed_and_not_told(
    heard: Callable[[], str], method: str, path: str, body: Any
) -> None:
    await ask(method, f"/api/v1/knowledge/{path}", body=body)
    await ask("GET", "/health")  # so that something is told


@pytest.mark.parametrize(
    "statement",
    [
        f"ALTER TABLE knowledge_documents ADD CHECK (content NOT LIKE '%{CANARY}%')",  # Failing row contains ...
        f"CREATE UNIQUE INDEX ON knowledge_documents ((left(id, 0) || '{CANARY}'))",  # Key ... already exists
        "ALTER TABLE knowledge_documents RENAME TO elsewhere",
        "ALTER TABLE knowledge_documents DROP COLUMN metadata CASCADE",
    ],
)
async def test_a_database_that_breaks(
    heard: Callable[[], str], database_url: str, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPOT_CONFIG_PATH", str(CHECKOUT / "infra" / "spot.yaml"))
    other = {"id": "another", "content": "words"}
    assert (await ask("POST", "/api/v1/knowledge/upsert", body=other)).status_code == 200
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(statement.encode())
    answer = await ask("POST", "/api/v1/knowledge/upsert", body=DOCUMENT)
    assert answer.status_code >= 500
    assert CANARY not in answer.text
    answer = await ask("POST", "/api/v1/knowledge/query", body={"text": CANARY, "strategy": "hybrid"})
    assert CANARY not in answer.text
    for name in ("ttl_cleanup", "sync_trigger"):
        event = {"trigger": "schedule", "provider_id": "wiki", "time": "2026-01-01T00:00:00Z"}
        error = how_it_ends(name, event | {"detail": CANARY})
        assert error is None or CANARY not in str(error)


async def test_a_model_that_breaks(heard: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(self: HashEmbedder, texts: Any) -> Any:
        raise ZeroDivisionError(f"cannot embed {texts}")

    monkeypatch.setattr(HashEmbedder, "embed", breaks)
    monkeypatch.setattr(HashEmbedder, "embed_batch", breaks)
    for path, body in (("query", {"text": CANARY}), ("upsert", DOCUMENT)):
        answer = await ask("POST", f"/api/v1/knowledge/{path}", body=body)
        assert answer.status_code == 500
        assert CANARY not in answer.text
    assert "ZeroDivisionError" in heard()
    await ask("GET", "/health")


@pytest.mark.parametrize("name", ["sync_trigger", "migrate", "ttl_cleanup", "query", "upsert", "admin"])
async def test_an_event_that_is_none(heard: Callable[[], str], name: str) -> None:
    for event in ({"trigger": CANARY, CANARY: CANARY}, {"RequestType": CANARY, "body": CANARY}):
        error = how_it_ends(name, event)  # of which Lambda logs the type, the message and the places
        assert error is None or CANARY not in str(error)
    await ask("GET", "/health")


def how_it_ends(name: str, event: dict[str, Any]) -> Exception | None:
    try:
        import_module(f"functions.{name}.app").handler(event, Context(name))
    except Exception as error:
        return error
    return None
