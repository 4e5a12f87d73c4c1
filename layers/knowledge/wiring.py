"""The only place that constructs adapters: each once per execution environment, when first needed."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from knowledge import settings
from knowledge.access.keyring import Keyring
from knowledge.access.roles import Caller, Role
from spot_sdk.errors import ModelMismatch, Unavailable

if TYPE_CHECKING:
    from knowledge.access.keys import KeyStore
    from knowledge.cache.base import Cache
    from knowledge.db.connection import Database
    from knowledge.documents.expiry import Expiry
    from knowledge.documents.ingest import Ingestion
    from knowledge.documents.listing import DocumentListing
    from knowledge.documents.retrieval import Retrieval
    from knowledge.documents.slow_queries import SlowQueryLog
    from knowledge.documents.store import DocumentStore
    from knowledge.documents.sync_run import SourceSync
    from knowledge.documents.words import WordIndex
    from knowledge.documents.writer import Writer
    from knowledge.embedding.base import Embedder
    from knowledge.embedding.settings_model import EmbeddingSettings
    from knowledge.items.layer import KnowledgeLayer
    from knowledge.items.view import ItemsView
    from knowledge.sync.config import Provider, SpotConfig
    from knowledge.sync.provider import ProviderAnswer
    from knowledge.sync.schedules import Change, Schedules
    from knowledge.sync.trigger import ProviderSync
    from knowledge.text_hash import HashText


def embedder() -> Embedder:
    """That of the model which the documents have, as far as is known here; see ``follow_model``."""
    today, following = _embedders()
    return following if _is_moved and following is not None else today


def next_embedder() -> Embedder | None:
    """That of the model which the documents are being moved to, if they are."""
    return None if _is_moved else _embedders()[1]


def follow_model() -> bool:
    """Take the other one of the two embedders; False when only one is configured.

    Called when the documents turn out to have another model's vectors: a re-embedding has switched them.
    """
    global _is_moved  # noqa: PLW0603 - one for the environment, as all that is constructed here
    if _embedders()[1] is None:
        return False
    _is_moved = not _is_moved
    for constructor in _OF_THE_MODEL:
        constructor.cache_clear()
    return True


_is_moved = False


@cache
def _embedders() -> tuple[Embedder, Embedder | None]:
    following = settings.next_embedding()
    return _make_embedder(settings.embedding()), None if following is None else _make_embedder(following)


def _make_embedder(choice: EmbeddingSettings) -> Embedder:
    from knowledge.embedding.factory import make_embedder
    from knowledge.embedding.measured import MeasuredEmbedder

    try:
        return MeasuredEmbedder(make_embedder(choice))
    except ValueError as error:
        raise settings.SettingsError(str(error)) from error


@cache
def database() -> Database:
    from knowledge.db.connection import Database

    return Database(database_url, application_name=settings.metrics().service)


@cache
def documents() -> DocumentStore:
    from knowledge.documents.store import DocumentStore

    return DocumentStore(database(), embedder().model)


@cache
def listing() -> DocumentListing:
    from knowledge.documents.listing import DocumentListing

    return DocumentListing(database())


@cache
def ingestion() -> Ingestion:
    from knowledge.documents.ingest import Ingestion

    return Ingestion(documents(), embedder())


@cache
def retrieval() -> Retrieval:
    from knowledge.documents.retrieval import Retrieval
    from knowledge.documents.search import DocumentSearch

    return Retrieval(
        DocumentSearch(database(), embedder().model),
        embedder(),
        embeddings=_cache(),
        answers=_cache(),
        keep_s=settings.cache().keep_answers_s,
        hash_text=_hash_text(),
        slow_queries=slow_queries(),
    )


@cache
def slow_queries() -> SlowQueryLog:
    from knowledge.documents.slow_queries import SlowQueryLog

    return SlowQueryLog(database(), settings.slow_queries().threshold_ms)


def take_census() -> None:
    """Record as metrics what is there. Raises the store's errors."""
    from knowledge.documents.census import take_census

    take_census(database())


@cache
def _hash_text() -> HashText:
    """Made with the internal key, so that a text has one name in all environments; without a key, in this one."""
    from knowledge.text_hash import text_hasher

    return text_hasher(next(iter(internal_keys()), None) or secrets.token_hex())


@cache
def _cache() -> Cache:
    """One for all: in the process, and behind it the one that environments share."""
    from knowledge.cache.memory import MemoryCache

    url = settings.cache().redis_url
    if url is None:
        return MemoryCache(_CACHE_BYTES)
    from knowledge.cache.redis import RedisCache

    try:
        return MemoryCache(_CACHE_BYTES, RedisCache(url.get_secret_value()))
    except ValueError as error:
        raise settings.SettingsError(f"REDIS_URL: {error}") from error


@cache
def expiry() -> Expiry:
    from knowledge.documents.expiry import Expiry

    return Expiry(documents())


@cache
def words() -> WordIndex:
    from knowledge.documents.words import WordIndex

    return WordIndex(database())


@cache
def items() -> KnowledgeLayer:
    from knowledge.items.layer import KnowledgeLayer

    return KnowledgeLayer.on(database())


@cache
def items_view() -> ItemsView:
    from knowledge.items.view import ItemsView

    return ItemsView(items(), settings.console_grants())


@cache
def source_sync() -> SourceSync:
    from knowledge.documents.sync_run import SourceSync

    return SourceSync(database(), documents(), ingestion())


def spot_config() -> SpotConfig:
    """The operators' file as it is now. Raises SettingsError, with lines and fields, when it cannot be used."""
    from knowledge.sync.config import ConfigError, load

    try:
        return load(settings.sync().config_path)
    except ConfigError as error:
        raise settings.SettingsError(str(error)) from error


@cache
def provider_sync() -> ProviderSync:
    from knowledge.sync.provider import call_provider
    from knowledge.sync.trigger import ProviderSync

    def call(provider: Provider, run_id: int, timeout_s: float, stop: Callable[[], bool]) -> ProviderAnswer:
        return call_provider(provider, run_id=run_id, key=_call_key(), timeout_s=timeout_s, stop=stop)

    return ProviderSync(database(), spot_config, call)


def _call_key() -> str | None:
    """What providers are shown; never the internal key, which would let each of them do everything."""
    key, secret_arn = settings.sync().call_key, settings.access().secret_arn
    if key is None and secret_arn is not None:
        return _secret(secret_arn).get("sync")
    return key.get_secret_value() if key else None


def start_manual_sync(provider_id: str) -> int:
    """Claim a run of a provider and have the sync-trigger function carry it on; returns the run's id.

    Raises what ``ProviderSync.begin`` raises, and Unavailable when the function cannot be invoked.
    """
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    from knowledge.sync.events import ManualSync

    function = settings.sync().trigger_arn
    if function is None:
        raise settings.SettingsError("set SYNC_TRIGGER_ARN: there is no function that carries a sync on")
    run = provider_sync().begin(provider_id, "manual")
    try:
        boto3.client("lambda").invoke(
            FunctionName=function, InvocationType="Event", Payload=ManualSync.of(run).model_dump_json()
        )
    except (BotoCoreError, ClientError) as error:
        provider_sync().give_up(run, "the sync-trigger function could not be invoked")
        raise Unavailable("the sync could not be started; try again") from error
    return run.run_id


def apply_schedules() -> list[Change] | None:
    """Make the EventBridge rules those of the configured providers; None where there is no function to fire.

    Raises what ``Schedules.apply`` raises.
    """
    schedules = _schedules()
    return None if schedules is None else schedules.apply(spot_config().providers)


def remove_schedules() -> None:
    """Remove every EventBridge rule that ``apply_schedules`` made. Raises what ``Schedules.apply`` raises."""
    schedules = _schedules()
    if schedules is not None:
        schedules.apply({})


def _schedules() -> Schedules | None:
    sync = settings.sync()
    if sync.trigger_arn is None:
        return None
    import boto3

    from knowledge.sync.schedules import Destination, Schedules

    destination = Destination(sync.schedule_prefix, sync.trigger_arn, sync.dead_letter_arn)
    return Schedules(boto3.client("events"), destination)


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
    return Keyring(
        internal_keys,
        anonymous=Role.ASKER if settings.access().query_access == "open" else Role.ANYONE,
        find=lambda key_digest: keys().find(key_digest),
        clock=time.monotonic,
    )


def internal_keys() -> list[str]:
    """The internal keys that are valid now, the current one first."""
    access = settings.access()
    found = [key.get_secret_value() for key in (access.key, access.previous_key) if key is not None]
    if access.secret_arn is not None:
        secret = _secret(access.secret_arn)
        found += [value for value in (secret.get("current"), secret.get("previous")) if value]
    return found


def migrate(*, accept_newer: bool = False) -> list[str]:
    """Apply the migrations that the database does not have yet; returns their names. Raises what it raises.

    Where SEARCH_LANGUAGE is set, words are taken by it from then on. Where there are secrets of the users that write
    or read rows, those users have their rights and passwords afterwards.
    """
    from knowledge.db.migrate import migrate

    try:
        applied = migrate(database_url(), embedder().model, accept_newer=accept_newer)
    except ModelMismatch:
        if not follow_model():
            raise
        applied = migrate(database_url(), embedder().model, accept_newer=accept_newer)
    language = settings.search().language
    if language is not None:
        words().use_language(language)
    _ensure_users()
    return applied


def _ensure_users() -> None:
    from knowledge.db.roles import ensure_user

    where = settings.database()
    if where.writer_secret_arn is not None:
        ensure_user(database_url(), _secret(where.writer_secret_arn), "write")
    if where.reader_secret_arn is not None:
        ensure_user(database_url(), _secret(where.reader_secret_arn), "read")


def database_url() -> str:
    """The database's address, asked for at every connect so that a rotated secret is taken up."""
    where = settings.database()
    if where.url is not None:
        return where.url.get_secret_value()
    from knowledge.db.address import address_of

    secret = _secret(where.secret_arn or "")
    return address_of(secret if where.host is None else secret | {"host": where.host})


def _secret(arn: str) -> dict[str, Any]:
    from aws_lambda_powertools.utilities import parameters

    return json.loads(parameters.get_secret(arn, max_age=60))


def reset() -> None:
    """Forget everything constructed, so that the next use reads the environment again."""
    if database.cache_info().currsize:
        database().close()
    for constructor in _CONSTRUCTORS:
        constructor.cache_clear()
    global _is_moved  # noqa: PLW0603
    _is_moved = False


_CACHE_BYTES = 32 * 1024 * 1024

_OF_THE_MODEL = (documents, ingestion, retrieval, expiry, source_sync)

_CONSTRUCTORS = (
    _embedders,
    database,
    *_OF_THE_MODEL,
    _cache,
    listing,
    slow_queries,
    _hash_text,
    words,
    items,
    items_view,
    provider_sync,
    keys,
    keyring,
)
