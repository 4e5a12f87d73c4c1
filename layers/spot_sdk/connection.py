"""One store over HTTP: sends requests, repeats those that may be repeated, and turns failures into our errors."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from spot_sdk.errors import (
    DeadlineExceeded,
    InternalError,
    InvalidInput,
    InvalidRequest,
    KnowledgeError,
    ModelMismatch,
    Unavailable,
)
from spot_sdk.problems import from_problem
from spot_sdk.retrying import RetryPolicy, parse_retry_after

KEY_HEADER = "X-Internal-API-Key"
CORRELATION_HEADER = "X-Correlation-Id"
API_PATH = "/api/v1/knowledge"

_PASSING_STATUSES = (429, 503, 504)
_LOST = (httpx.NetworkError, httpx.RemoteProtocolError, httpx.ProxyError)

_log = logging.getLogger(__name__)

Model = TypeVar("Model", bound=BaseModel)


class StoreConnection:
    """Requests to the store whose API has the base address ``url``.

    Connections are kept open and shared; they belong to the event loop in which they were made, so in another loop
    (a Lambda function that calls ``asyncio.run`` for every event) new ones are made.
    """

    def __init__(
        self,
        url: str,
        api_key: str | None,
        *,
        timeout_s: float,
        retry: RetryPolicy,
        transport: httpx.AsyncBaseTransport | None,
        auth: httpx.Auth | None = None,
        deadline_s: float | None = None,
    ) -> None:
        """``timeout_s`` is for each wait of one request, ``deadline_s`` for a call with all its repetitions."""
        self.url = _checked_url(url)
        self._headers = {"Accept": "application/json"}
        if api_key is not None:
            self._headers[KEY_HEADER] = _checked_key(api_key)
        self._timeout_s = timeout_s
        self._retry = retry
        self._transport = transport
        self._auth = auth
        self._deadline_s = deadline_s
        self._http: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def identity(self) -> tuple[str, str | None]:
        """Whom a request reaches, and as whom: answers differ by no more than this and the request."""
        return self.url, self._headers.get(KEY_HEADER)

    async def call(
        self,
        answer: type[Model],
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        is_repeatable: bool = True,
        above_api: bool = False,
    ) -> Model:
        """Send a request to ``path`` below the API's base, or beside it, and return its answer.

        Raises KnowledgeError, of the class that the store or the status names.

        A repeatable request is sent again after a lost connection and after 429, 503 and 504; any other only when no
        connection was made. Nothing is sent again after another 4xx, nor after our own time-out: the store is busy
        enough. Redirections are not followed, for the key would go with them.
        """
        deadline = asyncio.timeout(self._deadline_s)
        try:
            async with deadline:
                return await self._repeat(answer, method, path, body, is_repeatable, above_api)
        except TimeoutError as error:
            if not deadline.expired():
                raise
            raise DeadlineExceeded(f"no answer from {self.url} within {self._deadline_s:g} s") from error

    async def _repeat(
        self, answer: type[Model], method: str, path: str, body: bytes | None, is_repeatable: bool, above_api: bool
    ) -> Model:
        url = (self.url.removesuffix(API_PATH) if above_api else self.url) + path
        attempt = 1
        while True:
            try:
                return _read(answer, await self._send(method, url, body))
            except _Failure as failure:
                may_repeat = failure.is_passing and (is_repeatable or not failure.was_sent)
                wait_s = self._retry.wait_s(attempt, failure.error.retry_after_s) if may_repeat else None
                if wait_s is None:
                    raise failure.error from failure.__cause__
                _log.info("%s %s: %s; sent again in %.2f s", method, url, failure.error.code, wait_s)
            attempt += 1
            await self._retry.sleep(wait_s)

    async def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        http, self._http = self._http, None
        if http is not None and self._loop is asyncio.get_running_loop():
            await http.aclose()

    async def _send(self, method: str, url: str, body: bytes | None) -> httpx.Response:
        headers = {"Content-Type": "application/json"} if body is not None else {}
        try:
            response = await self._client().request(method, url, content=body, headers=headers)
        except httpx.InvalidURL as error:
            raise _Failure(
                InvalidRequest(f"this cannot be asked: {error}"), is_passing=False, was_sent=False
            ) from error
        except httpx.TimeoutException as error:
            late = DeadlineExceeded(f"no answer from {self.url} within {self._timeout_s:g} s")
            connected = not isinstance(error, httpx.ConnectTimeout)
            raise _Failure(late, is_passing=not connected, was_sent=connected) from error
        except httpx.RequestError as error:
            lost = Unavailable(f"{self.url} cannot be reached: {error or type(error).__name__}")
            is_passing = isinstance(error, _LOST)
            raise _Failure(lost, is_passing=is_passing, was_sent=not isinstance(error, httpx.ConnectError)) from error
        if response.is_success:
            return response
        refused = _refusal(response)
        is_passing = response.status_code in _PASSING_STATUSES and not isinstance(refused, ModelMismatch)
        raise _Failure(refused, is_passing=is_passing, was_sent=True)

    def _client(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        if self._http is None or self._loop is not loop:
            self._loop = loop
            self._http = httpx.AsyncClient(
                headers=self._headers,
                auth=self._auth,
                timeout=self._timeout_s,
                transport=self._transport,
                follow_redirects=False,
            )
        return self._http


class _Failure(Exception):
    """Why a request has no answer. ``is_passing``: the same request may succeed in a moment."""

    def __init__(self, error: KnowledgeError, *, is_passing: bool, was_sent: bool) -> None:
        super().__init__(error)
        self.error = error
        self.is_passing = is_passing
        self.was_sent = was_sent


def _read(answer: type[Model], response: httpx.Response) -> Model:
    """The answer, of which a newer server may say more than we know."""
    try:
        return answer.model_validate_json(response.content, extra="ignore")
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, found["loc"])) or "body"
        raise InternalError(
            f"{response.url} answered {response.status_code} unexpectedly: {where}: {found['msg']}",
            correlation_id=response.headers.get(CORRELATION_HEADER),
        ) from error


def _refusal(response: httpx.Response) -> KnowledgeError:
    try:
        body = json.loads(response.content)
    except (ValueError, RecursionError):
        body = None
    return from_problem(
        body,
        response.status_code,
        retry_after_s=parse_retry_after(response.headers.get("Retry-After")),
        correlation_id=response.headers.get(CORRELATION_HEADER),
    )


def _checked_url(url: str) -> str:
    """The address without a slash at its end. Raises InvalidInput when it is none."""
    try:
        parsed = httpx.URL(url.strip())
    except httpx.InvalidURL as error:
        raise InvalidInput(f"{url!r} is not the address of a store: {error}") from error
    if parsed.scheme not in ("http", "https") or not parsed.host or parsed.query or parsed.fragment:
        raise InvalidInput(f"{url!r} is not the address of a store, such as http://host{API_PATH}")
    return str(parsed).rstrip("/")


def _checked_key(key: str) -> str:
    """The key as a header carries it. Raises InvalidInput, without the key, when none can."""
    key = key.strip()
    if not key or not key.isascii() or not key.isprintable():
        raise InvalidInput("the API key must be printable ASCII and not blank")
    return key
