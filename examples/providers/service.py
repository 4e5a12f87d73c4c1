"""The service around a source: ``POST /internal/sync``, which the platform calls on schedule, and ``GET /health``."""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Annotated, Any

import anyio
import anyio.to_thread
from pydantic import BaseModel, Field, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from examples.providers.listing import Deadline, Listing, SourceFailed
from examples.providers.settings import ServiceSettings
from spot_sdk.errors import (
    Conflict,
    InternalError,
    InvalidRequest,
    KnowledgeError,
    PayloadTooLarge,
    Unauthorized,
    Unavailable,
)
from spot_sdk.knowledge import KnowledgeClient, SyncResult
from spot_sdk.problems import PROBLEM_CONTENT_TYPE, ProblemDetails, to_problem

KEY_HEADER = "X-Internal-API-Key"
MAX_BODY_BYTES = 16_384
MAX_MESSAGE_LENGTH = 2_000
MAX_TOLD = 10
ANSWER_MARGIN_S = 1.0
"""How long before the caller's deadline a sync stops, so that the answer still arrives."""

FAREWELL_S = 3.0
"""How long a service that is told to stop waits for a broken-off sync to tell the store."""

MAX_WAIT_S = 75.0
"""How long a sync waits for a run that was killed to lose its lease."""

ReadSource = Callable[[int, Deadline], Listing]
"""Reads everything that a source has, in a thread: told the length to chunk to and the moment to be done by.

Raises SourceFailed when the listing is not whole, DeadlineExceeded when the deadline has passed.
"""

Connect = Callable[[], AbstractAsyncContextManager[KnowledgeClient]]

_log = logging.getLogger("provider")


class SyncOrder(BaseModel):
    """What the platform may say when it orders a sync: the run that it keeps a record of, and how long it will wait."""

    run_id: str | int | None = None
    deadline_ms: Annotated[int, Field(ge=1)] | None = None


class Provider:
    """Keeps the store's documents of one source equal to what the source has."""

    def __init__(
        self, source: str, read: ReadSource, settings: ServiceSettings, connect: Connect | None = None
    ) -> None:
        """``connect`` opens a client of the store; by default one for the address and key of the settings."""
        self._source = source
        self._read = read
        self._settings = settings
        self._connect = connect or self._client
        self._running = anyio.Lock()

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/internal/sync", self._answer_sync, methods=["POST"]),
                Route("/health", self._answer_health, methods=["GET"]),
            ],
            exception_handlers={KnowledgeError: _refusal, Exception: _breakdown},
            lifespan=self._lifespan,
        )

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncGenerator[None]:
        """At the end, let a sync that was broken off tell the store that its run has failed."""
        yield
        with anyio.move_on_after(FAREWELL_S):
            async with self._running:
                return

    async def sync(self, order: SyncOrder) -> tuple[SyncResult, Listing]:
        """Send all documents in one run, after which the store removes those that the source no longer has.

        Raises SourceFailed, DeadlineExceeded or the store's errors; the run has then failed and nothing is removed.
        Raises Conflict while another sync runs in this process.
        """
        if self._running.locked():
            raise Conflict("a sync is running already")
        async with self._running, self._connect() as store:
            return await self._run(store, self._deadline(order))

    async def _run(self, store: KnowledgeClient, deadline: Deadline) -> tuple[SyncResult, Listing]:
        chunk_chars = (await store.version()).embedding.chunk_chars
        async with store.sync_run(source=self._source, wait_s=min(MAX_WAIT_S, deadline.remaining_s)) as run:
            # Read inside the run, so that a listing that fails is a failed run; and the deadline inside as well, so
            # that there is still time to say so.
            with _until(deadline):
                listing = await anyio.to_thread.run_sync(self._read, chunk_chars, deadline, abandon_on_cancel=True)
                await run.upsert(listing.documents)
        return run.result, listing

    def _deadline(self, order: SyncOrder) -> Deadline:
        limit_s = self._settings.sync_timeout_s
        if order.deadline_ms is not None:
            limit_s = min(limit_s, order.deadline_ms / 1000 - ANSWER_MARGIN_S)
        return Deadline.after(limit_s)

    def _client(self) -> KnowledgeClient:
        key = self._settings.api_key
        return KnowledgeClient(self._settings.knowledge_url, api_key=key.get_secret_value() if key else None)

    async def _answer_health(self, _: Request) -> JSONResponse:
        return JSONResponse({"status": "ok", "source": self._source, "syncing": self._running.locked()})

    async def _answer_sync(self, request: Request) -> JSONResponse:
        self._refuse_strangers(request)
        order = await _order(request)
        _log.info("sync of %s begins (run %s)", self._source, order.run_id or "of its own")
        try:
            result, listing = await self.sync(order)
        except (SourceFailed, KnowledgeError) as error:
            _log.error("sync of %s failed: %s", self._source, error)
            return _failure(error)
        _log.info("sync of %s ended: %s", self._source, result.model_dump_json(exclude={"problems"}))
        for remark in listing.remarks:
            _log.warning("%s: %s", self._source, remark)
        return JSONResponse(_report(result, listing))

    def _refuse_strangers(self, request: Request) -> None:
        """Raises Unauthorized unless the request shows the platform's key."""
        key = self._settings.sync_key or self._settings.api_key
        if key and not hmac.compare_digest(
            _digest(key.get_secret_value()), _digest(request.headers.get(KEY_HEADER, ""))
        ):
            raise Unauthorized(f"a sync needs the platform's key in the header {KEY_HEADER}")


@contextmanager
def _until(deadline: Deadline) -> Generator[None]:
    """Cancel what runs in the block at the deadline, and raise DeadlineExceeded for it."""
    with anyio.move_on_after(deadline.remaining_s) as scope:
        yield
    if scope.cancelled_caught:
        deadline.check()


async def _order(request: Request) -> SyncOrder:
    """The order in the request's body; an empty body orders nothing in particular."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY_BYTES:
            raise PayloadTooLarge(f"the order of a sync has at most {MAX_BODY_BYTES} bytes")
    if not body.strip():
        return SyncOrder()
    try:
        return SyncOrder.model_validate_json(body)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "body"
        raise InvalidRequest(f"the order of a sync is not right: {field}: {first['msg']}") from error


def _report(result: SyncResult, listing: Listing) -> dict[str, Any]:
    """What the platform records of a sync (its counts and ``message``), and what only this provider knows of it."""
    refused = [f"{problem.document}: {problem.message}" for problem in result.problems[:MAX_TOLD]]
    parts = [result.error]
    if result.failed:
        parts.append(f"{result.failed} documents were refused, among them {'; '.join(refused)}")
    return {
        **result.model_dump(exclude={"problems", "error"}),
        "documents": len(listing.documents),
        "message": ". ".join(part for part in parts if part)[:MAX_MESSAGE_LENGTH],
        "remarks": [remark[:MAX_MESSAGE_LENGTH] for remark in listing.remarks[:MAX_TOLD]],
    }


def _digest(text: str) -> bytes:
    """Of equal length whatever the text, and bytes whatever its script: what compare_digest needs."""
    return hashlib.sha256(text.encode()).digest()


def _failure(error: SourceFailed | KnowledgeError) -> JSONResponse:
    """Why a sync failed, so that the platform's record of the run names the one that must be mended."""
    if isinstance(error, SourceFailed):
        problem = ProblemDetails(
            title="The source could not be listed", status=502, detail=str(error), code="source_failed"
        )
        return _problem(problem.model_dump(exclude_none=True), problem.status)
    if isinstance(error, Conflict | Unavailable):
        return _problem(to_problem(error), error.status)
    return _problem(
        {**to_problem(error), "status": 502, "detail": f"the Knowledge Store refused: {error.message}"}, 502
    )


async def _refusal(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, KnowledgeError)
    return _problem(to_problem(error), error.status)


async def _breakdown(_: Request, __: Exception) -> JSONResponse:
    """Starlette logs the exception; the caller is told no more than that there was one."""
    return _problem(to_problem(InternalError("the provider broke down; its log says where")), InternalError.status)


def _problem(body: dict[str, Any], status: int) -> JSONResponse:
    return JSONResponse(body, status, media_type=PROBLEM_CONTENT_TYPE)
