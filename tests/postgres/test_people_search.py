"""People found by mistyped names and imitated addresses, and nobody where nobody is meant."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.header import decode_header, make_header
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from eval.directory import document as of_directory
from eval.directory import people
from eval.people import CLASSES, FLOORS, MODEL, ask, false_hits, store, unrelated_mails
from knowledge.db.connection import Database, Transaction
from knowledge.db.migrate import MIGRATIONS, migrate
from knowledge.documents.ingest import Ingestion
from knowledge.documents.people import PeopleLookup
from knowledge.documents.retrieval import Retrieval
from knowledge.documents.search import DocumentSearch
from knowledge.documents.store import DocumentStore
from knowledge.search.people import PERSON_SCORE
from knowledge.tags.sql import tag_filter
from spot_sdk.documents import KnowledgeDocument, Query
from spot_sdk.tag_expression import parse
from tests.conftest import HASH_MODEL, drop_database

EVERYBODY = people(400)

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def directory_database(postgres_url: str) -> Iterator[Database]:
    """The people of a made-up company, to be asked for and not written."""
    name = f"people_{random.randrange(10**9)}"
    with psycopg.connect(postgres_url, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")  # type: ignore[arg-type]
    url = psycopg.conninfo.make_conninfo(postgres_url, dbname=name)
    migrate(url, MODEL)
    database = Database(lambda: url)
    store(database, [of_directory(person) for person in EVERYBODY])
    yield database
    database.close()
    drop_database(postgres_url, name)


@pytest.fixture(scope="module")
def directory(directory_database: Database) -> DocumentSearch:
    return DocumentSearch(directory_database, MODEL)


@pytest.mark.parametrize("kind", FLOORS)
def test_each_class_of_imitation_and_typo_is_found_first(directory: DocumentSearch, kind: str) -> None:
    hit, _, missed = ask(directory, random.Random(5).sample(EVERYBODY, 60), CLASSES[kind])
    assert hit >= FLOORS[kind], missed


def test_mails_about_nobody_here_find_nobody(directory: DocumentSearch) -> None:
    count, hits = false_hits(directory, unrelated_mails(60))
    assert (count, hits) == (60, [])


def person(
    name: str = "Alma Winterfeld", email: str = "alma.winterfeld@example.com", **fields: object
) -> KnowledgeDocument:
    return KnowledgeDocument.model_validate(
        {"id": f"employee:{email}", "content": f"{name} works here.", "tags": ["employee"],
         "metadata": {"name": name, "email": email}, **fields}
    )  # fmt: skip


Find = Callable[..., list[KnowledgeDocument]]


@pytest.fixture
def find(search: DocumentSearch) -> Find:
    def find(text: str, tags: str | None = None, top_k: int = 5) -> list[KnowledgeDocument]:
        return search.people(text, parse(tags), top_k)

    return find


@pytest.mark.parametrize(
    ("text", "field", "match"),
    [
        ("alma.winterfeld@example.com", "address", "exact"),
        ("Please answer ALMA.Winterfeld@Example.com, today.", "address", "exact"),
        ('From: "Alma Winterfeld" <alma.winterfeld@example.com>', "address", "exact"),
        ("<mailto:alma.winterfeld@example.com>", "address", "exact"),
        ("alma.winterfeld@examp1e.com", "address", "lookalike"),
        ("alma.winterfeld@exarnple.com", "address", "lookalike"),
        ("a1ma.winterfeld@example.com", "address", "lookalike"),
        ("alma.winterfeld@example.c0m", "address", "lookalike"),
        ("alma.winterfeld@ｅｘａｍｐｌｅ．com", "address", "lookalike"),
        ("аlma.winterfeld@example.com", "address", "lookalike"),  # Cyrillic a
        ("ａｌｍａ.winterfeld@example.com", "address", "lookalike"),
        ("alma.winter\u200bfeld@example.com", "address", "lookalike"),
        ("alma.winterfeld@xn--exmple-4nf.com", "address", "lookalike"),  # Cyrillic a in the domain, as punycode
        ("amla.winterfeld@example.com", "address", "near"),
        ("Alma Winterfeld", "name", "exact"),
        ("From: Alma Winterfeld <office77@quickpost.invalid>", "name", "exact"),
        ("From: Winterfeld, Alma <office77@quickpost.invalid>", "name", "exact"),
        ("From: =?utf-8?q?Alma_Winterfeld?= <office77@quickpost.invalid>", "name", "exact"),
        ("Аlma Wintеrfeld", "name", "lookalike"),  # Cyrillic A and e
        ("Alma Winterfled", "name", "near"),
    ],
)
def test_evidence_says_what_fits_and_how_well(
    find: Find, ingestion: Ingestion, text: str, field: str, match: str
) -> None:
    ingestion.upsert([person(), person("Boris Quellmann", "boris.quellmann@example.com")])
    best = find(text)[0]
    assert best.id == "employee:alma.winterfeld@example.com"
    assert best.evidence is not None
    assert (best.evidence.field, best.evidence.match) == (field, match)
    assert best.score is not None
    assert best.score >= PERSON_SCORE
    assert best.evidence.stored in ("alma.winterfeld@example.com", "Alma Winterfeld")
    assert best.evidence.asked in str(make_header(decode_header(text))).replace("mailto:", "")
    assert (best.evidence.similarity == 1.0) == (match != "near")


def test_an_imitated_name_with_a_foreign_address_tells_both(find: Find, ingestion: Ingestion) -> None:
    """What an analyzer takes for impersonation: the name is known, the address is not that person's."""
    ingestion.upsert([person(), person("Boris Quellmann", "office77@quickpost.invalid")])
    found = {one.id: one.evidence for one in find("From: Alma Winterfeld <office77@quickpost.invalid>")}
    by_name, by_address = found[person().id], found["employee:office77@quickpost.invalid"]
    assert by_name is not None
    assert by_address is not None
    assert (by_name.field, by_name.asked, by_name.match) == ("name", "Alma Winterfeld", "exact")
    assert (by_address.field, by_address.match) == ("address", "exact")


class Explaining:
    """Notes the plan of every statement that is run."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self.plans = ""

    def execute(self, query: Any, parameters: Any = None) -> Transaction:
        if isinstance(query, sql.Composed) and "knowledge_document_people" in query.as_string():
            rows = self._transaction.execute(sql.SQL("EXPLAIN ") + query, parameters).fetchall()
            self.plans += str(rows)
        return self._transaction.execute(query, parameters)


def test_each_way_of_looking_up_reads_its_index(directory_database: Database) -> None:
    def work(transaction: Transaction) -> str:
        transaction.execute("SET LOCAL enable_seqscan = off")
        explaining = Explaining(transaction)
        PeopleLookup(explaining, tag_filter(None)).find("Amla Winterfeld <amla@examp1e.org>", 5)  # type: ignore[arg-type]
        return explaining.plans

    plans = directory_database.run(work)
    for index in ("folded", "domain", "near_address", "near_name"):
        assert f"knowledge_document_people_{index}" in plans


def test_an_exact_address_stands_before_an_imitation(find: Find, ingestion: Ingestion) -> None:
    addresses = ["jo.miller@example.com", "jo.mi11er@example.com"]
    ingestion.upsert([person(f"P{n}", address) for n, address in enumerate(addresses)])
    assert [found.id for found in find("jo.miller@example.com")] == [f"employee:{address}" for address in addresses]


def test_tags_expiry_and_removal_hold_here_too(
    find: Find, ingestion: Ingestion, store: DocumentStore, database: Database
) -> None:
    ingestion.upsert([person(), person("Alma Winterfeld", "aw@other.example", tags=["contractor"])])
    assert len(find("Alma Winterfeld")) == 2
    assert [found.id for found in find("Alma Winterfeld", "contractor")] == ["employee:aw@other.example"]
    ingestion.upsert([person(expires_at=LONG_AGO)])
    assert [found.id for found in find("Alma Winterfeld")] == ["employee:aw@other.example"]
    store.delete(["employee:aw@other.example"])
    assert find("Alma Winterfeld") == []
    ingestion.upsert([person(metadata={"name": "Alma Sommerfeld"})])
    assert [found.evidence and found.evidence.stored for found in find("Alma Sommerfeld")] == ["Alma Sommerfeld"]


def test_what_is_unchanged_writes_nothing(ingestion: Ingestion, database: Database) -> None:
    def rows() -> list[object]:
        return database.run(
            lambda t: t.execute("SELECT ctid::text FROM knowledge_document_people ORDER BY 1").fetchall()
        )

    ingestion.upsert([person()])
    before = rows()
    assert before
    ingestion.upsert([person()])
    database.run(lambda t: t.execute("UPDATE knowledge_documents SET stored_at = now()"))
    ingestion.upsert([person(tags=["employee", "finance"])])
    assert rows() == before


@contextmanager
def migrations_up_to(number: int, folder: Path) -> Iterator[Path]:
    for path in sorted(MIGRATIONS.glob("*.sql"))[:number]:
        (folder / path.name).write_text(path.read_text())
    yield folder


def test_people_of_yesterdays_rows_are_found_after_the_migration(bare_database_url: str, tmp_path: Path) -> None:
    with migrations_up_to(4, tmp_path) as folder:
        migrate(bare_database_url, HASH_MODEL, folder=folder)
    with psycopg.connect(bare_database_url) as connection:
        connection.execute(
            "INSERT INTO knowledge_documents (id, content, metadata, content_hash, row_hash, embedding) "
            "VALUES ('employee:1', 'x', '{\"name\": \"Alma Winterfeld\"}', '', '', (SELECT array_agg(0.1)::vector FROM "
            "generate_series(1, 384)))"
        )
    migrate(bare_database_url, HASH_MODEL)
    database = Database(lambda: bare_database_url)
    assert [found.id for found in DocumentSearch(database, HASH_MODEL).people("Alma Winterfeld", None, 5)] == [
        "employee:1"
    ]
    database.close()


@pytest.mark.timeout(20)
def test_a_mail_of_a_hundred_thousand_characters_is_read_in_time(find: Find, ingestion: Ingestion) -> None:
    ingestion.upsert([person()])
    for filler in ("a@b ", "Anna Berta ", "@", "x" * 100 + " ", '<"\\'):
        find((filler * 100_000)[:99_000])
    found = find("Newsletter text. " * 5_000 + " alma.winterfeld@examp1e.com")
    assert found[0].evidence is not None
    assert found[0].evidence.match == "lookalike"


def test_a_domain_alone_speaks_of_nobody(find: Find, retrieval: Retrieval, ingestion: Ingestion) -> None:
    policy = KnowledgeDocument(id="policy", content="Who sends an invoice from an unknown mailbox is called back.")
    ingestion.upsert([policy, person(), person("Boris Quellmann", "boris.quellmann@example.com")])
    found = find("the invoice of accounts77@examp1e.com")
    assert [one.evidence and (one.evidence.field, one.evidence.match) for one in found] == [("domain", "lookalike")] * 2
    assert all((one.score or 0) < PERSON_SCORE for one in found)
    answer = retrieval.answer(
        Query(text="is the invoice of accounts77@examp1e.com to be called back", strategy="hybrid", top_k=1)
    )
    assert [one.id for one in answer.documents] == ["policy"]


def test_hybrid_puts_whoever_is_named_first(retrieval: Retrieval, ingestion: Ingestion) -> None:
    pages = [KnowledgeDocument(id=f"page{n}", content=f"Payments and invoices, part {n}") for n in range(20)]
    ingestion.upsert([person(), *pages])
    answer = retrieval.answer(
        Query(text="Is the payment that alma.winterfeld@examp1e.com asks for genuine?", strategy="hybrid", top_k=3)
    )
    assert answer.documents[0].id == "employee:alma.winterfeld@example.com"
    assert answer.documents[0].evidence is not None
    assert len(answer.documents) == 3
    scores = [document.score or 0 for document in answer.documents]
    assert scores == sorted(scores, reverse=True)
