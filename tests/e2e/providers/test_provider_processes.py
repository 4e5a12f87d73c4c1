"""The providers as processes: started on loopback, told to stop, and stopped in the middle of a sync."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from spot_sdk.documents import EmbeddingModel, Version

CHECKOUT = Path(__file__).resolve().parents[3]
KEY = "key-of-the-processes-tests"
MODEL = EmbeddingModel(backend="x", model="x", version="1", dimensions=1, max_input_tokens=1, chunk_chars=900)


@dataclass
class Process:
    child: subprocess.Popen[str]
    url: str

    def sync(self) -> httpx.Response:
        return httpx.post(f"{self.url}/internal/sync", headers={"X-Internal-API-Key": KEY}, timeout=30)

    def stop(self) -> int:
        """Ask for an end and wait for it; supervisors wait ten seconds."""
        self.child.send_signal(signal.SIGTERM)
        return self.child.wait(10)


@contextmanager
def running(name: str, store_url: str) -> Generator[Process]:
    child = start(name, "--port", "0", SPOT_KNOWLEDGE_URL=store_url, SPOT_INTERNAL_API_KEY=KEY)
    try:
        process = Process(child, address_told_by(child))
        assert httpx.get(f"{process.url}/health").json()["status"] == "ok"
        yield process
    finally:
        child.kill()
        child.communicate()


def start(name: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", f"examples.providers.{name}", *arguments],
        cwd=CHECKOUT,
        env={**{name: value for name, value in os.environ.items() if not name.startswith("SPOT_")}, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def address_told_by(child: subprocess.Popen[str]) -> str:
    """Where the provider listens, from the line that supervisors wait for."""
    assert child.stdout
    lines: list[str] = []
    for line in child.stdout:
        lines.append(line)
        if found := re.search(r"Uvicorn running on (http://127\.0\.0\.1:\d+)", line):
            return found[1]
    raise AssertionError(f"the provider ended: {''.join(lines)}")


@dataclass
class HangingStore:
    """A store that opens runs and then never answers what is sent in them."""

    url: str = ""
    sending: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    failures: list[str] = field(default_factory=list)


@pytest.fixture
def hanging_store() -> Generator[HangingStore]:
    store = HangingStore()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer(Version(version="1", embedding=MODEL).model_dump())

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path.endswith("/sync-runs"):
                self.answer({"run": {"id": 1, "fence": 1}, "lease_s": 60})
            elif self.path.endswith("/fail"):
                store.failures.append(body["reason"])
                record = {"id": 1, "name": "x", "trigger": "client", "status": "failed"}
                self.answer({**record, "started_at": "2026-01-01T00:00:00Z"})
            else:
                store.sending.set()
                store.released.wait(60)
                self.close_connection = True

        def answer(self, body: dict[str, object]) -> None:
            content = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        store.url = f"http://127.0.0.1:{server.server_port}/api/v1/knowledge"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield store
        store.released.set()
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("name", ["employee_dir", "wiki"])
def test_a_provider_starts_answers_and_stops(name: str) -> None:
    with running(name, "http://127.0.0.1:1/api/v1/knowledge") as process:
        answer = process.sync()
        assert answer.status_code == 503
        assert answer.json()["detail"].startswith("http://127.0.0.1:1/api/v1/knowledge cannot be reached")
        assert httpx.post(f"{process.url}/internal/sync").status_code == 401
        assert process.stop() in (0, -signal.SIGTERM)
        log = process.child.stdout.read() if process.child.stdout else ""
    assert KEY not in log
    assert "Traceback" not in log


def test_a_sync_that_is_broken_off_by_a_stop_is_a_failed_run(hanging_store: HangingStore) -> None:
    with running("employee_dir", hanging_store.url) as process, ThreadPoolExecutor(1) as platform:
        answer = platform.submit(process.sync)
        assert hanging_store.sending.wait(30)
        process.stop()
        assert answer.result(10).status_code == 500
    assert len(hanging_store.failures) == 1
    assert "Cancelled" in hanging_store.failures[0]


@pytest.mark.parametrize("name", ["employee_dir", "wiki"])
def test_a_provider_without_a_store_says_so_in_a_line(name: str) -> None:
    child = start(name)
    told, _ = child.communicate(timeout=60)
    assert child.returncode == 1
    assert told == f"{name}: the environment is not right: SPOT_KNOWLEDGE_URL: Field required\n"
