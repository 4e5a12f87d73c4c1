"""What each request and invocation adds to the metrics, from the handlers down, as CloudWatch would count it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from typing import Any

import httpx
import psycopg
import pytest

from knowledge import telemetry, wiring
from knowledge.documents import sync_run
from knowledge.documents.reembed import Reembedding
from knowledge.embedding.hashing import MODEL, HashEmbedder
from spot_sdk.client import KnowledgeClient
from spot_sdk.documents import KnowledgeDocument
from spot_sdk.errors import Unauthorized
from tests.contract.conftest import KEY
from tests.contract.lambda_transport import Context, LambdaTransport

pytestmark = pytest.mark.anyio

Store = Callable[..., KnowledgeClient]
Told = Callable[[], Counter[str]]
"""The sums since the last time, by ``name{dimension="value"}``; of a duration how many there were."""


@pytest.fixture
def told(store_client: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Told:
    store_client()
    monkeypatch.setattr(telemetry, "_known_names", set[str]())
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "knowledge-test")
    wiring.reset()

    def told() -> Counter[str]:
        sums: Counter[str] = Counter()
        for line in capsys.readouterr().out.splitlines():
            if line.startswith('{"_aws": '):
                content = json.loads(line)
                (part,) = content["_aws"]["CloudWatchMetrics"]
                labels = ",".join(f'{name}="{content[name]}"' for name in part["Dimensions"][0])
                for metric in part["Metrics"]:
                    values = content[metric["Name"]]
                    key = f"{metric['Name']}{{{labels}}}" if labels else metric["Name"]
                    sums[key] += len(values) if "duration" in metric["Name"] else sum(values)
        return sums

    return told


def documents(*numbers: int, source: str = "wiki") -> list[KnowledgeDocument]:
    return [
        KnowledgeDocument(id=f"{source}:{number}", content=f"page {number} of {source}", tags=["page"], source=source)
        for number in numbers
    ]


async def test_a_query(told: Told, store_client: Store) -> None:
    async with store_client() as client:
        await client.bulk_upsert(documents(1))
        told()
        await client.fetch(text="page", tags="page")
        asked = told()
        assert {key: asked[key] for key in asked if "embed" not in key} == {
            'knowledge_query_duration_seconds{cache_hit="false",has_tag_filter="true"}': 1,
            'knowledge_query_plans_total{plan="exact"}': 1,
            'knowledge_requests_total{function="knowledge-test",status="2xx"}': 1,
        }
        assert asked["knowledge_embed_cache_misses_total"] == 1
        assert asked['knowledge_embed_duration_seconds{backend="hash"}'] == 1
        await client.fetch(text="page", tags="page")
        again = told()
        assert again['knowledge_query_duration_seconds{cache_hit="true",has_tag_filter="true"}'] == 1
        assert not [key for key in again if "embed" in key or "plans" in key]
        await client.fetch(text="page")
        other = told()
        assert other['knowledge_query_duration_seconds{cache_hit="false",has_tag_filter="false"}'] == 1
        assert (other["knowledge_embed_cache_hits_total"], other["knowledge_embed_cache_misses_total"]) == (1, 0)


async def test_a_slow_query(told: Told, store_client: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async with store_client() as client:
        await client.fetch(text="page")
        assert told()["knowledge_slow_queries_total"] == 0
        monkeypatch.setenv("SLOW_QUERY_MS", "0")
        wiring.reset()
        await client.fetch(text="page")
        assert told()["knowledge_slow_queries_total"] == 1


async def test_requests_by_the_kind_of_answer(told: Told, store_client: Store, database_url: str) -> None:
    async with store_client(api_key="another") as stranger, httpx.AsyncClient(transport=LambdaTransport()) as http:
        with pytest.raises(Unauthorized):
            await stranger.fetch(text="page")
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute("ALTER TABLE knowledge_documents RENAME TO gone")
        answer = await http.get("http://store.test/api/v1/knowledge/stats", headers={"X-Internal-API-Key": KEY})
        assert answer.status_code == 503
    counted = told()
    assert counted['knowledge_requests_total{function="knowledge-test",status="4xx"}'] == 1
    assert counted['knowledge_requests_total{function="knowledge-test",status="5xx"}'] == 1


async def test_writes_count_what_they_changed_by_source(told: Told, store_client: Store) -> None:
    async with store_client() as client:
        await client.bulk_upsert([*documents(1, 2), *documents(3, source="alice@example.com")])
        written = told()
        assert written['knowledge_upserts_total{source="wiki"}'] == 2
        assert written['knowledge_upserts_total{source="other"}'] == 1
        assert written['knowledge_embed_duration_seconds{backend="hash"}'] == 1
        await client.bulk_upsert(documents(1, 2))  # nothing new
        assert not [key for key in told() if "upserts" in key or "embed" in key]


async def test_syncs_their_removals_and_the_guard(told: Told, store_client: Store) -> None:
    async with store_client() as client:
        async with client.sync_run(source="wiki") as run:
            await run.upsert(documents(*range(20)))
        assert told()['knowledge_sync_runs_total{name="source:wiki",status="succeeded"}'] == 1
        async with client.sync_run(source="wiki") as run:
            await run.upsert(documents(*range(18)))
        assert told()['knowledge_sync_removed_total{name="source:wiki"}'] == 2
        async with client.sync_run(source="wiki") as run:
            await run.upsert(documents(1))
        guarded = told()
        assert guarded['knowledge_sync_runs_total{name="source:wiki",status="partial"}'] == 1
        assert guarded['knowledge_sync_guard_stops_total{name="source:wiki"}'] == 1
        with pytest.raises(OSError, match="gone"):
            async with client.sync_run(source="wiki"):
                raise OSError("gone")
        assert told()['knowledge_sync_runs_total{name="source:wiki",status="failed"}'] == 1


async def test_a_run_that_is_completed_twice_counts_once(told: Told, store_client: Store) -> None:
    async with store_client(), httpx.AsyncClient(transport=LambdaTransport()) as http:
        url, headers = "http://store.test/api/v1/knowledge/sync-runs", {"X-Internal-API-Key": KEY}
        run = (await http.post(url, json={"source": "wiki"}, headers=headers)).json()["run"]
        for _ in range(2):
            done = await http.post(f"{url}/{run['id']}/complete", json={"fence": run["fence"]}, headers=headers)
            assert done.status_code == 200
    assert told()['knowledge_sync_runs_total{name="source:wiki",status="succeeded"}'] == 1


async def test_a_lease_that_is_taken_over(told: Told, store_client: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async with store_client(), httpx.AsyncClient(transport=LambdaTransport()) as http:
        url, headers = "http://store.test/api/v1/knowledge/sync-runs", {"X-Internal-API-Key": KEY}
        monkeypatch.setattr(sync_run, "LEASE", timedelta(milliseconds=-1))
        await http.post(url, json={"source": "wiki"}, headers=headers)
        assert told()["knowledge_lease_takeovers_total"] == 0
        await http.post(url, json={"source": "wiki"}, headers=headers)
        assert told()["knowledge_lease_takeovers_total"] == 1


async def test_the_hourly_clean_up_counts_what_is_there(told: Told, store_client: Store, database_url: str) -> None:
    async with store_client() as client:
        await client.bulk_upsert(
            [*documents(1, 2, 3), *documents(1, source="directory"), *documents(2, source="a@b.c")]
        )
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("UPDATE knowledge_documents SET updated_at = now() - interval '1 hour'")
        connection.execute("UPDATE knowledge_documents SET expires_at = now() - interval '1 s' WHERE id = 'wiki:3'")
        connection.execute(
            "INSERT INTO knowledge_sync_runs (name, trigger, fence, status, finished_at) "
            "VALUES ('source:directory', 'client', 1, 'succeeded', now() - interval '60 s')"
        )
        told()
        import_module("functions.ttl_cleanup.app").handler({}, Context("ttl_cleanup"))
    counted = told()
    assert counted["knowledge_cleanup_deleted_total"] == 1
    assert counted["knowledge_docs_total"] == 4
    documents_of = {key: value for key, value in counted.items() if key.startswith("knowledge_source_docs")}
    assert documents_of == {
        'knowledge_source_docs{source="wiki"}': 2,
        'knowledge_source_docs{source="directory"}': 1,
        'knowledge_source_docs{source="other"}': 1,
    }
    assert counted['knowledge_source_age_seconds{source="wiki"}'] == pytest.approx(3600, abs=30)
    assert counted['knowledge_source_age_seconds{source="directory"}'] == pytest.approx(60, abs=30)
    assert counted["knowledge_database_connections"] >= 2
    assert "knowledge_reembed_progress_ratio" not in counted


async def test_a_change_of_model_shows_how_far_it_is(told: Told, store_client: Store, database_url: str) -> None:
    class Next(HashEmbedder):
        @property
        def model(self) -> Any:
            return MODEL.model_copy(update={"version": "2"})

    async with store_client() as client:
        await client.bulk_upsert(documents(1, 2))
        reembedding = Reembedding(wiring.database(), Next())
        reembedding.begin()
        assert (await client.stats()).documents == 2
        assert told()["knowledge_reembed_progress_ratio"] == 0
        reembedding.fill(lambda done, documents: None)
        await client.stats()
        assert told()["knowledge_reembed_progress_ratio"] == 1
