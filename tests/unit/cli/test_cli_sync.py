"""Syncs and their runs, as an operator sees them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import httpx
import pytest

import cli.store
from spot_sdk.errors import NotFound
from spot_sdk.operators import OperatorClient
from spot_sdk.problems import to_problem
from spot_sdk.sync import ProviderStatus, SyncAccepted, SyncRunRecord, SyncRuns

Knowledge = Callable[..., Any]

BEGAN = datetime(2026, 2, 16, 12, tzinfo=UTC)
RUN = SyncRunRecord(
    id=1234,
    name="source:handbook-of-munich",
    trigger="schedule",
    status="succeeded",
    started_at=BEGAN,
    finished_at=BEGAN + timedelta(seconds=1234.5),
    unchanged=12_345,
    removed=1,
)


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Callable[[httpx.Response], None]:
    """Sets what the store answers to operators; its address is given by the environment."""

    def answer(response: httpx.Response) -> None:
        transport = httpx.MockTransport(lambda _: response)
        monkeypatch.setattr(cli.store, "OperatorClient", partial(OperatorClient, transport=transport))

    monkeypatch.setenv("SPOT_KNOWLEDGE_URL", "http://store.example/api/v1/knowledge")
    monkeypatch.setenv("COLUMNS", "80")
    return answer


def as_json(body: Any) -> httpx.Response:
    return httpx.Response(200, content=body.model_dump_json())


@pytest.mark.parametrize("name", ["provider-wiki", "handbook-of-munich"])
def test_runs_are_read_in_a_narrow_window(knowledge: Knowledge, answer: Callable[..., None], name: str) -> None:
    answer(as_json(SyncRuns(runs=[RUN.model_copy(update={"name": f"source:{name}"})])))

    words = knowledge("runs", "list").out.split()

    assert name in words
    assert {"1234", "source:", "schedule", "2026-02-16", "12:00", "1,234.5", "succeeded", "12,345", "unchanged"} <= set(
        words
    )


def test_a_short_name_stays_on_its_line(knowledge: Knowledge, answer: Callable[..., None]) -> None:
    answer(as_json(SyncRuns(runs=[RUN.model_copy(update={"name": "source:wiki"})])))

    assert "source:wiki" in knowledge("runs", "list").out.split()


def test_a_provider_that_is_not_there(knowledge: Knowledge, answer: Callable[..., None]) -> None:
    answer(httpx.Response(404, json=to_problem(NotFound("there is no provider 'nope'"))))

    ended = knowledge("sync", "nope")

    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "knowledge: there is no provider 'nope'; `knowledge providers` lists those that there are\n"


@pytest.mark.parametrize(("removed", "told"), [(1, "1 document removed\n"), (2, "2 documents removed\n")])
def test_a_confirmation(knowledge: Knowledge, answer: Callable[..., None], removed: int, told: str) -> None:
    answer(as_json(RUN.model_copy(update={"removed": removed})))

    assert knowledge("runs", "confirm", "7").out == told


def test_a_wait_outlasts_runs_that_were_skipped_meanwhile(
    knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A provider lists its last ten runs, and a sync may be slower than ten firings of its schedule."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            return as_json(SyncAccepted(run_id=1234))
        if request.url.path.endswith("/sync-runs"):
            return as_json(SyncRuns(runs=[RUN]))
        skipped = [RUN.model_copy(update={"id": 1300 + n, "status": "skipped"}) for n in range(10)]
        return as_json(ProviderStatus(id="wiki", enabled=True, sync_timeout_ms=1000, runs=skipped))

    transport = httpx.MockTransport(answer)
    monkeypatch.setattr(cli.store, "OperatorClient", partial(OperatorClient, transport=transport))
    monkeypatch.setenv("SPOT_KNOWLEDGE_URL", "http://store.example/api/v1/knowledge")

    ended = knowledge("sync", "wiki", "--wait")

    assert ended.code == 0
    assert "12,345 unchanged" in ended.out
