"""Syncs on the running stack: fired by the clock, expired, killed and frozen for real. `make test-crash`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import boto3
import httpx
import psutil
import pytest
import yaml

from local.home import Home, StackState
from local.settings import CHECKOUT, child_environment
from spot_sdk.client import KnowledgeClient
from spot_sdk.documents import SET_BY_QUERIES, KnowledgeDocument
from spot_sdk.errors import SyncRunning
from spot_sdk.operators import OperatorClient
from spot_sdk.sync import SyncRunRecord

PATIENCE_S = 150.0
KNOWLEDGE = (sys.executable, "-c", "from cli.main import main; main()")

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]


class Provider:
    """A provider on loopback that upserts one document a sync, and waits while it is held."""

    def __init__(self) -> None:
        self.calls = 0
        self.go_on = threading.Event()
        self.go_on.set()
        self.work: Callable[[], dict[str, int]] = lambda: {"created": 1}
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                provider.calls += 1
                provider.go_on.wait(PATIENCE_S)
                body = json.dumps(provider.work()).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    provider = Provider()
    yield provider
    provider.server.shutdown()
    provider.server.server_close()


class Stack:
    """A stack without the example company, whose operators' file names the provider of these tests."""

    def __init__(self, home: Home, state: StackState) -> None:
        self.home = home
        self.state = state
        self.key = home.api_key()

    def operator(self) -> OperatorClient:
        return OperatorClient(self.state.knowledge_url, self.key)

    def client(self) -> KnowledgeClient:
        return KnowledgeClient(self.state.knowledge_url, self.key)

    def workers(self, function: str) -> list[psutil.Process]:
        """Worker processes of a function, by the name that Lambda gives them."""
        found = []
        for mark in self.state.processes:
            for process in psutil.Process(mark.pid).children(recursive=True) if psutil.pid_exists(mark.pid) else []:
                try:
                    if function in process.environ().get("AWS_LAMBDA_FUNCTION_NAME", ""):
                        found.append(process)
                except psutil.Error:
                    continue
        return found


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, provider: Provider) -> Iterator[Stack]:
    folder: Path = tmp_path_factory.mktemp("platform")
    home = Home(folder / "home")
    environment = child_environment(KNOWLEDGE_HOME=str(home.path), PORT=str(_free_port()), EMBEDDING_BACKEND="hash")
    said = folder / "up.log"
    with said.open("w") as log:
        up = subprocess.Popen(
            [*KNOWLEDGE, "up", "--empty"],
            env=environment,
            cwd=CHECKOUT,
            stdin=subprocess.DEVNULL,
            stderr=log,
            stdout=subprocess.DEVNULL,
        )
    until(lambda: "Ctrl-C" in said.read_text(), "the stack is up")
    state = home.running_stack()
    assert state is not None
    home.spot_path.write_text(
        yaml.safe_dump(
            {
                "plugins": {"context_providers": {"probe": {"url": provider.url, "sync_schedule": "* * * * *"}}},
                "sync": {"allow_http_hosts": ["127.0.0.1"]},
            }
        )
    )
    yield Stack(home, state)
    up.send_signal(signal.SIGINT)
    up.wait(60)


def _free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def until(condition: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.2)
    return found


async def run_of(stack: Stack, run_id: int) -> SyncRunRecord:
    async with stack.operator() as operator:
        return next(run for run in (await operator.provider("probe")).runs if run.id == run_id)


async def begin_when_free(stack: Stack) -> tuple[int, float]:
    """Start a run as soon as the lease allows; returns its id and how long that took."""
    started = time.monotonic()
    async with stack.operator() as operator:
        while True:
            try:
                return await operator.start_sync("probe"), time.monotonic() - started
            except SyncRunning:
                assert time.monotonic() - started < PATIENCE_S
                time.sleep(0.5)


async def test_a_manual_sync_is_accepted_at_once_and_refused_while_it_runs(stack: Stack, provider: Provider) -> None:
    provider.go_on.clear()
    calls = provider.calls
    async with stack.operator() as operator:
        run_id = await operator.start_sync("probe")
        until(lambda: provider.calls > calls, "the provider is called")
        with pytest.raises(SyncRunning):
            await operator.start_sync("probe")
    provider.go_on.set()
    deadline = time.monotonic() + PATIENCE_S
    while (record := await run_of(stack, run_id)).status == "running":
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert (record.status, record.trigger, record.created) == ("succeeded", "manual", 1)


async def test_a_killed_worker_is_taken_over_within_the_lease(stack: Stack, provider: Provider) -> None:
    provider.go_on.clear()
    calls = provider.calls
    async with stack.operator() as operator:
        killed = await operator.start_sync("probe")
    until(lambda: provider.calls > calls, "the provider is called")
    for worker in stack.workers("SyncTrigger"):
        worker.send_signal(signal.SIGKILL)
    provider.go_on.set()
    next_run, waited_s = await begin_when_free(stack)
    assert waited_s < 75  # the lease is 60 s
    assert next_run > killed
    record = await run_of(stack, killed)
    assert record.status in ("failed", "succeeded")  # Lambda's own retry may have carried it on
    if record.status == "failed":
        assert "lease" in record.error


async def test_a_frozen_worker_that_wakes_changes_nothing(stack: Stack, provider: Provider) -> None:
    deadline = time.monotonic() + PATIENCE_S
    async with stack.operator() as operator:
        while any(run.status == "running" for run in (await operator.provider("probe")).runs):
            assert time.monotonic() < deadline
            time.sleep(0.5)
    provider.go_on.clear()
    calls = provider.calls
    async with stack.operator() as operator:
        frozen = await operator.start_sync("probe")
    until(lambda: provider.calls > calls, "the provider is called")
    workers = stack.workers("SyncTrigger")
    for worker in workers:
        worker.suspend()
    try:
        next_run, _ = await begin_when_free(stack)
    finally:
        provider.work = lambda: {"created": 99}
        provider.go_on.set()
        for worker in workers:
            worker.resume()
    assert next_run > frozen
    time_out = time.monotonic() + PATIENCE_S
    while (await run_of(stack, next_run)).status == "running":
        assert time.monotonic() < time_out
        time.sleep(0.5)
    record = await run_of(stack, frozen)
    assert (record.status, record.created) == ("failed", 0)
    provider.work = lambda: {"created": 1}


async def test_a_provider_is_fired_by_the_clock_and_what_expires_goes(stack: Stack, provider: Provider) -> None:
    """The design's verification, step 10."""
    url = stack.state.knowledge_url

    def deposit() -> dict[str, int]:
        document = KnowledgeDocument(id="probe:1", content="fired by the clock", tags=["probe"], source="probe")
        answer = httpx.post(
            f"{url}/upsert",
            content=document.model_dump_json(exclude=SET_BY_QUERIES),
            headers={"X-Internal-API-Key": stack.key, "Content-Type": "application/json"},
            timeout=30,
        )
        answer.raise_for_status()
        return {"upserted": 1}

    provider.work = deposit
    apply = subprocess.run(
        [*KNOWLEDGE, "schedules", "apply", "--file", str(stack.home.spot_path)],
        env=child_environment(KNOWLEDGE_HOME=str(stack.home.path)),
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert apply.returncode == 0, apply.stderr
    async with stack.client() as client:
        deadline = time.monotonic() + PATIENCE_S
        while not (found := await client.fetch(tags="probe", text="fired by the clock")):
            assert time.monotonic() < deadline
            time.sleep(0.5)
        assert [document.id for document in found] == ["probe:1"]
        async with stack.operator() as operator:
            assert any(run.trigger == "schedule" for run in (await operator.provider("probe")).runs)

        provider.work = lambda: {"created": 0}  # the provider stops
        await client.upsert(found[0].model_copy(update={"expires_at": "2020-01-01T00:00:00Z", "score": None}))
        assert await client.fetch(tags="probe", text="fired by the clock") == []
        assert (await client.stats()).expired == 1
        lambdas = boto3.client(
            "lambda",
            endpoint_url=stack.state.url,
            region_name="us-east-1",
            aws_access_key_id="local",
            aws_secret_access_key="local",
        )
        answer = json.loads(lambdas.invoke(FunctionName="TtlCleanupFunction", Payload=b"{}")["Payload"].read())
        assert answer == {"deleted": 1, "batches": 1, "finished": True}
        assert (await client.stats()).expired == 0
