"""Reads a request's body, but no more of it than is allowed."""

from __future__ import annotations

from starlette.requests import Request


class BodyTooLarge(Exception):
    """The body has more bytes than allowed."""


async def read_body(request: Request, limit: int) -> bytes:
    """The body, of at most `limit` bytes. Raises BodyTooLarge, before reading if its length is announced."""
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > limit:
        raise BodyTooLarge
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise BodyTooLarge
        chunks.append(chunk)
    return b"".join(chunks)
