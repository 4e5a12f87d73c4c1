"""The embedded stack: the database, the AWS emulator and the functions, started and stopped together."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from types import FrameType

import httpx

from local.aws_emulator import AwsEmulator
from local.files import write_private
from local.home import Home, StackState
from local.postgres import EmbeddedPostgres
from local.processes import Child, ProcessMark
from local.settings import CHECKOUT, LocalSettings
from local.spot_file import write_spot_file
from spot_sdk.errors import Conflict, Unavailable

HOST = "127.0.0.1"

_SERVICE_START_TIMEOUT_S = 60.0
_DRAIN_TIMEOUT_S = 30  # the longest invocation behind a route may run 29 s
_DEATH_SHOWS_S = 0.5
_SERVICE_STOP_TIMEOUT_S = _DRAIN_TIMEOUT_S + 5.0
_MIGRATION_TIMEOUT_S = 300.0
_LAST_LINES = 10

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class RunningStack:
    """What a client of a running stack needs."""

    home: Home
    url: str
    """Base of ``/health`` and ``/version``; also the endpoint of the Lambda API."""
    knowledge_url: str
    """Base of the Knowledge API, for ``KnowledgeClient``."""
    api_key: str
    sync_key: str
    dsn: str
    """The database's address, password included."""
    aws_endpoint_url: str
    migrations: list[str]
    """Names of the migrations that this start applied."""


Companions = Callable[[RunningStack], Iterable[Child]]
"""Starts processes that use the stack and belong to it, such as providers; hands over each as soon as it started.

Schedules are applied once all are handed over, so ``home.spot_path`` may be written by then (see ``spot_file``).
"""


class _StopAsked(BaseException):
    """A signal asked for an end. Not an Exception, so that nothing on the way takes it for a failure."""


def run_stack(
    settings: LocalSettings,
    *,
    on_ready: Callable[[RunningStack], None],
    stay: bool,
    report: Report = lambda step: None,
    companions: Companions = lambda stack: (),
) -> None:
    """Start the stack and its ``companions``, call ``on_ready`` with it, ``stay`` until SIGINT, SIGTERM or SIGHUP, then
    stop it.

    ``report`` is told each step when it begins. Call it from the main thread, where signals arrive. Returning means
    that all was orderly, a signal during the start included.

    Raises Conflict when the folder or the port is in use (nothing was started then), InvalidInput or StoreUnavailable
    when the folder cannot be used, Unavailable with its last lines when a process ends by itself; and whatever
    ``on_ready`` raises. All that was started has been stopped then.
    """
    home = Home(settings.home)
    with _stop_signals() as ignore_signals, ExitStack() as running:
        try:
            home.make()
            home.lock.acquire()
            running.callback(home.lock.release)
            home.stop_leftovers()
            _require_free_port(settings.port)
            children: list[Child] = []
            try:
                on_ready(_start(settings, home, running, children, report, companions))
                if stay:
                    raise Unavailable(_last_words(_first_to_end(children)))
            except Exception as error:
                dead = _dead_one(children)
                if dead is None:
                    raise
                raise Unavailable(_last_words(dead)) from error  # the cause, in place of a symptom
            finally:
                ignore_signals()
                report("stopping")
        except _StopAsked:
            pass


def _dead_one(children: list[Child]) -> Child | None:
    """A child that has ended. A killed one may be gone for its clients a moment before it can be waited for."""
    until = time.monotonic() + _DEATH_SHOWS_S
    while True:
        dead = next((child for child in children if not child.running), None)
        if dead is not None or time.monotonic() > until:
            return dead
        time.sleep(0.02)


def _start(
    settings: LocalSettings,
    home: Home,
    running: ExitStack,
    children: list[Child],
    report: Report,
    companions: Companions,
) -> RunningStack:
    """Start all parts. Each is left to ``running`` to stop, in the opposite order, as soon as it may have started."""
    api_key = home.ensure_api_key()
    sync_key = secrets.token_urlsafe(32)  # of this run alone: the providers of this run are told it
    aws = AwsEmulator(home.log_path("aws"))
    database = EmbeddedPostgres(home.data_dir, log_path=home.log_path("postgres"))
    running.callback(database.stop)
    running.callback(aws.stop)

    report("starting the database")
    aws.launch()  # it takes seconds to import what it needs, and nobody waits for it before the end
    children.append(aws.child)
    database.start()
    children.append(database.child)

    report("starting the functions")
    variables = {
        "QUERY_ACCESS": "open",  # nobody but this machine reaches loopback
        **settings.functions,
        "DATABASE_URL": database.dsn,
        "SPOT_INTERNAL_API_KEY": api_key,
        "SYNC_CALL_KEY": sync_key,
        "SPOT_CONFIG_PATH": str(home.spot_path),
        "CONSOLE_API_URL": f"http://{HOST}:{settings.port}/api/v1/knowledge",
        "CONSOLE_SERIES_URL": f"http://{HOST}:{settings.port}",
    }
    write_spot_file(home.spot_path, {})
    write_private(home.functions_path, json.dumps({"Parameters": variables}, indent=2) + "\n")
    service = _start_lambda_service(settings.port, home, aws.endpoint_url)
    running.callback(service.stop, signal.SIGTERM, grace_s=_SERVICE_STOP_TIMEOUT_S)
    children.append(service)
    service.wait_until_ready(_SERVICE_START_TIMEOUT_S)
    url = f"http://{HOST}:{settings.port}"

    stack = RunningStack(
        home=home,
        url=url,
        knowledge_url=f"{url}/api/v1/knowledge",
        api_key=api_key,
        sync_key=sync_key,
        dsn=database.dsn,
        aws_endpoint_url=aws.endpoint_url,
        migrations=[],
    )
    report("migrating the database")
    stack.migrations.extend(_migrate(url, home.log_path("functions")))
    aws.wait_until_ready()
    for companion in companions(stack):
        running.callback(companion.stop)
        children.append(companion)

    running.callback(home.clear_state)
    home.write_state(
        StackState(
            pid=os.getpid(),
            port=settings.port,
            url=url,
            knowledge_url=stack.knowledge_url,
            aws_endpoint_url=aws.endpoint_url,
            processes=[ProcessMark.of(child.pid) for child in children],
        )
    )
    return stack


def _start_lambda_service(port: int, home: Home, aws_endpoint_url: str) -> Child:
    return Child.start(
        "local Lambda service",
        [
            *(sys.executable, "-P", "-m", "local.lambda_service"),
            *("--template", CHECKOUT / "template.yaml"),
            *("--host", HOST, "--port", str(port)),
            *("--env-file", home.functions_path),
            *("--aws-endpoint-url", aws_endpoint_url),
            *("--drain-timeout", str(_DRAIN_TIMEOUT_S)),
        ],
        log_path=home.log_path("functions"),
        ready_text=f"ready http://{HOST}:{port}",
    )


def _migrate(url: str, log_path: Path) -> list[str]:
    """Invoke the function that migrates, as an operator does after a deployment; the names of what it applied."""
    function = f"{url}/2015-03-31/functions/MigrateFunction/invocations"
    try:
        with httpx.Client(timeout=_MIGRATION_TIMEOUT_S, trust_env=False) as client:  # no proxy stands before loopback
            return _applied(client.post(function, content=b"{}"))
    except (httpx.HTTPError, ValueError) as error:
        raise Unavailable(f"the database could not be migrated: {error} (log: {log_path})") from error


def _applied(answer: httpx.Response) -> list[str]:
    """What the migration answered. Raises ValueError for an error, httpx.HTTPStatusError for none of its answers."""
    answer.raise_for_status()
    payload = answer.json()
    if "X-Amz-Function-Error" in answer.headers:
        raise ValueError(payload["errorMessage"])
    return list(payload["applied"])


def _require_free_port(port: int) -> None:
    """Raise Conflict when somebody listens on ``port`` already."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the service: past connections do not count
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise Conflict(f"port {port} cannot be used ({error.strerror}); set PORT to another") from error


def _first_to_end(children: list[Child]) -> Child:
    """Wait until one of them ends, however long that takes; that one."""
    ended: SimpleQueue[Child] = SimpleQueue()

    def watch(child: Child) -> None:
        child.wait()
        ended.put(child)

    for child in children:
        threading.Thread(target=watch, args=(child,), name=f"{child.name}-end", daemon=True).start()
    return ended.get()


def _last_words(child: Child) -> str:
    lines = "".join(f"\n  {line}" for line in child.last_lines[-_LAST_LINES:])
    return f"{child.ending()}; its last lines, of {child.log_path}:{lines}"


@contextmanager
def _stop_signals() -> Generator[Callable[[], None]]:
    """Turn the first signal that asks for an end into _StopAsked; those that follow are ignored.

    Yields what makes all of them ignored from then on, for while we stop.
    """
    asking = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup ignores it
        asking.append(signal.SIGHUP)
    previous = {each: signal.getsignal(each) for each in asking}

    def ignore() -> None:
        for each in asking:
            signal.signal(each, signal.SIG_IGN)

    def ask(number: int, frame: FrameType | None) -> None:
        del number, frame
        ignore()
        raise _StopAsked

    for each in asking:
        signal.signal(each, ask)
    try:
        yield ignore
    finally:
        for each, handler in previous.items():
            signal.signal(each, handler)
