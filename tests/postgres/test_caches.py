"""Caches: never a stale answer, whatever is written, removed or expires; never in the way, whatever befalls Redis."""

from __future__ import annotations

import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import which

import pytest
import redis

from knowledge.cache.base import Cache
from knowledge.cache.embeddings import CachingEmbedder
from knowledge.cache.memory import MemoryCache
from knowledge.cache.redis import PREFIX, RedisCache
from knowledge.db.connection import Database
from knowledge.documents.expiry import Expiry
from knowledge.documents.ingest import Ingestion
from knowledge.documents.retrieval import Retrieval
from knowledge.documents.search import DocumentSearch
from knowledge.documents.store import DocumentStore
from knowledge.embedding.hashing import HashEmbedder
from spot_sdk.documents import KnowledgeDocument, Query

ROOM = 1_000_000
PATIENCE_S = 20.0


class RedisServer:
    """A real one on loopback, of one test."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self._folder = folder
        self.start()

    def start(self) -> None:
        program = which("redis-server")
        assert program is not None
        self.process = subprocess.Popen(
            [program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", str(self._folder)],
            stdout=subprocess.DEVNULL,
        )
        with redis.Redis(port=self.port) as client:
            until = time.monotonic() + PATIENCE_S
            while True:
                try:
                    client.ping()
                    return
                except redis.ConnectionError:
                    assert time.monotonic() < until
                    assert self.process.poll() is None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def stored(self) -> list[str]:
        with redis.Redis(port=self.port) as client:
            return sorted(key.decode() for key in client.keys("*"))  # type: ignore[union-attr]

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    if which("redis-server") is None:
        pytest.skip("redis-server is not installed: apt-get install redis-server")
    server = RedisServer(tmp_path)
    yield server
    server.stop()


@pytest.fixture
def shared(server: RedisServer) -> Iterator[RedisCache]:
    cache = RedisCache(server.url)
    yield cache
    cache.close()


@pytest.fixture(params=["memory", "redis"])
def cache(request: pytest.FixtureRequest) -> Cache:
    return MemoryCache(ROOM) if request.param == "memory" else request.getfixturevalue("shared")


@pytest.fixture
def cached(search: DocumentSearch, embedder: HashEmbedder, cache: Cache) -> Retrieval:
    return Retrieval(search, embedder, embeddings=cache, answers=cache, keep_s=300)


def ask(retrieval: Retrieval, text: str = "gift cards", **options: object) -> tuple[list[str], str]:
    """The ids found, and whether the cache answered."""
    answer = retrieval.answer(Query.model_validate({"text": text, "debug": True, **options}))
    assert answer.debug is not None
    return [document.id for document in answer.documents], answer.debug.cache


def document(id_: str, content: str = "gift cards", **fields: object) -> KnowledgeDocument:
    return KnowledgeDocument.model_validate({"id": id_, "content": content, **fields})


def test_the_same_question_is_answered_from_the_cache(cached: Retrieval, ingestion: Ingestion) -> None:
    ingestion.upsert([document("a")])
    assert ask(cached) == (["a"], "miss")
    assert ask(cached) == (["a"], "hit")
    first = cached.answer(Query(text="gift cards"))
    assert first == cached.answer(Query(text="gift cards"))
    assert first.debug is None


@pytest.mark.parametrize(
    "other", [{"text": "gift card"}, {"top_k": 4}, {"min_score": 0.1}, {"tags": "x"}, {"strategy": "hybrid"}]
)
def test_another_question_is_not(cached: Retrieval, ingestion: Ingestion, other: dict[str, object]) -> None:
    ingestion.upsert([document("a")])
    ask(cached)
    assert ask(cached, **other)[1] == "miss"


def test_whatever_changes_is_seen_by_the_next_question(
    cached: Retrieval, ingestion: Ingestion, store: DocumentStore, database: Database
) -> None:
    def after(change: object) -> list[str]:
        del change
        found, cache = ask(cached)
        assert cache == "miss"
        assert ask(cached) == (found, "hit")
        return found

    assert after(ingestion.upsert([document("a")])) == ["a"]
    assert after(ingestion.upsert([document("b")])) == ["a", "b"]
    assert after(ingestion.upsert([document("a", "something else")])) == ["b", "a"]
    assert after(store.delete(["b"])) == ["a"]
    assert after(ingestion.replace_children("p", [document("p#1", metadata={"parent_id": "p"})])) == ["p#1", "a"]
    assert after(database.run(lambda t: t.execute("TRUNCATE knowledge_documents"))) == []


def test_what_changes_nothing_keeps_the_answer(cached: Retrieval, ingestion: Ingestion, store: DocumentStore) -> None:
    ingestion.upsert([document("a")])
    ask(cached)
    ingestion.upsert([document("a")])
    store.delete(["nobody"])
    Expiry(store).clean_up(lambda: True)
    assert ask(cached) == (["a"], "hit")


def test_an_answer_is_not_kept_longer_than_its_documents_live(
    cached: Retrieval, ingestion: Ingestion, database: Database
) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=1.5)
    ingestion.upsert([document("a", expires_at=soon), document("b")])
    assert ask(cached) == (["a", "b"], "miss")
    database.run(lambda t: t.execute("SELECT pg_sleep(greatest(0, extract(epoch FROM %s - now())) + 0.01)", (soon,)))
    assert ask(cached)[0] == ["b"]


def test_a_change_under_way_neither_shows_nor_spoils_the_cache(
    cached: Retrieval, ingestion: Ingestion, database_url: str, store: DocumentStore, embedder: HashEmbedder
) -> None:
    ingestion.upsert([document("a")])
    other = Database(lambda: database_url)
    writing, go_on = threading.Event(), threading.Event()

    def hold(*_: object) -> None:
        writing.set()
        assert go_on.wait(PATIENCE_S)

    def write() -> None:
        held = Ingestion(DocumentStore(other, embedder.model), embedder)
        prepared = held.prepare([document("b")])
        DocumentStore(other, embedder.model).upsert(prepared.entries, after=hold)

    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(write)
        assert writing.wait(PATIENCE_S)
        assert ask(cached) == (["a"], "miss")
        assert ask(cached) == (["a"], "hit")
        ingestion.upsert([document("c")])  # does not wait for the other's counter
        assert ask(cached) == (["a", "c"], "miss")
        go_on.set()
        written.result(PATIENCE_S)
    assert ask(cached) == (["a", "b", "c"], "miss")
    other.close()


def test_writers_and_readers_at_once_agree(
    database_url: str, embedder: HashEmbedder, cache: Cache, ingestion: Ingestion
) -> None:
    """Each writer reads what it has just written, through the cache that all share."""
    ingestion.upsert([document("shared")])

    def live(number: int) -> None:
        own = Database(lambda: database_url)
        store = DocumentStore(own, embedder.model)
        writing = Ingestion(store, embedder)
        reading = Retrieval(DocumentSearch(own, embedder.model), embedder, embeddings=cache, answers=cache, keep_s=300)
        for turn in range(12):
            id_ = f"w{number}-{turn}"
            writing.upsert([document(id_, tags=[f"t{number}"])])
            assert id_ in ask(reading, tags=f"t{number}", top_k=100)[0]
            store.delete([id_])
            assert id_ not in ask(reading, tags=f"t{number}", top_k=100)[0]
        own.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(live, range(4)))


def test_vectors_of_questions_are_kept_by_text_and_model(cache: Cache) -> None:
    class Counting(HashEmbedder):
        asked = 0

        def embed(self, text: str) -> list[float]:
            Counting.asked += 1
            return super().embed(text)

    embedder = CachingEmbedder(Counting(), cache)
    first = embedder.embed("gift cards")
    assert embedder.embed("gift cards") == pytest.approx(first, abs=1e-6)
    assert (Counting.asked, embedder.was_hit) == (1, True)
    embedder.embed("gift card")
    assert Counting.asked == 2


def test_redis_holds_nothing_outside_its_prefix_and_nothing_in_the_clear(
    server: RedisServer, shared: RedisCache, search: DocumentSearch, embedder: HashEmbedder, ingestion: Ingestion
) -> None:
    ingestion.upsert([document("a")])
    ask(Retrieval(search, embedder, embeddings=shared, answers=shared, keep_s=300), "secret words")
    assert server.stored()
    assert all(key.startswith(PREFIX) and "secret" not in key for key in server.stored())


def test_rubbish_in_the_cache_is_a_miss(
    server: RedisServer, shared: RedisCache, search: DocumentSearch, embedder: HashEmbedder, ingestion: Ingestion
) -> None:
    ingestion.upsert([document("a")])
    retrieval = Retrieval(search, embedder, embeddings=shared, answers=shared, keep_s=300)
    ask(retrieval)
    with redis.Redis(port=server.port) as client:
        for key in server.stored():
            client.set(key, b"rubbish")
    assert ask(retrieval) == (["a"], "miss")


@pytest.mark.parametrize("trouble", ["killed", "frozen"])
def test_a_dead_or_frozen_redis_costs_one_short_wait_and_no_answer(
    server: RedisServer, search: DocumentSearch, embedder: HashEmbedder, ingestion: Ingestion, trouble: str
) -> None:
    ingestion.upsert([document("a")])
    now = 0.0
    shared = RedisCache(server.url, clock=lambda: now)
    retrieval = Retrieval(search, embedder, embeddings=shared, answers=shared, keep_s=300)
    assert ask(retrieval) == (["a"], "miss")
    server.process.send_signal(signal.SIGKILL if trouble == "killed" else signal.SIGSTOP)
    if trouble == "killed":
        server.process.wait()
    started = time.monotonic()
    for _ in range(20):
        assert ask(retrieval)[0] == ["a"]
    assert time.monotonic() - started < 3
    if trouble == "killed":
        server.start()
    else:
        server.process.send_signal(signal.SIGCONT)
    now = 60.0  # it is asked again
    ask(retrieval)
    assert ask(retrieval) == (["a"], "hit")
    shared.close()


def test_memory_is_bounded_and_forgets_what_was_asked_for_longest_ago() -> None:
    cache = MemoryCache(3 * 1_300)
    for key in ("a", "b", "c"):
        cache.put(key, b"x" * 1_000, 60)
    assert cache.get("a")
    cache.put("d", b"x" * 1_000, 60)
    assert [key for key in "abcd" if cache.get(key)] == ["a", "c", "d"]
    cache.put("huge", b"x" * 10_000, 60)
    assert cache.get("huge") is None


def test_memory_forgets_after_the_time_given() -> None:
    now = 0.0
    cache = MemoryCache(ROOM, clock=lambda: now)
    cache.put("a", b"x", 10)
    now = 9.9
    assert cache.get("a") == b"x"
    now = 10.0
    assert cache.get("a") is None


def test_what_is_not_in_the_process_is_asked_of_the_shared_one() -> None:
    behind = MemoryCache(ROOM)
    front, other = MemoryCache(ROOM, behind), MemoryCache(ROOM, behind)
    front.put("a", b"x", 60)
    assert other.get("a") == b"x"
