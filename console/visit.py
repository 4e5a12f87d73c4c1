"""One request to the console, and what it may be answered with."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import httpx
from aws_lambda_powertools.utilities.data_classes import APIGatewayProxyEventV2
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import Field, File, create_form_parser

from spot_sdk.client import KnowledgeClient
from spot_sdk.errors import InvalidRequest
from spot_sdk.operators import OperatorClient

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Access:
    """What the console is given. ``keys`` gives the internal keys, the current one first.

    ``api_url`` is the base of the Knowledge API, None where it is behind the gateway that requests come through;
    ``analyzer_url`` that of the analyzer that judges mails; ``series_url`` that of the local service's metrics.
    ``transport`` takes the place of the network, in tests.
    """

    keys: Callable[[], list[str]]
    api_url: str | None = None
    analyzer_url: str | None = None
    series_url: str | None = None
    transport: httpx.AsyncBaseTransport | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a page answers with."""

    body: str = ""
    status: int = HTTPStatus.OK
    media_type: str = "text/html; charset=utf-8"
    headers: dict[str, str] = field(default_factory=dict[str, str])
    cookies: tuple[str, ...] = ()


def redirect(to: str, *cookies: str) -> Answer:
    """Go on there, by GET."""
    return Answer(status=HTTPStatus.SEE_OTHER, headers={"Location": to}, cookies=cookies)


@dataclass(frozen=True, slots=True)
class Store:
    """Both sides of the store's API."""

    knowledge: KnowledgeClient
    operators: OperatorClient


class Visit:
    """A request: what was sent, and what it may ask."""

    form_token: str = ""
    """What the forms of this session carry."""

    def __init__(self, event: dict[str, Any], access: Access) -> None:
        self._event = APIGatewayProxyEventV2(event)
        self.access = access

    @property
    def method(self) -> str:
        return self._event.http_method

    @property
    def path(self) -> str:
        return self._event.path

    @cached_property
    def query(self) -> dict[str, str]:
        """Query parameters, the last of equal names."""
        return dict(parse_qsl(self._event.raw_query_string or "", keep_blank_values=True))

    @cached_property
    def form(self) -> dict[str, str]:
        """A form's fields, the last of equal names; of a form with files, those that are text."""
        if self._is_multipart:
            return {name: value.decode("utf-8", "replace") for name, value in self._parts.items()}
        return dict(parse_qsl(self.body.decode("utf-8", "replace"), keep_blank_values=True))

    def upload(self, name: str) -> bytes:
        """A file that was sent with a form, empty where there is none."""
        return self._parts.get(name, b"") if self._is_multipart else b""

    @property
    def _is_multipart(self) -> bool:
        return self.content_type.lower().startswith("multipart/form-data")

    @cached_property
    def _parts(self) -> dict[str, bytes]:
        """A multipart form's fields and files, the last of equal names. Raises InvalidRequest."""
        found: dict[str, bytes] = {}

        def keep_field(field: Field) -> None:
            found[_text(field.field_name)] = field.value or b""

        def keep_file(file: File) -> None:
            file.file_object.seek(0)
            found[_text(file.field_name)] = file.file_object.read()

        headers = {"Content-Type": self.content_type.encode("utf-8", "replace")}
        in_memory = {"MAX_MEMORY_FILE_SIZE": len(self.body), "MAX_FIELDS": 100}
        try:
            parser = create_form_parser(headers, keep_field, keep_file, config=in_memory)
            parser.write(self.body)
            parser.finalize()
        except FormParserError as error:
            raise InvalidRequest("That form cannot be read.") from error
        return found

    @cached_property
    def body(self) -> bytes:
        sent = self._event.body or ""
        return base64.b64decode(sent) if self._event.is_base64_encoded else sent.encode()

    @property
    def content_type(self) -> str:
        return self._event.headers.get("content-type", "")

    def cookie(self, name: str) -> str:
        """A cookie's value, empty where there is none."""
        for cookie in self._event.cookies or []:
            found, _, value = cookie.partition("=")
            if found == name:
                return value
        return ""

    @property
    def is_live(self) -> bool:
        """True when a page asks for a part of itself."""
        return self._event.headers.get("hx-request") == "true"

    @property
    def is_secure(self) -> bool:
        return self._event.headers.get("x-forwarded-proto", "https") == "https"

    @property
    def api_url(self) -> str:
        """The base of the Knowledge API. A gateway's own name for itself is taken, never what a caller says of it."""
        return self.access.api_url or f"https://{self._event.request_context.domain_name}/api/v1/knowledge"

    def ask(self, work: Callable[[Store], Coroutine[Any, Any, T]]) -> T:
        """What ``work`` finds in the store. Raises KnowledgeError."""

        async def run() -> T:
            async with self._store() as store:
                return await work(store)

        return asyncio.run(run())

    @asynccontextmanager
    async def _store(self) -> AsyncGenerator[Store]:
        url, key, transport = self.api_url, next(iter(self.access.keys()), None), self.access.transport
        async with (
            KnowledgeClient(url, key, transport=transport) as knowledge,
            OperatorClient(url, key, transport=transport) as operators,
        ):
            yield Store(knowledge, operators)


def _text(name: bytes | None) -> str:
    return (name or b"").decode("utf-8", "replace")
