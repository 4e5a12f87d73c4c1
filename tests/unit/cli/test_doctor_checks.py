"""What ``knowledge doctor`` says of everything that is not the database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from cli import checks
from knowledge.embedding.hashing import HashEmbedder
from knowledge.finding import Finding
from knowledge.sync.config import Provider
from knowledge.sync.schedules import Change
from spot_sdk.errors import Conflict, EmbedderUnavailable, Unauthorized, Unavailable
from spot_sdk.operators import OperatorClient
from spot_sdk.problems import to_problem
from spot_sdk.sync import Providers, ProviderStatus, SyncRunRecord

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 3, 2, 12, 30, tzinfo=UTC)
WIKI = Provider(url="https://wiki.example", sync_schedule="15 * * * *")


def only(findings: list[Finding]) -> Finding:
    (finding,) = findings
    return finding


def test_a_model_that_does_not_answer() -> None:
    class Silent(HashEmbedder):
        def embed(self, text: str) -> list[float]:
            raise EmbedderUnavailable("ollama at http://127.0.0.1:1 cannot be reached")

    assert checks.check_model(HashEmbedder()) == []
    finding = only(checks.check_model(Silent()))
    assert (finding.subject, "cannot be reached" in finding.message) == ("model", True)


@pytest.mark.parametrize(
    ("key", "says"), [(None, "no internal key"), ("", "no internal key"), ("secret", "6 characters")]
)
def test_a_key_that_is_missing_or_short(key: str | None, says: str) -> None:
    finding = only(checks.check_key(key))
    assert says in finding.message
    assert key is None or not key or key not in finding.message
    assert checks.check_key("x" * 43) == []


def client(answer: httpx.Response) -> OperatorClient:
    return OperatorClient("http://store.example/api/v1/knowledge", "k", transport=httpx.MockTransport(lambda _: answer))


async def test_an_api_that_refuses_the_key_or_does_not_serve() -> None:
    status = ProviderStatus(id="wiki", enabled=True, sync_timeout_ms=1_000)
    good = httpx.Response(200, content=Providers(providers=[status]).model_dump_json())
    async with client(good) as well:
        assert await checks.check_api(well) == ([], [status])
    async with client(httpx.Response(401, json=to_problem(Unauthorized("send a valid key")))) as refused:
        found, providers = await checks.check_api(refused)
    assert (only(found).subject, providers) == ("key", [])
    async with client(httpx.Response(404, json={"message": "Not Found"})) as another:
        found, _ = await checks.check_api(another)
    assert only(found).subject == "api"


def run_of(status: str, started_at: datetime, error: str = "") -> ProviderStatus:
    run = SyncRunRecord(
        id=7,
        name="provider:wiki",
        trigger="schedule",
        status=status,
        started_at=started_at,
        error=error,  # pyright: ignore
    )
    return ProviderStatus(id="wiki", enabled=True, sync_schedule="15 * * * *", sync_timeout_ms=1_000, runs=[run])


def test_a_provider_whose_last_sync_failed() -> None:
    finding = only(checks.check_runs(run_of("failed", NOW, "answered 503"), NOW))
    assert "run 7, is failed: answered 503" in finding.message
    assert finding.command.endswith("knowledge sync wiki")
    assert "partial" in only(checks.check_runs(run_of("partial", NOW, "held"), NOW)).message


def test_a_provider_that_fell_silent() -> None:
    assert checks.check_runs(run_of("succeeded", NOW - timedelta(minutes=14)), NOW) == []  # of 12:16; due at 13:15
    assert checks.check_runs(run_of("succeeded", NOW - timedelta(minutes=25)), NOW - timedelta(minutes=6)) == []
    finding = only(checks.check_runs(run_of("succeeded", NOW - timedelta(minutes=25)), NOW))
    assert "wiki was due at 2026-03-02 12:15 UTC" in finding.message


def test_a_provider_that_was_never_synced_and_one_that_is_off() -> None:
    never = ProviderStatus(id="wiki", enabled=True, sync_timeout_ms=1_000)
    assert "never been synced" in only(checks.check_runs(never, NOW)).message
    assert checks.check_runs(never.model_copy(update={"enabled": False}), NOW) == []
    by_hand = run_of("succeeded", NOW - timedelta(days=90)).model_copy(update={"sync_schedule": None})
    assert checks.check_runs(by_hand, NOW) == []


@pytest.fixture
def providers_answer(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What each provider's host answers: a status, or an error."""
    answers: dict[str, Any] = {}

    def answer(request: httpx.Request) -> httpx.Response:
        found = answers[request.url.host]
        if isinstance(found, Exception):
            raise found
        return httpx.Response(found)

    real = httpx.AsyncClient
    monkeypatch.setattr(
        checks.httpx, "AsyncClient", lambda **options: real(**options, transport=httpx.MockTransport(answer))
    )
    return answers


async def test_providers_that_are_not_well(providers_answer: dict[str, Any]) -> None:
    providers_answer |= {
        "a.example": 200,
        "b.example": 404,
        "c.example": 503,
        "d.example": httpx.ConnectError("refused"),
    }
    declared = {name: Provider(url=f"https://{name}.example") for name in "abcd"}
    found = await checks.check_providers(declared | {"e": Provider(url="https://e.example", enabled=False)})
    assert [finding.message.partition(" is not well: ")[2] for finding in found] == ["it answered 503", "refused"]


class Rules:
    """Schedules whose plan is given."""

    def __init__(self, plan: list[Change] | Exception) -> None:
        self._plan = plan

    def plan(self, providers: Any) -> list[Change]:
        if isinstance(self._plan, Exception):
            raise self._plan
        return self._plan


@pytest.mark.parametrize("action", ["create", "change", "enable", "disable", "remove"])
def test_rules_that_are_not_as_declared(action: Any) -> None:
    change = Change(
        action=action, rule="spot-sync-wiki-1", provider_id="wiki", schedule="cron(15 * * * ? *)", enabled=True
    )
    kept = change.model_copy(update={"action": "keep", "rule": "spot-sync-wiki-2"})
    finding = only(checks.check_schedules(Rules([change, kept]), {"wiki": WIKI}, Path("spot.yaml")))  # pyright: ignore
    assert f"{action} spot-sync-wiki-1" in finding.message
    assert finding.command == "knowledge schedules apply --file spot.yaml"


@pytest.mark.parametrize("error", [Unavailable("EventBridge refused ListRules"), Conflict("a rule is in the way")])
def test_rules_that_cannot_be_seen(error: Exception) -> None:
    finding = only(checks.check_schedules(Rules(error), {}, Path("spot.yaml")))  # pyright: ignore
    assert (finding.subject, finding.message) == ("schedule", str(error))


def test_a_disk_that_is_nearly_full(tmp_path: Path) -> None:
    assert "12 MiB are left" in only(checks.check_disk(tmp_path, lambda _: 12 * 1024**2)).message
    assert checks.check_disk(tmp_path, lambda _: 5 * 1024**3) == []
