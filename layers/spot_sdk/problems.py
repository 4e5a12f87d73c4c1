"""How an error travels: RFC 9457 problem details, written by the server and read back by the client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from spot_sdk.errors import (
    Conflict,
    DeadlineExceeded,
    Forbidden,
    InternalError,
    InvalidInput,
    KnowledgeError,
    MalformedRequest,
    MethodNotAllowed,
    NotFound,
    Overloaded,
    PayloadTooLarge,
    Problem,
    Unauthorized,
    Unavailable,
    errors_by_code,
)

PROBLEM_CONTENT_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:spot:knowledge:problem:"

_BY_STATUS: dict[int, type[KnowledgeError]] = {
    400: MalformedRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: MethodNotAllowed,
    408: DeadlineExceeded,
    409: Conflict,
    413: PayloadTooLarge,
    429: Overloaded,
    502: Unavailable,
    503: Unavailable,
    504: DeadlineExceeded,
}


class ProblemDetails(BaseModel):
    """Body of every answer that is an error (media type ``application/problem+json``).

    ``code`` is the name to branch on; ``detail`` is for people. ``problems`` says which documents and fields are at
    fault. ``column`` (1-based) and ``expected`` come with ``invalid_tag_expression`` alone.
    """

    type: str = "about:blank"
    title: str = ""
    status: int
    detail: str = ""
    code: str = ""
    problems: list[Problem] = []
    correlation_id: str | None = None
    column: int | None = None
    expected: str | None = None


def to_problem(error: KnowledgeError, correlation_id: str | None = None) -> dict[str, Any]:
    """The JSON body that tells of ``error``; send it with ``error.status`` and, if set, a Retry-After header."""
    return ProblemDetails(
        type=TYPE_PREFIX + error.code,
        title=error.title,
        status=error.status,
        detail=error.message,
        code=error.code,
        problems=error.problems,
        correlation_id=correlation_id or error.correlation_id,
        **error.members(),
    ).model_dump(exclude_none=True)


def from_problem(
    body: object, status: int, *, retry_after_s: float | None = None, correlation_id: str | None = None
) -> KnowledgeError:
    """The error that an answer with this ``status`` and decoded JSON ``body`` tells of.

    The code decides; where there is none that we know (a newer server, a proxy's page, a gateway's own JSON), the
    status does. ``correlation_id`` serves where the body has none.
    """
    details = _read(body, status)
    kind = errors_by_code().get(details.code) or error_for_status(status)
    members = {name: value for name in kind.member_names if (value := getattr(details, name)) is not None}
    return kind(
        details.detail or details.title or f"{kind.title} (HTTP {status})",
        problems=details.problems,
        retry_after_s=retry_after_s,
        correlation_id=details.correlation_id or correlation_id,
        **members,
    )


def error_for_status(status: int) -> type[KnowledgeError]:
    """The class of error for an HTTP status that came without a code."""
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return InvalidInput if 400 <= status < 500 else InternalError


def summary(first: Problem, found: int) -> str:
    """One line about ``found`` problems, of which this is the first: where it is, as far as it says, and what."""
    where = " ".join(part for part in (first.document, first.field) if part)
    more = f" (and {found - 1} more)" if found > 1 else ""
    return f"{where}: {first.message}{more}" if where else f"{first.message}{more}"


def _read(body: object, status: int) -> ProblemDetails:
    """What can be understood of ``body``; gateways say ``message`` for what RFC 9457 calls ``detail``."""
    if isinstance(body, Mapping):
        try:
            return ProblemDetails.model_validate({"status": status, "detail": body.get("message") or "", **body})
        except ValidationError:
            pass
    return ProblemDetails(status=status)
