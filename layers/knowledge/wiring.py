"""The only place that constructs adapters: each once per execution environment, when first needed."""

from __future__ import annotations

import json
import time
from functools import cache
from typing import TYPE_CHECKING, Any

from knowledge import settings
from knowledge.access.keyring import Keyring
from knowledge.access.roles import Caller, Role

if TYPE_CHECKING:
    from knowledge.db.connection import Database
    from knowledge.documents.expiry import Expiry
    from knowledge.documents.ingest import Ingestion
    from knowledge.documents.retrieval import Retrieval
    from knowledge.access.keys import KeyStore
    from knowledge.documents.store import DocumentStore
    from knowledge.documents.sync_run import SourceSync
    from knowledge.documents.writer import Writer
    from knowledge.embedding.base import Embedder


@cache
def embedder() -> Embedder:
    from knowledge.embedding.factory import make_embedder

    try:
        return make_embedder(settings.embedding())
    except ValueError as error:
        raise settings.SettingsError(str(error)) from error


@cache
def database() -> Database:
    from knowledge.db.connection import Database

    return Database(database_url)


@cache
def documents() -> DocumentStore:
    from knowledge.documents.store import DocumentStore

    return DocumentStore(database(), embedder().model)


@cache
def ingestion() -> Ingestion:
    from knowledge.documents.ingest import Ingestion

    return Ingestion(documents(), embedder())


@cache
def retrieval() -> Retrieval:
    from knowledge.documents.retrieval import Retrieval

    return Retrieval(documents(), embedder())


@cache
def expiry() -> Expiry:
    from knowledge.documents.expiry import Expiry

    return Expiry(documents())


@cache
def source_sync() -> SourceSync:
    from knowledge.documents.sync_run import SourceSync

    return SourceSync(database(), documents(), ingestion())


@cache
def keys() -> KeyStore:
    from knowledge.access.keys import KeyStore

    return KeyStore(database())


def writer(caller: Caller) -> Writer:
    """What a caller may write, as the setting SOURCE_OWNERSHIP has it."""
    from knowledge.documents.writer import Writer

    ownership = settings.access().source_ownership
    is_bound = caller.source is not None
    return Writer(caller.source, respects_sources=ownership == "all" or (is_bound and ownership == "bound"))


@cache
def keyring() -> Keyring:
    access = settings.access()
    internal_keys = [key.get_secret_value() for key in (access.key, access.previous_key) if key is not None]
    if access.secret_arn is not None:
        secret = _secret(access.secret_arn)
        internal_keys += [value for value in (secret.get("current"), secret.get("previous")) if value]
    return Keyring(
        internal_keys,
        anonymous=Role.READER if access.query_access == "open" else Role.ANYONE,
        find=lambda key_digest: keys().find(key_digest),
        clock=time.monotonic,
    )


def migrate() -> list[str]:
    """Apply the migrations that the database does not have yet; returns their names."""
    from knowledge.db.migrate import migrate

    return migrate(database_url(), embedder().model)


def database_url() -> str:
    """The database's address, asked for at every connect so that a rotated secret is taken up."""
    where = settings.database()
    if where.url is not None:
        return where.url.get_secret_value()
    from knowledge.db.address import address_of

    return address_of(_secret(where.secret_arn or ""))


def _secret(arn: str) -> dict[str, Any]:
    from aws_lambda_powertools.utilities import parameters

    return json.loads(parameters.get_secret(arn, max_age=60))


def reset() -> None:
    """Forget everything constructed, so that the next use reads the environment again."""
    if database.cache_info().currsize:
        database().close()
    for constructor in (embedder, database, documents, ingestion, retrieval, expiry, source_sync, keys, keyring):
        constructor.cache_clear()
