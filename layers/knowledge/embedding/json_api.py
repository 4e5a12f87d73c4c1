"""One POST of JSON to an embedding server: within a budget of time, with one retry where that can help."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

import httpx

from spot_sdk.errors import EmbedderUnavailable
from spot_sdk.retrying import parse_retry_after

_OVERLOADED = frozenset({408, 429, 502, 503, 504})  # these speak of the server, not of the request
_BACKOFF_S = 0.25
_LONGEST_REASON = 200


class Reply(NamedTuple):
    """A server's last word: the JSON ``body`` of a success, or the ``reason`` that it gives for another status."""

    status: int
    body: Any = None
    reason: str = ""

    @property
    def ok(self) -> bool:
        return self.status == HTTPStatus.OK


class JsonApi:
    """A URL of the server ``name`` to which JSON is posted. Safe to use from several threads.

    ``timeout_s`` is the time for a whole exchange: connecting, sending, waiting, receiving, and one retry after a
    failed connection or a status of 408, 429 or 5xx, with the pause that the server asks for where that fits.
    """

    def __init__(self, url: str, *, name: str, timeout_s: float, headers: Mapping[str, str] | None = None) -> None:
        self._url = url
        self._name = name
        self._timeout_s = timeout_s
        # Loading the authorities' certificates takes 0.2 s, which plain HTTP need not wait for.
        self._client = httpx.Client(headers=headers, verify=url.startswith("https:"))

    def close(self) -> None:
        """Close the connections; the object cannot be used after."""
        self._client.close()

    def post(self, payload: Mapping[str, object], *, server_works: bool = False) -> Reply:
        """What the server says in the end, whatever its status.

        A status such as 500 may speak of the server or of the request, so it is worth a second try unless the caller
        knows that the ``server_works``.
        Raises EmbedderUnavailable when it says nothing in time, is overloaded, or answers 200 and no JSON.
        """
        content = json.dumps(payload).encode()
        deadline = time.monotonic() + self._timeout_s
        outcome = self._attempt(content, deadline)
        pause_s = _pause_s(outcome, server_works=server_works)
        if pause_s is not None and time.monotonic() + pause_s < deadline:
            time.sleep(pause_s)
            outcome = self._attempt(content, deadline)
        if isinstance(outcome, EmbedderUnavailable):
            raise outcome
        return outcome

    def _attempt(self, content: bytes, deadline: float) -> Reply | EmbedderUnavailable:
        """One exchange; a failure that a second try may mend is returned, not raised."""
        try:
            status, headers, body = self._exchange(content, deadline)
        except httpx.TimeoutException:
            return EmbedderUnavailable(f"{self._name} at {self._url} did not answer within {self._timeout_s:g} s")
        except httpx.RequestError as error:
            return EmbedderUnavailable(f"{self._name} at {self._url} cannot be reached: {error}")
        if status in _OVERLOADED:
            return EmbedderUnavailable(
                f"{self._name} at {self._url} answered {status}: {_reason(body)}",
                retry_after_s=parse_retry_after(headers.get("Retry-After")),
            )
        if status != HTTPStatus.OK:
            return Reply(status, reason=_reason(body))
        try:
            return Reply(status, body=json.loads(body))
        except (ValueError, RecursionError) as error:
            raise EmbedderUnavailable(f"{self._name} at {self._url} answered something else than JSON") from error

    def _exchange(self, content: bytes, deadline: float) -> tuple[int, httpx.Headers, bytes]:
        remaining_s = max(0.0, deadline - time.monotonic())
        headers = {"Content-Type": "application/json"}
        with self._client.stream("POST", self._url, content=content, headers=headers, timeout=remaining_s) as response:
            body = bytearray()
            for part in response.iter_bytes():
                body += part
                if time.monotonic() > deadline:  # httpx's own limit starts anew with every part
                    raise httpx.ReadTimeout("too slow")
            return response.status_code, response.headers, bytes(body)


def _pause_s(outcome: Reply | EmbedderUnavailable, *, server_works: bool) -> float | None:
    """How long to wait before the second try; None when there is no point in one."""
    if isinstance(outcome, EmbedderUnavailable):
        return _backoff_s() if outcome.retry_after_s is None else outcome.retry_after_s
    return _backoff_s() if outcome.status >= HTTPStatus.INTERNAL_SERVER_ERROR and not server_works else None


def _backoff_s() -> float:
    return _BACKOFF_S * random.uniform(1, 2)  # noqa: S311 - spreads clients in time, guards nothing


def _reason(body: bytes) -> str:
    """What a server says went wrong, as Ollama, OpenAI and their kin say it; cut, for it goes into our own message."""
    try:
        said = json.loads(body)
        said = said.get("error", said)
        said = said if isinstance(said, str) else said.get("message", "")
    except (ValueError, RecursionError, AttributeError):
        return ""
    return " ".join(str(said).split())[:_LONGEST_REASON]
