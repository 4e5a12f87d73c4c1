"""A request's body, decoded and parsed once, and strictly: what JSON does not allow is refused and not guessed at."""

from __future__ import annotations

import base64
import binascii
import json
import math
import zlib
from typing import Any

from spot_sdk.errors import MalformedRequest, PayloadTooLarge

MAX_BODY_BYTES = 10 * 1024 * 1024  # what an HTTP API lets through
_MAX_INTEGER_DIGITS = 400


def parse_body(body: str | None, *, is_base64: bool, content_encoding: str | None) -> Any:
    """The JSON value of a payload 2.0 body; None when there is no body.

    Raises MalformedRequest for bad base64, gzip, UTF-8 or JSON (NaN, Infinity, numbers out of range, a key twice and
    nesting too deep included), PayloadTooLarge when it is too large once unpacked.
    """
    if not body:
        return None
    return _parse_json(_to_text(_unpack(_to_bytes(body, is_base64), content_encoding)))


def _to_bytes(body: str, is_base64: bool) -> bytes:
    if not is_base64:
        return body.encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError) as error:
        raise MalformedRequest("the body is not the base64 that the gateway announced") from error


def _unpack(body: bytes, content_encoding: str | None) -> bytes:
    match (content_encoding or "identity").strip().lower():
        case "identity":
            return body
        case "gzip":
            unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
            try:
                unpacked = unpacker.decompress(body, MAX_BODY_BYTES + 1)
            except zlib.error as error:
                raise MalformedRequest("the body is not gzip, as its Content-Encoding says") from error
            if len(unpacked) > MAX_BODY_BYTES:
                raise PayloadTooLarge(f"the body unpacks to more than {MAX_BODY_BYTES} bytes")
            if not unpacker.eof:
                raise MalformedRequest("the gzip body ends too early")
            if unpacker.unused_data:
                raise MalformedRequest("something follows the gzip body")
            return unpacked
        case _:
            raise MalformedRequest("this Content-Encoding is not understood; send identity or gzip")


def _to_text(body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedRequest(f"the body is not UTF-8 (byte {error.start})") from error


def _parse_json(text: str) -> Any:
    try:
        return json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=_finite_float,
            parse_int=_bounded_int,
            object_pairs_hook=_object_without_twins,
        )
    except json.JSONDecodeError as error:
        raise MalformedRequest(f"the body is not JSON: {error.msg} at character {error.pos}") from error
    except RecursionError as error:
        raise MalformedRequest("the body is nested too deep") from error


def _refuse_constant(name: str) -> float:
    raise MalformedRequest(f"{name} is not a JSON number")


def _finite_float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise MalformedRequest(f"{digits[:20]} is beyond the range of a number")
    return number


def _bounded_int(digits: str) -> int:
    if len(digits) > _MAX_INTEGER_DIGITS:
        raise MalformedRequest(f"an integer of {len(digits)} digits is beyond the range of a number")
    return int(digits)


def _object_without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        seen: set[str] = set()
        twin = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise MalformedRequest(f"the key {twin[:80]!r} stands twice in one object")
    return members
