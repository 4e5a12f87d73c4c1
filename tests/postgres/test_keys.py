"""Keys that operators issue, on a real PostgreSQL."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from knowledge.access.keyring import digest
from knowledge.access.keys import KeyStore
from knowledge.access.roles import Caller, Role
from knowledge.db.connection import Database
from spot_sdk.access import IssueKey
from spot_sdk.errors import NotFound

WIKI = IssueKey(name="wiki", role="source", source="provider-wiki", grace_s=3600)


@pytest.fixture
def keys(database: Database) -> KeyStore:
    return KeyStore(database)


def whose(keys: KeyStore, key: str) -> Caller | None:
    return keys.find(digest(key))


def test_a_key_says_whose_it_is(keys: KeyStore) -> None:
    assert whose(keys, keys.issue(WIKI).key) == Caller(Role.SOURCE, "provider-wiki")
    reader = keys.issue(IssueKey(name="console", role="reader")).key
    assert whose(keys, reader) == Caller(Role.READER, None)
    assert whose(keys, "made up") is None


def test_only_the_digest_is_stored(keys: KeyStore, database: Database) -> None:
    key = keys.issue(WIKI).key
    rows = database.run(lambda t: t.execute("SELECT k::text AS row FROM knowledge_api_keys AS k").fetchall())
    assert key not in rows[0]["row"]
    assert digest(key).hex() in rows[0]["row"]


def test_during_a_rotation_two_keys_are_valid_and_no_more(keys: KeyStore) -> None:
    first, second, third = (keys.issue(WIKI).key for _ in range(3))
    assert whose(keys, first) is None
    assert whose(keys, second) == whose(keys, third) == Caller(Role.SOURCE, "provider-wiki")


def test_without_grace_the_key_before_goes_at_once(keys: KeyStore) -> None:
    first = keys.issue(WIKI).key
    second = keys.issue(WIKI.model_copy(update={"grace_s": 0})).key
    assert whose(keys, first) is None
    assert whose(keys, second) is not None


def test_revoking_makes_every_key_of_the_name_invalid(keys: KeyStore) -> None:
    keys_of_wiki = [keys.issue(WIKI).key, keys.issue(WIKI).key]
    other = keys.issue(IssueKey(name="other", role="operator")).key
    keys.revoke("wiki")
    assert [whose(keys, key) for key in keys_of_wiki] == [None, None]
    assert whose(keys, other) == Caller(Role.OPERATOR, None)
    with pytest.raises(NotFound, match="wiki"):
        keys.revoke("wiki")


def test_the_list_tells_all_but_the_keys(keys: KeyStore) -> None:
    key = keys.issue(WIKI).key
    [record] = keys.list()
    assert (record.name, record.role, record.source, record.expires_at) == ("wiki", "source", "provider-wiki", None)
    assert key not in record.model_dump_json()


def test_keys_issued_at_once_leave_two_valid(database_url: str) -> None:
    def issue(_: int) -> str:
        own = Database(lambda: database_url)
        try:
            return KeyStore(own).issue(WIKI).key
        finally:
            own.close()

    with ThreadPoolExecutor(8) as pool:
        issued = list(pool.map(issue, range(8)))
    own = Database(lambda: database_url)
    valid = [key for key in issued if whose(KeyStore(own), key)]
    own.close()
    assert len(valid) == 2
