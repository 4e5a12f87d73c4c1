"""``knowledge migrate`` and ``knowledge dsn``; and how commands reach the database itself."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from cli.options import Backend, Database, Json
from cli.output import print_json, results
from cli.store import running_stack
from local.home import Home, StackState
from spot_sdk.errors import InvalidInput

if TYPE_CHECKING:
    from knowledge.db.connection import Database as Connection
    from knowledge.documents.ingest import Ingestion
    from knowledge.documents.store import DocumentStore
    from knowledge.embedding.base import Embedder


def migrate(database: Database = None, backend: Backend = None, as_json: Json = False) -> None:
    """Bring the database to this version's schema.

    Safe to run twice and from two places at once. The vector column is made for the embedding model in force, and a
    database that holds another model's vectors is left alone.

    Examples:

    \b
      knowledge migrate
      DATABASE_URL=postgresql://... knowledge migrate --embedding-backend bedrock
    """
    from knowledge.db.migrate import migrate

    target = find_database(database, backend)
    applied = migrate(target.dsn, target.embedder.model)
    if as_json:
        print_json({"applied": applied})
    elif applied:
        for name in applied:
            results.print(f"applied {name}")
    else:
        results.print("nothing to do")


def dsn() -> None:
    """Print the address of the local database.

    It includes the password, and there is one while the local stack runs.

    Examples:

    \b
      psql "$(knowledge dsn)"
    """
    results.print(stack_variables(running_stack())["DATABASE_URL"], soft_wrap=True)


class Target(NamedTuple):
    """A database, and the embedder of the vectors in it."""

    dsn: str
    embedder: Embedder


@contextmanager
def open_connection(dsn: str | None) -> Generator[Connection]:
    """A connection to the database at ``dsn``, or to that of the local stack that runs."""
    from knowledge.db.connection import Database as Connection

    address = dsn or stack_variables(running_stack())["DATABASE_URL"]
    connection = Connection(lambda: address, application_name="knowledge-cli")
    try:
        yield connection
    finally:
        connection.close()


def find_database(dsn: str | None, backend: str | None) -> Target:
    """The database at ``dsn`` with the embedder of the environment, or those of the local stack that runs.

    ``backend`` replaces the embedder's. Raises Unavailable when there is no ``dsn`` and nothing runs, InvalidInput for
    a ``dsn`` that is none, SettingsError for an embedder that cannot be made.
    """
    from knowledge import settings
    from knowledge.db.address import check_address
    from knowledge.embedding.factory import make_embedder

    variables: Mapping[str, str] | None = None
    if dsn is None:
        variables = stack_variables(running_stack(instead="--database"))
        dsn = variables["DATABASE_URL"]
    try:
        check_address(dsn)
    except ValueError as error:
        raise InvalidInput("this is not the address of a database, such as postgresql://user@host/name") from error
    try:
        return Target(dsn, make_embedder(settings.embedding(variables, backend=backend)))
    except ValueError as error:
        raise settings.SettingsError(str(error)) from error


@contextmanager
def open_store(target: Target) -> Generator[tuple[DocumentStore, Ingestion]]:
    """The documents of a database, to be read and written without a server between."""
    from knowledge.db.connection import Database
    from knowledge.documents.ingest import Ingestion
    from knowledge.documents.store import DocumentStore

    database = Database(lambda: target.dsn, application_name="knowledge-cli")
    try:
        store = DocumentStore(database, target.embedder.model)
        yield store, Ingestion(store, target.embedder)
    finally:
        database.close()


def stack_variables(running: tuple[Home, StackState]) -> Mapping[str, str]:
    """What the local stack tells its functions."""
    home, _ = running
    return json.loads(home.functions_path.read_text(encoding="utf-8"))["Parameters"]
