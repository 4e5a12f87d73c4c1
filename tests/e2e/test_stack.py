"""The whole embedded stack: started, used, interrupted, killed, and found in order afterwards."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

import httpx
import psutil
import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from cli.main import run
from knowledge import wiring
from local.home import Home, StackState
from local.postgres import EmbeddedPostgres
from local.settings import CHECKOUT, LocalSettings
from local.stack import RunningStack, run_stack
from spot_sdk.errors import Conflict, Unavailable
from tests.contract.lambda_transport import Context

HASH = {"EMBEDDING_BACKEND": "hash", "LOG_LEVEL": "WARNING"}
PATIENCE_S = 90.0


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> LocalSettings:
    """One home for all tests of this file: the first start makes it, the others are later starts."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    return LocalSettings(port=port, home=tmp_path_factory.mktemp("stack") / "home", functions=HASH)


class Supervisor:
    """``run_stack`` in a process of its own, as ``knowledge up`` runs it."""

    def __init__(self, settings: LocalSettings) -> None:
        script = (
            "import pathlib, signal\n"
            "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"  # which nohup has us ignore
            "from local.settings import LocalSettings\n"
            "from local.stack import run_stack\n"
            f"settings = LocalSettings({settings.port}, pathlib.Path({str(settings.home)!r}), {HASH!r})\n"
            "say = lambda text: print(text, flush=True)\n"
            "run_stack(settings, on_ready=lambda stack: say('ready'), stay=True, report=say)\n"
            "say('in order')\n"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=CHECKOUT
        )
        self.output: list[str] = []
        self._lines: SimpleQueue[str] = SimpleQueue()
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                pytest.fail(f"{text!r} did not come: {self.output}")
            if text in line:
                return

    def wait(self) -> int:
        code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return code

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout:
            for line in self.process.stdout:
                self.output.append(line.rstrip("\n"))
                self._lines.put(line)


@contextlib.contextmanager
def _supervisor(settings: LocalSettings) -> Generator[Supervisor]:
    supervisor = Supervisor(settings)
    try:
        yield supervisor
    finally:
        supervisor.process.terminate()
        supervisor.wait()


def _state(settings: LocalSettings) -> StackState:
    state = Home(settings.home).running_stack()
    assert state is not None
    return state


def _headers(settings: LocalSettings) -> dict[str, str]:
    return {"X-Internal-API-Key": Home(settings.home).api_key()}


def _upsert(settings: LocalSettings, name: str) -> None:
    document = {"id": name, "content": f"all about {name}", "tags": ["trial"]}
    url = f"http://127.0.0.1:{settings.port}/api/v1/knowledge/upsert"
    answer = httpx.post(url, json=document, headers=_headers(settings), timeout=30, trust_env=False)
    assert answer.status_code == httpx.codes.OK, answer.text


def _found(settings: LocalSettings) -> set[str]:
    url = f"http://127.0.0.1:{settings.port}/api/v1/knowledge/query"
    query = {"text": "all", "tags": "trial", "top_k": 100}
    answer = httpx.post(url, json=query, headers=_headers(settings), timeout=30, trust_env=False)
    assert answer.status_code == httpx.codes.OK, answer.text
    return {document["id"] for document in answer.json()["documents"]}


def _handler(function: str) -> Callable[[dict[str, Any], Any], Any]:
    """The handler of one of our functions, in this process."""
    path = CHECKOUT / "functions" / function / "app.py"
    spec = importlib.util.spec_from_file_location(f"{function}_in_process", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.handler


def _assert_gone(state: StackState) -> None:
    for process in state.processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(process.pid).wait(PATIENCE_S)
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", state.port)):
        pass


def _stored(settings: LocalSettings) -> set[str]:
    """The ids in the database of a home whose stack does not run."""
    with EmbeddedPostgres(Home(settings.home).data_dir) as database, psycopg.connect(database.dsn) as connection:
        return {row[0] for row in connection.execute("SELECT id FROM knowledge_documents").fetchall()}


def test_a_first_start_serves_and_leaves_nothing_running(settings: LocalSettings) -> None:
    steps: list[str] = []
    states: list[StackState] = []
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]

    def use(stack: RunningStack) -> None:
        assert httpx.get(f"{stack.url}/health", trust_env=False).json() == {"status": "ok"}
        assert stack.migrations[0] == "0001_documents"
        assert stack.knowledge_url == f"{stack.url}/api/v1/knowledge"
        assert stack.api_key == stack.home.api_key()
        _upsert(settings, "first")
        assert _found(settings) == {"first"}
        with psycopg.connect(stack.dsn) as connection:
            assert connection.execute("SELECT count(*) FROM knowledge_documents").fetchone() == (1,)
        states.append(_state(settings))

    run_stack(settings, on_ready=use, stay=False, report=steps.append)

    assert steps == ["starting the database", "starting the functions", "migrating the database", "stopping"]
    assert states[0].pid == os.getpid()
    assert len(states[0].processes) == 3
    _assert_gone(states[0])
    assert Home(settings.home).running_stack() is None
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == handlers
    for name in ("api-key", "functions.json", "postgres.json"):
        assert stat.S_IMODE((settings.home / name).stat().st_mode) == 0o600, name
    assert stat.S_IMODE(settings.home.stat().st_mode) == 0o700


def test_what_all_workers_measure_is_on_one_page(settings: LocalSettings) -> None:
    seen: dict[tuple[str, str], float] = {}

    def use(stack: RunningStack) -> None:
        _upsert(settings, "measured")
        for _ in range(2):
            _found(settings)
        page = httpx.get(f"{stack.url}/metrics", trust_env=False)
        assert page.headers["content-type"].startswith("text/plain; version=")
        for family in text_string_to_metric_families(page.text):
            for sample in family.samples:
                seen[sample.name, sample.labels.get("cache_hit") or sample.labels.get("function", "")] = sample.value

    run_stack(settings, on_ready=use, stay=False)
    assert seen["knowledge_query_duration_seconds_count", "false"] == 1
    assert seen["knowledge_query_duration_seconds_count", "true"] == 1
    assert seen["knowledge_requests_total", "knowledge-upsert"] == 1
    assert seen["knowledge_requests_total", "knowledge-query"] == 2
    assert seen["knowledge_embed_cache_misses_total", ""] == 1


def test_the_doctor_looks_at_all_of_a_local_stack(
    settings: LocalSettings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KNOWLEDGE_HOME", str(settings.home))
    for name in ("DATABASE_URL", "SPOT_KNOWLEDGE_URL", "SPOT_INTERNAL_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    said: list[Any] = []

    def use(stack: RunningStack) -> None:
        def ask() -> Any:
            run(["doctor", "--json"])
            return json.loads(capsys.readouterr().out)

        assert run(["tag-indexes", "apply"]) == 0  # statistics, as after the first load of any size
        capsys.readouterr()
        said.append(ask())
        stack.home.spot_path.write_text(
            "plugins: {context_providers: {wiki: {url: 'https://127.0.0.1:1', sync_schedule: '15 * * * *'}}}"
        )
        said.append(ask())

    run_stack(settings, on_ready=use, stay=False)
    assert said[0]["due"] == []
    assert said[0]["checked"] == ["model", "database", "key", "api", "runs", "disk", "providers", "schedules"]
    found = [(finding["subject"], finding["message"]) for finding in said[1]["due"]]
    assert [subject for subject, _ in found] == ["provider", "provider", "schedule", "schedule"], found


def test_a_second_start_finds_the_data_and_has_nothing_to_migrate(settings: LocalSettings) -> None:
    found: set[str] = set()

    def use(stack: RunningStack) -> None:
        assert stack.migrations == []
        found.update(_found(settings))

    started = time.monotonic()
    run_stack(settings, on_ready=use, stay=False)
    assert time.monotonic() - started < 60, "seconds on an idle machine; CI's is not"
    assert "first" in found


def test_the_same_event_gives_the_same_answer_in_process_and_through_the_service(
    settings: LocalSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each function's sample event, with the right key, without one, and with a body that is no JSON."""
    pairs: list[tuple[str, Any, Any]] = []

    def use(stack: RunningStack) -> None:
        variables = {"DATABASE_URL": stack.dsn, "SPOT_INTERNAL_API_KEY": stack.api_key, "QUERY_ACCESS": "open", **HASH}
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        wiring.reset()
        _upsert(settings, "the same for both")
        for function in ("query", "upsert", "admin"):
            sample = json.loads((CHECKOUT / "events" / f"{function}.json").read_text())
            sample["headers"]["x-internal-api-key"] = stack.api_key
            without_key = {**sample, "headers": {**sample["headers"], "x-internal-api-key": "wrong"}}
            handler = _handler(function)
            handler(sample, Context(function))  # so that an upsert finds its document there both times
            for event in (sample, without_key, {**sample, "body": "{"}):
                url = f"{stack.url}/2015-03-31/functions/{function.capitalize()}Function/invocations"
                through = httpx.post(url, json=event, timeout=PATIENCE_S, trust_env=False)
                assert "X-Amz-Function-Error" not in through.headers
                pairs.append((function, through.json(), handler(event, Context(function))))
        wiring.reset()

    run_stack(settings, on_ready=use, stay=False)

    for function, through_service, in_process in pairs:
        assert through_service == json.loads(json.dumps(in_process)), function
    assert [answer["statusCode"] for _, answer, _ in pairs if answer["statusCode"] < 300]
    assert {answer["statusCode"] for _, answer, _ in pairs} > {200, 401}


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_staying_stack_in_order(settings: LocalSettings, how: signal.Signals) -> None:
    with _supervisor(settings) as supervisor:
        supervisor.wait_for("ready")
        state = _state(settings)
        _upsert(settings, f"before {how.name}")
        supervisor.process.send_signal(how)
        assert supervisor.wait() == 0
        assert supervisor.output[-2:] == ["stopping", "in order"]
    _assert_gone(state)
    log = (settings.home / "logs" / "postgres.log").read_text().splitlines()
    assert log[-1].endswith("database system is shut down")
    assert f"before {how.name}" in _stored(settings)


@pytest.mark.parametrize("step", ["starting the database", "starting the functions", "migrating the database"])
def test_a_signal_during_the_start_ends_it_in_order(settings: LocalSettings, step: str) -> None:
    with _supervisor(settings) as supervisor:
        supervisor.wait_for(step)
        children = psutil.Process(supervisor.process.pid).children(recursive=True)
        supervisor.process.terminate()
        assert supervisor.wait() == 0
        assert supervisor.output[-2:] == ["stopping", "in order"]
        _, alive = psutil.wait_procs(children, timeout=10)
        assert alive == []
    assert "first" in _stored(settings)


@pytest.mark.parametrize(
    ("which", "name"),
    [(0, "AWS emulator"), (1, "PostgreSQL"), (2, "local Lambda service")],
    ids=["aws", "db", "lambda"],
)
def test_a_part_that_dies_ends_the_stack_and_is_named(settings: LocalSettings, which: int, name: str) -> None:
    with _supervisor(settings) as supervisor:
        supervisor.wait_for("ready")
        state = _state(settings)
        os.kill(state.processes[which].pid, signal.SIGKILL)
        assert supervisor.wait() == 1
        assert f"{name} was ended by SIGKILL" in "\n".join(supervisor.output)
    _assert_gone(state)
    assert "first" in _stored(settings)


def test_a_killed_supervisor_leaves_no_obstacle(settings: LocalSettings) -> None:
    with _supervisor(settings) as supervisor:
        supervisor.wait_for("ready")
        _upsert(settings, "before the kill")
        state = _state(settings)
        supervisor.process.kill()
        supervisor.wait()
        assert Home(settings.home).running_stack() is None
        found: set[str] = set()
        run_stack(settings, on_ready=lambda stack: found.update(_found(settings)), stay=False)
        assert "before the kill" in found
    _assert_gone(state)


def test_what_the_caller_raises_stops_the_stack_and_passes_through(settings: LocalSettings) -> None:
    states: list[StackState] = []

    def fail(stack: RunningStack) -> None:
        states.append(_state(settings))
        raise LookupError("the caller's own")

    with pytest.raises(LookupError, match="the caller's own"):
        run_stack(settings, on_ready=fail, stay=True)
    _assert_gone(states[0])


def test_a_part_that_dies_under_the_caller_is_named_as_the_cause(settings: LocalSettings) -> None:
    def fail(stack: RunningStack) -> None:
        service = psutil.Process(_state(settings).processes[2].pid)
        service.kill()
        while service.status() != psutil.STATUS_ZOMBIE:  # it is our child, and not for us to reap
            time.sleep(0.01)
        raise LookupError("a symptom")

    with pytest.raises(Unavailable, match="local Lambda service was ended by SIGKILL"):
        run_stack(settings, on_ready=fail, stay=True)


def test_a_taken_port_is_one_clear_line_and_nothing_is_started(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(
            Conflict, match=rf"^port {port} cannot be used \(Address already in use\); set PORT to another$"
        ):
            run_stack(LocalSettings(port, tmp_path / "home", HASH), on_ready=pytest.fail, stay=False)
    assert sorted(path.name for path in (tmp_path / "home").iterdir()) == ["lock", "logs"]


def test_a_second_stack_in_a_home_is_refused_and_two_homes_are_not(settings: LocalSettings, tmp_path: Path) -> None:
    with _supervisor(settings) as supervisor:
        supervisor.wait_for("ready")
        with pytest.raises(Conflict, match=rf"in use by another stack \(pid {supervisor.process.pid}\)"):
            run_stack(settings, on_ready=pytest.fail, stay=False)
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        found = {"not asked"}
        other = LocalSettings(port, tmp_path / "other", HASH)
        run_stack(other, on_ready=lambda stack: found.intersection_update(_found(other)), stay=False)
        assert found == set()
        assert "first" in _found(settings)


def test_a_migration_that_is_refused_is_one_clear_line(settings: LocalSettings) -> None:
    other_model = LocalSettings(settings.port, settings.home, {"EMBEDDING_BACKEND": "minilm"})
    with pytest.raises(Unavailable, match=r"^the database could not be migrated: [^\n]*kl-hash-embed[^\n]*$"):
        run_stack(other_model, on_ready=pytest.fail, stay=False)
