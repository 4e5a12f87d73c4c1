"""Runs the service: one process, one event loop, one HTTP port, until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
import socket
from collections.abc import Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.routing import BaseRoute, Route

from local.lambda_service import invoke_api
from local.lambda_service.async_events import AsyncInvoker
from local.lambda_service.emulator import Emulator
from local.lambda_service.gateway import FUNCTION_URL_PREFIX, METHODS, Gateway
from local.lambda_service.invocation import Invocation
from local.lambda_service.logs import LogSink
from local.lambda_service.lost_events import LostEventQueue
from local.lambda_service.reload import Reloader
from local.lambda_service.scheduler import Scheduler
from local.lambda_service.service import LambdaService, Limits
from local.lambda_service.template import Template

_BACKLOG = 512
_GRACE_S = 5.0


@dataclass(frozen=True)
class ServerOptions:
    """What the command line decides. `drain_timeout_s` bounds how long running invocations may take at the end."""

    template_path: Path
    limits: Limits
    endpoint_url: str | None = None
    region: str = "us-east-1"
    reload: bool = True
    drain_timeout_s: float = 10.0


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises OSError, for instance when the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named, for asyncio sets TCP_NODELAY on no other socket; without it each answer takes 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def make_app(
    service: LambdaService, events: AsyncInvoker, sink: LogSink, extra_routes: Sequence[BaseRoute] = ()
) -> Starlette:
    """The HTTP application: `extra_routes` (a console, metrics) come before those of the functions."""
    gateway = Gateway(service, sink)
    return Starlette(
        routes=[
            Route(invoke_api.PATH, invoke_api.InvokeApi(service, events).invoke, methods=["POST"]),
            Route(f"{FUNCTION_URL_PREFIX}{{path:path}}", gateway.function_url, methods=METHODS),
            *extra_routes,
            Route("/{path:path}", gateway.http_api, methods=METHODS),
        ]
    )


async def serve(
    template: Template,
    options: ServerOptions,
    listener: socket.socket,
    load: Callable[[], Template],
    sink: LogSink,
    on_ready: Callable[[], None],
    extra_routes: Sequence[BaseRoute] = (),
) -> None:
    """Serves until SIGTERM or SIGINT: then no new requests, running ones end within their bound, and the workers go.

    A second signal ends the running ones at once. `load` reads the template anew, `on_ready` is called once requests
    are taken.
    """
    for note in template.notes:
        sink.note(note)
    service = LambdaService(template, sink, limits=options.limits, endpoint_url=options.endpoint_url)
    emulator = Emulator(options.endpoint_url, options.region) if options.endpoint_url else None
    lost_events = LostEventQueue(emulator.send if emulator else None, sink)
    events = AsyncInvoker(service, sink, on_lost=lost_events.put)
    background: list[asyncio.Task[None]] = []
    app = make_app(service, events, sink, extra_routes)
    server = _Server(app, on_ready, stop_bound_s=options.drain_timeout_s + _GRACE_S)
    signals = _Signals()
    stopping = asyncio.create_task(
        _stop_when_told(signals, server, service, events, lost_events, background, options.drain_timeout_s)
    )
    if options.reload:
        background.append(await _start_reloader(Reloader(service, sink, options.template_path, load), sink))
    if emulator is not None:
        background.append(_start("schedules", _make_scheduler(emulator, service, events, sink).run(), sink))
    try:
        await server.serve(sockets=[listener])
    finally:
        signals.first.set()
        await stopping


class _Server(uvicorn.Server):
    """uvicorn without its own signal handling, which would not let invocations end."""

    def __init__(self, app: Starlette, on_ready: Callable[[], None], *, stop_bound_s: float) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                server_header=False,
                lifespan="off",
                proxy_headers=False,
                timeout_graceful_shutdown=math.ceil(stop_bound_s),  # for clients that never finish sending
            )
        )
        self._on_ready = on_ready

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self._on_ready()


class _Signals:
    """The first SIGTERM or SIGINT, and the second."""

    def __init__(self) -> None:
        self.first = asyncio.Event()
        self.second = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._received)

    def _received(self) -> None:
        (self.second if self.first.is_set() else self.first).set()


async def _stop_when_told(
    signals: _Signals,
    server: _Server,
    service: LambdaService,
    events: AsyncInvoker,
    lost_events: LostEventQueue,
    background: list[asyncio.Task[None]],
    drain_timeout_s: float,
) -> None:
    await signals.first.wait()
    server.should_exit = True
    for task in background:
        task.cancel()
    drained = asyncio.create_task(service.drain(drain_timeout_s))
    hurried = asyncio.create_task(signals.second.wait())
    await asyncio.wait({drained, hurried}, return_when=asyncio.FIRST_COMPLETED)
    drained.cancel()
    hurried.cancel()
    await events.close()
    await lost_events.close()
    await service.close()


def _make_scheduler(emulator: Emulator, service: LambdaService, events: AsyncInvoker, sink: LogSink) -> Scheduler:
    def invoke(function_arn: str, event: bytes) -> None:
        events.submit(service.find(function_arn), Invocation(event))

    return Scheduler(emulator, refresh=lambda: emulator.declare(service.functions), invoke=invoke, note=sink.note)


def _start(name: str, work: Coroutine[None, None, None], sink: LogSink) -> asyncio.Task[None]:
    """Runs `work` beside the service, which goes on without it if it fails."""

    def ended(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            sink.note(f"{name} stopped: {error}")

    task = asyncio.create_task(work)
    task.add_done_callback(ended)
    return task


async def _start_reloader(reloader: Reloader, sink: LogSink) -> asyncio.Task[None]:
    """The running reloader, watching by now; the service runs on if it cannot watch."""
    reloading = _start("hot reload", reloader.run(), sink)
    watching = asyncio.create_task(reloader.watching())
    await asyncio.wait({reloading, watching}, return_when=asyncio.FIRST_COMPLETED)
    watching.cancel()
    return reloading
