"""Keys and roles: one table, total over the functions' routes, and every route behind it."""

from __future__ import annotations

import importlib
import re

import pytest

from knowledge.access.keyring import Keyring, digest
from knowledge.access.roles import ROLES, Caller, Role, role_for
from spot_sdk.errors import Forbidden, Unauthorized

FUNCTIONS = ("upsert", "query", "admin")
KEYS = {"reader-key": Caller(Role.READER), "source-key": Caller(Role.SOURCE, "wiki"), "op": Caller(Role.OPERATOR)}


class Lookup:
    def __init__(self) -> None:
        self.asked = 0
        self.keys = {digest(key): caller for key, caller in KEYS.items()}

    def __call__(self, key_digest: bytes) -> Caller | None:
        self.asked += 1
        return self.keys.get(key_digest)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def keyring(anonymous: Role = Role.ANYONE, find: Lookup | None = None, clock: Clock | None = None) -> Keyring:
    return Keyring(lambda: ["current", "previous"], anonymous=anonymous, find=find or Lookup(), clock=clock or Clock())


def test_the_table_names_exactly_the_routes_of_the_functions() -> None:
    served = set()
    for name in FUNCTIONS:
        app = importlib.import_module(f"functions.{name}.app").app
        served |= {(method, path) for method, path, _ in app.promises()}
    assert served == {(method, path) for method, path, _ in ROLES}


@pytest.mark.parametrize(("method", "path", "role"), ROLES)
def test_each_route_wants_its_role(method: str, path: str, role: Role) -> None:
    path = re.sub(r"<\w+>", "x%2Fy", path)
    assert role_for(method, path) is role
    ring = keyring()
    for key, caller in KEYS.items():
        if caller.role >= role:
            assert ring.authorize(method, path, key).role in (caller.role, Role.ANYONE)
        else:
            with pytest.raises(Forbidden):
                ring.authorize(method, path, key)
    if role is not Role.ANYONE:
        with pytest.raises(Unauthorized):
            ring.authorize(method, path, None)


@pytest.mark.parametrize("path", ["/api/v1/knowledge/query/", "/api/v1/knowledge//query", "/anything", "/"])
def test_a_route_that_is_not_in_the_table_wants_the_highest_role(path: str) -> None:
    assert role_for("POST", path) is Role.OPERATOR


def test_both_internal_keys_may_do_everything() -> None:
    for key in ("current", "previous"):
        assert keyring().authorize("POST", "/api/v1/knowledge/keys", key) == Caller(Role.OPERATOR)


def test_open_queries_need_no_key_and_writes_still_do() -> None:
    ring = keyring(anonymous=Role.READER)
    ring.authorize("POST", "/api/v1/knowledge/query", None)
    with pytest.raises(Unauthorized):
        ring.authorize("POST", "/api/v1/knowledge/upsert", None)


@pytest.mark.parametrize("key", ["wrong", "é", "\ud800", "current ", "Current", "x" * 100_000])
def test_a_wrong_key_is_refused_whatever_its_bytes(key: str) -> None:
    with pytest.raises(Unauthorized):
        keyring(anonymous=Role.READER).authorize("POST", "/api/v1/knowledge/query", key)


def test_a_source_key_carries_its_source() -> None:
    assert keyring().authorize("POST", "/api/v1/knowledge/upsert", "source-key").source == "wiki"


def test_a_looked_up_key_is_remembered_for_a_while_and_then_asked_for_again() -> None:
    find, clock = Lookup(), Clock()
    ring = keyring(find=find, clock=clock)
    for _ in range(3):
        ring.authorize("POST", "/api/v1/knowledge/query", "reader-key")
    assert find.asked == 1
    find.keys.clear()  # revoked
    clock.now = 31
    with pytest.raises(Unauthorized):
        ring.authorize("POST", "/api/v1/knowledge/query", "reader-key")


def test_wrong_keys_without_end_do_not_fill_the_memory() -> None:
    ring = keyring()
    for number in range(3_000):
        with pytest.raises(Unauthorized):
            ring.authorize("POST", "/api/v1/knowledge/query", f"guess-{number}")
    assert len(ring._remembered) <= 1_001
