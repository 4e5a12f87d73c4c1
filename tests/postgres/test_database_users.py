"""The database's users: the one that writes rows can do all that functions do, the one that reads only answers."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import get_args

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from knowledge.access.keys import KeyStore
from knowledge.db.connection import Database
from knowledge.db.migrate import migrate
from knowledge.db.roles import ensure_user
from knowledge.documents.expiry import Expiry
from knowledge.documents.ingest import Ingestion
from knowledge.documents.retrieval import Retrieval
from knowledge.documents.search import DocumentSearch
from knowledge.documents.store import DocumentStore
from knowledge.documents.sync_run import SourceSync
from knowledge.documents.words import WordIndex
from knowledge.embedding.hashing import HashEmbedder
from local.postgres import EmbeddedPostgres
from spot_sdk.access import IssueKey
from spot_sdk.documents import KnowledgeDocument, Query, Strategy
from spot_sdk.errors import InternalError
from spot_sdk.sync import RemovalLimits

DOCUMENT = KnowledgeDocument(
    id="policy/1",
    content="Ada Osei pays invoices after a call",
    tags=["policy"],
    metadata={"name": "Ada Osei"},
    source="s",
)


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a migrated database of this file's own, as a user that may make users, like RDS's master."""
    with EmbeddedPostgres(tmp_path_factory.mktemp("users") / "data", durable=False) as server:
        migrate(server.superuser_dsn, HashEmbedder().model)
        yield server.superuser_dsn


def secret(name: str) -> dict[str, str]:
    return {"username": name, "password": f"it's \\ {uuid.uuid4().hex}"}


def as_user(owner: str, user: dict[str, str]) -> str:
    return make_conninfo(owner, user=user["username"], password=user["password"])


@pytest.fixture
def writer(owner: str) -> Iterator[Database]:
    user = secret("knowledge_write")
    ensure_user(owner, user, "write")
    database = Database(lambda: as_user(owner, user))
    yield database
    database.close()


@pytest.fixture
def reader(owner: str) -> Iterator[Database]:
    user = secret("knowledge_read")
    ensure_user(owner, user, "read")
    database = Database(lambda: as_user(owner, user))
    yield database
    database.close()


def ingestion(database: Database) -> Ingestion:
    return Ingestion(DocumentStore(database, HashEmbedder().model), HashEmbedder())


def test_the_writer_can_do_what_functions_do(writer: Database) -> None:
    documents = DocumentStore(writer, HashEmbedder().model)
    sync = SourceSync(writer, documents, ingestion(writer))
    run = sync.start("s").run
    sync.upsert(run, [DOCUMENT])
    sync.complete(run, RemovalLimits())
    assert documents.delete([DOCUMENT.id]) == 1
    keys = KeyStore(writer)
    keys.issue(IssueKey(name="mail", role="reader"))
    keys.revoke("mail")
    Expiry(documents).clean_up(lambda: True)
    WordIndex(writer).fold()


@pytest.mark.parametrize("statement", ["CREATE TABLE mine ()", "DROP TABLE knowledge_documents"])
def test_the_writer_cannot_change_the_schema(writer: Database, statement: str) -> None:
    with pytest.raises(InternalError, match="42501"):
        writer.run(lambda t: t.execute(statement))


@pytest.mark.parametrize("strategy", get_args(Strategy))
def test_the_reader_answers_every_kind_of_question(reader: Database, writer: Database, strategy: Strategy) -> None:
    """In transactions that PostgreSQL itself lets only read: so may readers of a cluster be asked, too."""
    ingestion(writer).upsert([DOCUMENT])
    retrieval = Retrieval(DocumentSearch(reader, HashEmbedder().model), HashEmbedder())
    reader.run(lambda t: t.execute("SET SESSION default_transaction_read_only = on"))
    answer = retrieval.answer(Query(text="Does Ada Osei pay invoices?", tags="policy", strategy=strategy))
    assert [found.id for found in answer.documents] == [DOCUMENT.id]
    assert KeyStore(reader).find("none") is None


def test_the_reader_cannot_write(reader: Database) -> None:
    with pytest.raises(InternalError, match="42501"):
        ingestion(reader).upsert([DOCUMENT])


def test_making_a_user_again_gives_it_a_new_password_and_rights_on_new_tables(owner: str) -> None:
    old, new = secret("knowledge_again"), secret("knowledge_again")
    ensure_user(owner, old, "read")
    with psycopg.connect(owner, autocommit=True) as connection:
        connection.execute("CREATE TABLE of_the_next_release ()")
    ensure_user(owner, new, "read")
    with psycopg.connect(as_user(owner, new)) as connection:
        connection.execute("SELECT FROM of_the_next_release")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(as_user(owner, old))


def test_the_password_is_stored_as_a_verifier_that_was_made_here(owner: str) -> None:
    ensure_user(owner, secret("knowledge_stored"), "read")
    with psycopg.connect(owner) as connection:
        row = connection.execute(
            sql.SQL("SELECT rolpassword FROM pg_authid WHERE rolname = 'knowledge_stored'")
        ).fetchone()
    assert row is not None
    assert row[0].startswith("SCRAM-SHA-256$")


def test_somebody_who_may_not_make_users_is_told(owner: str) -> None:
    user = secret("knowledge_nobody")
    ensure_user(owner, user, "read")
    with pytest.raises(InternalError, match="42501"):
        ensure_user(as_user(owner, user), secret("other"), "read")
