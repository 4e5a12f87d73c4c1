"""Syncs of providers: against a real HTTP server that misbehaves in every way, on a real PostgreSQL."""

from __future__ import annotations

import gzip
import json
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from knowledge.db.connection import Database
from knowledge.sync import trigger
from knowledge.sync.config import SpotConfig
from knowledge.sync.leases import DuplicateSlot
from knowledge.sync.provider import ProviderAnswer, ProviderFailed, call_provider
from knowledge.sync.trigger import ProviderSync
from spot_sdk.errors import NotFound, StaleRun, SyncRunning

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)

Answer = Callable[[BaseHTTPRequestHandler], None]


class Endpoint:
    """A provider on loopback whose next answers are set by the test."""

    def __init__(self) -> None:
        self.answer: Answer = say({"created": 1})
        self.requests: list[dict[str, object]] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                endpoint.requests.append({"path": self.path, "headers": dict(self.headers), "body": json.loads(body)})
                endpoint.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    @property
    def port(self) -> int:
        return self.server.server_address[1]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def raw(status: int, body: bytes, headers: dict[str, str] | None = None) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def say(body: object, status: int = 200) -> Answer:
    return raw(status, json.dumps(body).encode())


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    yield endpoint
    endpoint.close()


def config(port: int, **provider: object) -> SpotConfig:
    return SpotConfig.model_validate(
        {
            "plugins": {
                "context_providers": {
                    "wiki": {"url": f"http://127.0.0.1:{port}", **provider},
                    "off": {"url": f"http://127.0.0.1:{port}", "enabled": False},
                }
            },
            "sync": {"allow_http_hosts": ["127.0.0.1"]},
        }
    )


@pytest.fixture
def sync(database: Database, endpoint: Endpoint) -> ProviderSync:
    settings = config(endpoint.port, sync_timeout_ms=1_000)
    return ProviderSync(
        database,
        lambda: settings,
        lambda provider, run_id, timeout_s, stop: call_provider(
            provider, run_id=run_id, key="the-key", timeout_s=timeout_s, stop=stop
        ),
    )


def test_a_good_sync_is_recorded_with_its_counts(sync: ProviderSync, endpoint: Endpoint) -> None:
    endpoint.answer = say({"created": 2, "updated": 3, "unchanged": 4, "removed": 5})
    record = sync.run_scheduled("wiki", NOON, 60)
    assert record is not None
    assert (record.status, record.created, record.updated, record.unchanged, record.removed) == (
        "succeeded", 2, 3, 4, 5,
    )  # fmt: skip
    assert (record.trigger, record.slot) == ("schedule", NOON)
    assert record.finished_at is not None
    request = endpoint.requests[0]
    assert request["path"] == "/internal/sync"
    assert request["headers"]["X-Internal-API-Key"] == "the-key"  # type: ignore[index]
    assert request["body"] == {"run_id": str(record.id), "deadline_ms": 1_000}


def test_the_simple_provider_of_the_design_is_understood(sync: ProviderSync, endpoint: Endpoint) -> None:
    endpoint.answer = say({"upserted": 42})
    record = sync.run_scheduled("wiki", NOON, 60)
    assert record is not None
    assert (record.status, record.updated) == ("succeeded", 42)


def test_removals_that_the_guard_held_make_a_partial_run(sync: ProviderSync, endpoint: Endpoint) -> None:
    endpoint.answer = say({"held": 9, "message": "9 of 10 would go; `knowledge runs confirm 3`"})
    record = sync.run_scheduled("wiki", NOON, 60)
    assert record is not None
    assert (record.status, record.held) == ("partial", 9)
    assert "confirm 3" in record.error


def drip(handler: BaseHTTPRequestHandler) -> None:
    """An answer that never ends: a byte of a header now and then."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    for _ in range(100):
        handler.wfile.write(b"z")
        handler.wfile.flush()
        time.sleep(0.05)


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    handler.connection.close()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (say({"error": "LDAP: size limit exceeded after 50 entries"}, 502), "502: LDAP: size limit exceeded"),
        (say({}, 500), "answered 500"),
        (say({"detail": "busy"}, 409), "409: busy"),
        (raw(302, b"", {"Location": "http://127.0.0.1:1/"}), "redirect"),
        (raw(200, b"<html>hello"), "not a JSON object"),
        (raw(200, b"[" * 50_000), "not a JSON object"),
        (raw(200, b"[1]"), "not a JSON object"),
        (say({"error": "a\0b"}, 500), "500: ab"),
        (say({"created": -1}), "created"),
        (say({"created": "many"}), "created"),
        (say({"created": 10**12}), "created"),
        (raw(200, b'{"message": "' + b"x" * 100_000 + b'"}'), "64 KiB"),
        (say({"created": True}), "created"),
        (say({"updated": 2_147_483_647, "upserted": 2_147_483_647}), "updated"),
        (say({"error": "ldap down"}), "says that it failed: ldap down"),
        (say({"status": "failed"}), "says that it failed"),
        (raw(200, gzip.compress(b'{"created": 1}'), {"Content-Encoding": "gzip"}), "Content-Encoding 'gzip'"),
        (drip, "within 1 s (sync_timeout_ms)"),
        (hang_up, "cannot reach"),
    ],
)  # fmt: skip
def test_whatever_goes_wrong_is_a_failed_run_with_a_reason(
    sync: ProviderSync, endpoint: Endpoint, answer: Answer, reason: str
) -> None:
    endpoint.answer = answer
    failed = sync.run_scheduled("wiki", NOON, 60)
    assert failed is not None
    assert failed.status == "failed"
    assert reason in failed.error
    endpoint.answer = say({"created": 1})
    next_run = sync.run_scheduled("wiki", NOON + timedelta(minutes=1), 60)
    assert next_run is not None
    assert next_run.status == "succeeded"


def test_the_functions_own_time_is_named_when_it_was_the_limit(sync: ProviderSync, endpoint: Endpoint) -> None:
    endpoint.answer = drip
    record = sync.run_scheduled("wiki", NOON, 0.2)
    assert record is not None
    assert "the function's own time was up" in record.error


def test_a_packed_answer_is_not_even_unpacked(endpoint: Endpoint) -> None:
    packed = b" " * 50_000_000
    for _ in range(3):
        packed = gzip.compress(packed)
    endpoint.answer = raw(200, packed, {"Content-Encoding": "gzip, gzip, gzip"})
    provider = config(endpoint.port).providers["wiki"]
    tracemalloc.start()
    with pytest.raises(ProviderFailed, match="Content-Encoding"):
        call_provider(provider, run_id=1, key=None, timeout_s=20, stop=lambda: False)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10_000_000
    assert endpoint.requests[0]["headers"]["Accept-Encoding"] == "identity"  # type: ignore[index]


def test_a_key_that_no_header_can_carry_is_a_reason_and_not_a_crash(endpoint: Endpoint) -> None:
    with pytest.raises(ProviderFailed, match="UnicodeEncodeError"):
        call_provider(
            config(endpoint.port).providers["wiki"], run_id=1, key="schlüssel", timeout_s=5, stop=lambda: False
        )


def test_a_provider_that_is_down_is_a_failed_run(sync: ProviderSync, endpoint: Endpoint) -> None:
    endpoint.close()
    record = sync.run_scheduled("wiki", NOON, 60)
    assert record is not None
    assert record.status == "failed"
    assert "cannot reach 127.0.0.1" in record.error
    endpoint.server.server_close()


def test_an_event_delivered_three_times_runs_once(sync: ProviderSync, endpoint: Endpoint) -> None:
    records = [sync.run_scheduled("wiki", NOON, 60) for _ in range(3)]
    assert [record is not None for record in records] == [True, False, False]
    assert len(endpoint.requests) == 1
    assert len(sync.latest("wiki")) == 1


def test_of_sixteen_at_once_one_wins(database: Database, endpoint: Endpoint, database_url: str) -> None:
    settings = config(endpoint.port)
    for round_number in range(20):
        slot = NOON + timedelta(minutes=round_number)

        def attempt(_: int, slot: datetime = slot) -> bool:
            own = Database(lambda: database_url)
            try:
                ProviderSync(own, lambda: settings, lambda *_: pytest.fail("not called")).begin(
                    "wiki", "schedule", slot
                )
            except (SyncRunning, DuplicateSlot):
                return False
            else:
                return True
            finally:
                own.close()

        with ThreadPoolExecutor(16) as pool:
            assert sum(pool.map(attempt, range(16))) == 1, round_number
        database.run(lambda t: t.execute("UPDATE knowledge_leases SET expires_at = '-infinity'"))


def test_a_run_under_way_makes_the_next_one_skipped(sync: ProviderSync) -> None:
    sync.begin("wiki", "manual")
    record = sync.run_scheduled("wiki", NOON, 60)
    assert record is not None
    assert record.status == "skipped"
    with pytest.raises(SyncRunning):
        sync.begin("wiki", "manual")


def test_a_dead_holder_is_taken_over_and_its_run_failed(sync: ProviderSync, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trigger, "LEASE", timedelta(milliseconds=50))
    dead = sync.begin("wiki", "manual")
    monkeypatch.undo()
    deadline = time.monotonic() + 10
    while True:  # the lease runs out by the database's clock
        try:
            live = sync.begin("wiki", "manual")
            break
        except SyncRunning:
            assert time.monotonic() < deadline
    assert live.lease.taken_over
    assert live.lease.fence > dead.lease.fence
    first, second = sync.latest("wiki")
    assert (first.id, first.status) == (live.run_id, "running")
    assert (second.id, second.status) == (dead.run_id, "failed")
    assert "lease" in second.error


def test_a_frozen_holder_that_wakes_records_nothing(
    sync: ProviderSync, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trigger, "LEASE", timedelta(milliseconds=-1))
    frozen = sync.begin("wiki", "manual")
    monkeypatch.undo()
    live = sync.begin("wiki", "manual")
    endpoint.answer = say({"created": 7})
    with pytest.raises(StaleRun):
        sync.carry_on(frozen, 60)
    assert endpoint.requests == []
    running, failed = sync.latest("wiki")
    assert (running.status, failed.status, failed.created) == ("running", "failed", 0)
    assert sync.carry_on(live, 60).created == 7


def test_a_manual_event_delivered_twice_calls_the_provider_once(sync: ProviderSync, endpoint: Endpoint) -> None:
    run = sync.begin("wiki", "manual")
    assert sync.carry_on(run, 60).status == "succeeded"
    with pytest.raises(StaleRun):
        sync.carry_on(run, 60)
    assert len(endpoint.requests) == 1


def test_whatever_breaks_beside_the_provider_is_a_failed_run(database: Database, endpoint: Endpoint) -> None:
    settings = config(endpoint.port)

    def broken(*_: object) -> ProviderAnswer:
        raise RuntimeError("the secret cannot be read")

    sync = ProviderSync(database, lambda: settings, broken)
    with pytest.raises(RuntimeError):
        sync.run_scheduled("wiki", NOON, 60)
    record = sync.latest("wiki")[0]
    assert record.status == "failed"
    assert "RuntimeError" in record.error


def test_a_live_run_keeps_its_lease_longer_than_its_length(
    sync: ProviderSync, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trigger, "LEASE", timedelta(milliseconds=300))
    release = threading.Event()

    def slow(handler: BaseHTTPRequestHandler) -> None:
        release.wait(5)
        say({"created": 1})(handler)

    endpoint.answer = slow
    run = sync.begin("wiki", "manual")
    with ThreadPoolExecutor(1) as pool:
        going_on = pool.submit(sync.carry_on, run, 60)
        until = time.monotonic() + 0.8  # well past the lease
        while time.monotonic() < until:
            with pytest.raises(SyncRunning):
                sync.begin("wiki", "manual")
        release.set()
        assert going_on.result().status == "succeeded"


def test_a_provider_that_is_not_configured_or_not_enabled_is_not_found(sync: ProviderSync) -> None:
    for provider_id in ("unknown", "off"):
        with pytest.raises(NotFound):
            sync.begin(provider_id, "manual")
    with pytest.raises(NotFound):
        sync.latest("unknown")


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "fd00:ec2::254",
        "fe80::1",
        "0.0.0.0",
        "224.0.0.1",
        "64:ff9b::a9fe:a9fe",
    ],
)
def test_metadata_and_link_local_addresses_are_never_called(address: str) -> None:
    provider = config(80).providers["wiki"]
    with pytest.raises(ProviderFailed, match="never called"):
        call_provider(provider, run_id=1, key=None, timeout_s=1, stop=lambda: False, resolve=lambda *_: [address])


def test_one_bad_address_among_good_ones_is_enough_to_refuse() -> None:
    provider = config(80).providers["wiki"]
    with pytest.raises(ProviderFailed, match="never called"):
        call_provider(
            provider,
            run_id=1,
            key=None,
            timeout_s=1,
            stop=lambda: False,
            resolve=lambda *_: ["127.0.0.1", "169.254.169.254"],
        )


def test_the_address_that_was_checked_is_the_one_called(endpoint: Endpoint) -> None:
    """A name that would point elsewhere at a second look-up is not looked up a second time."""
    settings = SpotConfig.model_validate(
        {
            "plugins": {"context_providers": {"wiki": {"url": f"http://wiki.invalid:{endpoint.port}"}}},
            "sync": {"allow_http_hosts": ["wiki.invalid"]},
        }
    )
    answer = call_provider(
        settings.providers["wiki"],
        run_id=1,
        key=None,
        timeout_s=5,
        stop=lambda: False,
        resolve=lambda *_: ["127.0.0.1"],
    )
    assert answer.created == 1
    assert endpoint.requests[0]["headers"]["Host"] == f"wiki.invalid:{endpoint.port}"  # type: ignore[index]
