"""Requests signed for AWS (Signature Version 4): what the URL of a Lambda function asks for when it is not public.

Shapes: AWS IAM User Guide, "Create a signed AWS API request".
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import quote

import httpx

_ALGORITHM = "AWS4-HMAC-SHA256"
_FUNCTION_URL = re.compile(r"https://[a-z0-9]+\.lambda-url\.(?P<region>[a-z0-9-]+)\.on\.aws(\.cn)?(?=[:/]|$)")
_SIGNED = ("content-type", "host", "x-internal-api-key")  # and whatever begins with x-amz-


@dataclass(frozen=True, slots=True)
class AwsCredentials:
    """Whose name a request is signed in. ``session_token`` comes with credentials that last for a while only."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


def region_of_function_url(url: str) -> str | None:
    """The region of a Lambda function's URL; None for any other address."""
    match = _FUNCTION_URL.match(url)
    return None if match is None else match["region"]


class RequestSigner(httpx.Auth):
    """Signs each request with the credentials of that moment, or leaves it as it is while there are none."""

    requires_request_body = True

    def __init__(
        self,
        credentials: Callable[[], AwsCredentials | None],
        region: str,
        *,
        service: str = "lambda",
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._credentials = credentials
        self._region = region
        self._service = service
        self._clock = clock

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response]:
        credentials = self._credentials()
        if credentials is not None:
            self._sign(request, credentials)
        yield request

    def _sign(self, request: httpx.Request, credentials: AwsCredentials) -> None:
        now = self._clock().strftime("%Y%m%dT%H%M%SZ")
        request.headers["X-Amz-Date"] = now
        if credentials.session_token is not None:
            request.headers["X-Amz-Security-Token"] = credentials.session_token
        headers = _signed_headers(request)
        names = ";".join(headers)
        canonical = "\n".join(
            [
                request.method,
                _canonical_path(request),
                _canonical_query(request),
                *(f"{name}:{value}" for name, value in headers.items()),
                "",
                names,
                hashlib.sha256(request.content).hexdigest(),
            ]
        )
        scope = (now[:8], self._region, self._service, "aws4_request")
        to_sign = "\n".join([_ALGORITHM, now, "/".join(scope), hashlib.sha256(canonical.encode()).hexdigest()])
        key = f"AWS4{credentials.secret_access_key}".encode()
        for part in (*scope, to_sign):
            digest = hmac.new(key, part.encode(), hashlib.sha256)
            key = digest.digest()
        request.headers["Authorization"] = (
            f"{_ALGORITHM} Credential={credentials.access_key_id}/{'/'.join(scope)}, "
            f"SignedHeaders={names}, Signature={key.hex()}"
        )


def _signed_headers(request: httpx.Request) -> dict[str, str]:
    """The headers that the signature covers, in order, values with single spaces."""
    return {
        name: " ".join(value.split())
        for name, value in sorted(request.headers.items())
        if name in _SIGNED or name.startswith("x-amz-")
    }


def _canonical_path(request: httpx.Request) -> str:
    """The path as it travels, without empty and dot segments, and quoted once more."""
    travelling = request.url.raw_path.partition(b"?")[0].decode()
    segments: list[str] = []
    for segment in travelling.split("/"):
        if segment == "..":
            segments = segments[:-1]
        elif segment not in ("", "."):
            segments.append(segment)
    end = "/" if segments and travelling.endswith("/") else ""
    return quote(f"/{'/'.join(segments)}{end}", safe="/~")


def _canonical_query(request: httpx.Request) -> str:
    """The query as it travels, its members in order."""
    members = [member.partition("=") for member in request.url.query.decode().split("&") if member]
    return "&".join(f"{name}={value}" for name, _, value in sorted(members))
