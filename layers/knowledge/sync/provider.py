"""The call to a provider: ``POST <url>/internal/sync``, made so that no answer can hurt and every failure has a reason.

Addresses come from configuration alone, https or hosts that it allows without TLS. Each name is resolved once, the
addresses are checked, and the connection goes to the address that was checked, so that a name cannot point elsewhere a
moment later. Redirects are not followed: they would lead to an address that nobody configured.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import socket
from collections.abc import Callable, Iterable
from typing import Annotated, Any
from urllib.parse import urlsplit

import httpx
from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from knowledge.sync.config import Provider

MAX_ANSWER_BYTES = 64 * 1024
MAX_MESSAGE_LENGTH = 2_000
_CONNECT_TIMEOUT_S = 5.0
_STOP_POLL_S = 0.5
_METADATA = {ipaddress.ip_address("fd00:ec2::254"), ipaddress.ip_address("100.100.100.200")}

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_COMPATIBLE = ipaddress.IPv6Network("::/96")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def _plain(text: str) -> str:
    """A text without what PostgreSQL cannot store."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()


def _short(text: Any) -> Any:
    return _plain(text)[:MAX_MESSAGE_LENGTH] if isinstance(text, str) else text


Count = Annotated[int, Field(ge=0, le=10**9, strict=True)]  # two of them fit the column, too
Resolve = Callable[[str, int], Iterable[str]]


class ProviderFailed(Exception):
    """The provider did not sync; the message is for an operator, and says what to look at."""


class ProviderAnswer(BaseModel):
    """What a provider says of its sync. A simple one says ``upserted`` alone, which counts as updated."""

    created: Count = 0
    updated: Count = 0
    unchanged: Count = 0
    removed: Count = 0
    held: Count = 0
    upserted: Count = 0
    message: Annotated[str, BeforeValidator(_short)] = ""
    error: Annotated[str, BeforeValidator(_short)] = ""
    status: Annotated[str, BeforeValidator(_short)] = ""


def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host, as the system has them."""
    return [str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


def call_provider(
    provider: Provider,
    *,
    run_id: int,
    key: str | None,
    timeout_s: float,
    stop: Callable[[], bool],
    resolve: Resolve = resolve,
    verify: Any = True,
) -> ProviderAnswer:
    """Ask a provider to sync, and return what it says.

    The provider gets ``{"run_id": …, "deadline_ms": …}`` and the internal key. ``stop`` is asked while the answer comes
    in: true ends the call. Raises ProviderFailed when it cannot be reached, takes longer than ``timeout_s``, redirects,
    answers anything but 2xx, or says something that is not a short JSON object.
    """
    timeout_s = max(0.0, timeout_s)
    url = urlsplit(f"{provider.url}/internal/sync")
    port = url.port or (443 if url.scheme == "https" else 80)
    address = _safe_address(provider.host, port, resolve)
    netloc = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    try:
        request = httpx.Request(
            "POST",
            url._replace(netloc=netloc).geturl(),
            headers={
                "Host": url.netloc,
                "Content-Type": "application/json",
                "Accept-Encoding": "identity",  # what is packed could unpack to any size
                **({"X-Internal-API-Key": key} if key else {}),
            },
            content=json.dumps({"run_id": str(run_id), "deadline_ms": int(timeout_s * 1000)}),
            extensions={
                "sni_hostname": provider.host,
                "timeout": httpx.Timeout(None, connect=min(_CONNECT_TIMEOUT_S, timeout_s)).as_dict(),
            },
        )
    except (httpx.InvalidURL, UnicodeError) as error:
        raise ProviderFailed(f"no request can be made of its address and the key: {type(error).__name__}") from None
    try:
        status, body = asyncio.run(_exchange(request, timeout_s, stop, verify))
    except httpx.ConnectTimeout:
        raise ProviderFailed(f"no connection to {url.netloc} within {_CONNECT_TIMEOUT_S:.0f} s") from None
    except TimeoutError:
        limit = "sync_timeout_ms" if timeout_s * 1000 >= provider.sync_timeout_ms else "the function's own time was up"
        raise ProviderFailed(f"no answer within {timeout_s:.0f} s ({limit})") from None
    except httpx.HTTPError as error:
        raise ProviderFailed(f"cannot reach {url.netloc}: {error}") from error
    return _parse(status, body)


def _safe_address(host: str, port: int, resolve: Resolve) -> str:
    """An address of the host that may be called. Raises ProviderFailed."""
    try:
        addresses = [ipaddress.ip_address(address.partition("%")[0]) for address in resolve(host, port)]
    except (OSError, ValueError) as error:
        raise ProviderFailed(f"the host {host!r} has no address: {error}") from error
    for address in addresses:
        plain = _unwrapped(address)
        if plain.is_link_local or plain.is_multicast or plain.is_unspecified or plain in _METADATA:
            raise ProviderFailed(f"the host {host!r} has the address {plain}, which is never called")
    if not addresses:
        raise ProviderFailed(f"the host {host!r} has no address")
    return str(addresses[0])


def _unwrapped(address: Address) -> Address:
    """The IPv4 address that an IPv6 one stands for (mapped, 6to4, Teredo, NAT64, compatible), else the address."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64 or (address in _COMPATIBLE and int(address) > 1):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1] or address


async def _exchange(
    request: httpx.Request, timeout_s: float, stop: Callable[[], bool], verify: Any
) -> tuple[int, bytes]:
    """Status and body of the answer; the time is for the whole of it, however slowly it drips.

    Raises TimeoutError, ProviderFailed when ``stop`` says so or the body is too long, and httpx's errors.
    """
    async with asyncio.timeout(timeout_s), httpx.AsyncClient(trust_env=False, verify=verify) as client:
        answer = asyncio.create_task(_send(client, request))
        try:
            while not answer.done():
                await asyncio.wait([answer], timeout=_STOP_POLL_S)
                if stop():
                    raise ProviderFailed("another run took over")
            return answer.result()
        finally:
            answer.cancel()
            await asyncio.wait([answer])  # whatever it ends with is heard


async def _send(client: httpx.AsyncClient, request: httpx.Request) -> tuple[int, bytes]:
    response = await client.send(request, stream=True)
    encoding = response.headers.get("content-encoding", "identity")
    if encoding.lower() != "identity":
        raise ProviderFailed(f"the answer has Content-Encoding {encoding[:40]!r}, which was not asked for")
    body = bytearray()
    async for piece in response.aiter_raw(16_384):
        body += piece
        if len(body) > MAX_ANSWER_BYTES:
            raise ProviderFailed(f"the answer is longer than {MAX_ANSWER_BYTES // 1024} KiB")
    return response.status_code, bytes(body)


def _parse(status: int, body: bytes) -> ProviderAnswer:
    if 300 <= status < 400:
        raise ProviderFailed(f"answered {status}, a redirect, which is not followed; configure the final address")
    try:
        said = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        said = None
    if not 200 <= status < 300:
        raise ProviderFailed(f"answered {status}{_reason(said)}")
    if not isinstance(said, dict):
        raise ProviderFailed(f"answered {status} with something that is not a JSON object")
    try:
        answer = ProviderAnswer.model_validate(said)
    except ValidationError as error:
        found = error.errors()[0]
        raise ProviderFailed(f"answered {status}, but {'.'.join(map(str, found['loc']))}: {found['msg']}") from None
    if answer.error or answer.status.lower() in ("failed", "error"):
        raise ProviderFailed(f"answered {status}, but says that it failed{_reason(said)}")
    return answer


def _reason(said: Any) -> str:
    """What a failing provider gives as its reason, shortened to a line."""
    if isinstance(said, dict):
        for name in ("error", "detail", "message", "title"):
            if isinstance(said.get(name), str):
                return f": {' '.join(_plain(said[name]).split())[:500]}"
    return ""
