"""Who may call which route: one table."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum

_API = "/api/v1/knowledge"


class Role(IntEnum):
    """What a caller may do; each role may do what the ones before it may. An open network's strangers are askers."""

    ANYONE = 0
    ASKER = 1
    READER = 2
    SOURCE = 3
    OPERATOR = 4


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: the role, and for a bound key the one source that it may write."""

    role: Role
    source: str | None = None


ROLES: tuple[tuple[str, str, Role], ...] = (
    ("GET", "/health", Role.ANYONE),
    ("GET", "/version", Role.READER),
    ("POST", f"{_API}/query", Role.ASKER),
    ("GET", f"{_API}/stats", Role.READER),
    ("GET", f"{_API}/documents", Role.READER),
    ("GET", f"{_API}/document", Role.READER),
    ("POST", f"{_API}/upsert", Role.SOURCE),
    ("POST", f"{_API}/bulk-upsert", Role.SOURCE),
    ("POST", f"{_API}/replace-children", Role.SOURCE),
    ("POST", f"{_API}/delete", Role.SOURCE),
    ("POST", f"{_API}/expire", Role.SOURCE),
    ("DELETE", f"{_API}/<document_id>", Role.SOURCE),
    ("POST", f"{_API}/sync-runs", Role.SOURCE),
    ("POST", f"{_API}/sync-runs/<run_id>/heartbeat", Role.SOURCE),
    ("POST", f"{_API}/sync-runs/<run_id>/complete", Role.SOURCE),
    ("POST", f"{_API}/sync-runs/<run_id>/fail", Role.SOURCE),
    ("POST", f"{_API}/sync-runs/<run_id>/confirm", Role.OPERATOR),
    ("GET", f"{_API}/sync-runs", Role.READER),
    ("GET", "/debug/slow-queries", Role.OPERATOR),
    ("GET", "/api/v1/knowledge-layer/items", Role.OPERATOR),
    ("GET", "/api/v1/knowledge-layer/item", Role.OPERATOR),
    ("GET", "/api/v1/keys", Role.OPERATOR),
    ("POST", "/api/v1/keys", Role.OPERATOR),
    ("DELETE", "/api/v1/keys/<name>", Role.OPERATOR),
    ("GET", "/api/v1/plugins/context_provider", Role.READER),
    ("GET", "/api/v1/plugins/context_provider/<provider_id>/sync", Role.READER),
    ("POST", "/api/v1/plugins/context_provider/<provider_id>/sync", Role.OPERATOR),
)
"""Every route with the role it needs; a test holds this equal to the functions' routes."""

_PATTERNS = [(method, re.compile(re.sub(r"<\w+>", "[^/]+", path)), role) for method, path, role in ROLES]


def role_for(method: str, path: str) -> Role:
    """The role that a request needs; a route that is not in the table needs the highest."""
    for known_method, pattern, role in _PATTERNS:
        if method == known_method and pattern.fullmatch(path):
            return role
    return Role.OPERATOR
