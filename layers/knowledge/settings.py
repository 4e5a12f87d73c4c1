"""What the environment says: the only module of the server that reads it.

Each function reads what one concern needs and names the variables it reads. A missing or wrong value is one clear line
(``SettingsError``) when the concern is first needed, and never a surprise at import.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from knowledge.embedding.settings_model import EmbeddingSettings
from knowledge.metrics import NAMESPACE

Model = TypeVar("Model", bound=BaseModel)


class SettingsError(Exception):
    """The environment does not say what is needed; the message names the variables."""


class DatabaseSettings(BaseModel):
    """Where the database is: an address, or the ARN of a secret that holds its parts.

    ``host`` takes the place of the secret's: a proxy, or readers. The other two secrets are of users that a migration
    makes: one for those who write rows, one for those who only read them.
    """

    model_config = ConfigDict(defer_build=True, frozen=True)

    url: SecretStr | None = None
    secret_arn: str | None = None
    host: str | None = None
    writer_secret_arn: str | None = None
    reader_secret_arn: str | None = None


class AccessSettings(BaseModel):
    """Who may call what: the internal keys, two during a rotation, and whether reading needs one.

    ``source_ownership``: who may not take over another source's documents - nobody is held to it (off), keys bound to
    a source are (bound), all callers are (all).
    """

    model_config = ConfigDict(defer_build=True, frozen=True)

    key: SecretStr | None = None
    previous_key: SecretStr | None = None
    secret_arn: str | None = None
    query_access: Literal["key", "open"] = "key"
    source_ownership: Literal["off", "bound", "all"] = "bound"


class SyncSettings(BaseModel):
    """Where the operators' file is, the key shown to providers, and the AWS names that schedules are made with.

    Without ``call_key`` it is the member ``sync`` of the internal keys' secret; without that, no key is shown.
    """

    model_config = ConfigDict(defer_build=True, frozen=True)

    config_path: Path = Path("/opt/spot.yaml")
    call_key: SecretStr | None = None
    trigger_arn: str | None = None
    dead_letter_arn: str | None = None
    schedule_prefix: str = "knowledge"


class SearchSettings(BaseModel):
    """How words are taken: a text search configuration of PostgreSQL, such as ``simple`` or ``english``.

    None leaves it as it is in the database, which begins with ``english``.
    """

    model_config = ConfigDict(defer_build=True, frozen=True)

    language: Annotated[str, Field(pattern=r"^[a-z][a-z_]{0,62}$")] | None = None


class CacheSettings(BaseModel):
    """How long answers are kept (0: not at all), and the Redis or Valkey that environments share, if there is one."""

    model_config = ConfigDict(defer_build=True, frozen=True)

    redis_url: SecretStr | None = None
    keep_answers_s: Annotated[float, Field(ge=0, le=3600, allow_inf_nan=False)] = 300.0


class MetricsSettings(BaseModel):
    """The namespace of metrics in CloudWatch, and what the functions are called in logs and in the database."""

    model_config = ConfigDict(defer_build=True, frozen=True)

    namespace: Annotated[str, Field(max_length=255)] = NAMESPACE
    service: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,40}$")] = "knowledge"


class SlowQuerySettings(BaseModel):
    """From how many milliseconds on a query is slow, and kept for operators to look at (0: every query)."""

    model_config = ConfigDict(defer_build=True, frozen=True)

    threshold_ms: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 500.0


class ConsoleSettings(BaseModel):
    """Whom the console asks: the Knowledge API (None: where its own requests come in), an analyzer, local metrics."""

    model_config = ConfigDict(defer_build=True, frozen=True)

    api_url: Annotated[str, Field(pattern=r"^https?://")] | None = None
    analyzer_url: Annotated[str, Field(pattern=r"^https?://")] | None = None
    series_url: Annotated[str, Field(pattern=r"^https?://")] | None = None


def database() -> DatabaseSettings:
    settings = _read(
        DatabaseSettings,
        url="DATABASE_URL",
        secret_arn="DATABASE_SECRET_ARN",  # noqa: S106 - a name, as those below
        host="DATABASE_HOST",
        writer_secret_arn="DATABASE_WRITER_SECRET_ARN",  # noqa: S106
        reader_secret_arn="DATABASE_READER_SECRET_ARN",  # noqa: S106
    )
    if settings.url is None and settings.secret_arn is None:
        raise SettingsError("set DATABASE_URL or DATABASE_SECRET_ARN: there is no database to use")
    return settings


def search() -> SearchSettings:
    return _read(SearchSettings, language="SEARCH_LANGUAGE")


def cache() -> CacheSettings:
    return _read(CacheSettings, redis_url="REDIS_URL", keep_answers_s="QUERY_CACHE_TTL_S")


def metrics() -> MetricsSettings:
    return _read(MetricsSettings, namespace="POWERTOOLS_METRICS_NAMESPACE", service="POWERTOOLS_SERVICE_NAME")


def slow_queries() -> SlowQuerySettings:
    return _read(SlowQuerySettings, threshold_ms="SLOW_QUERY_MS")


def access() -> AccessSettings:
    return _read(
        AccessSettings,
        key="SPOT_INTERNAL_API_KEY",
        previous_key="SPOT_INTERNAL_API_KEY_PREVIOUS",
        secret_arn="INTERNAL_API_KEY_SECRET_ARN",  # noqa: S106 - a name
        query_access="QUERY_ACCESS",
        source_ownership="SOURCE_OWNERSHIP",
    )


def embedding(environment: Mapping[str, str] | None = None, *, backend: str | None = None) -> EmbeddingSettings:
    """What ``environment`` (this process's, unless given) says of the embedder; ``backend`` overrides its."""
    variables = dict(os.environ if environment is None else environment)
    if backend is not None:
        variables["EMBEDDING_BACKEND"] = backend
    return _read(
        EmbeddingSettings,
        variables,
        backend="EMBEDDING_BACKEND",
        model="EMBEDDING_MODEL",
        batch_size="EMBEDDING_BATCH_SIZE",
        dimensions="EMBEDDING_DIMENSIONS",
        timeout_s="EMBEDDING_TIMEOUT_S",
        ollama_url="OLLAMA_URL",
        openai_base_url="OPENAI_BASE_URL",
        openai_api_key="OPENAI_API_KEY",
        aws_region="AWS_REGION",
    )


def next_embedding(
    environment: Mapping[str, str] | None = None,
    *,
    backend: str | None = None,
    model: str | None = None,
    dimensions: int | None = None,
) -> EmbeddingSettings | None:
    """The embedder that documents are being moved to, or None; the arguments override what ``environment`` says.

    Whatever is not about the choice of the model, such as addresses and keys, is as for today's embedder.
    """
    variables = dict(os.environ if environment is None else environment)
    given = {
        "EMBEDDING_BACKEND": backend or variables.get("EMBEDDING_NEXT_BACKEND"),
        "EMBEDDING_MODEL": model or variables.get("EMBEDDING_NEXT_MODEL"),
        "EMBEDDING_DIMENSIONS": str(dimensions) if dimensions else variables.get("EMBEDDING_NEXT_DIMENSIONS"),
    }
    if not any(given.values()):
        return None
    if not given["EMBEDDING_BACKEND"]:  # another model of the same backend
        given["EMBEDDING_BACKEND"] = variables.get("EMBEDDING_BACKEND")
    return embedding(variables | {name: value or "" for name, value in given.items()})


def console() -> ConsoleSettings:
    return _read(
        ConsoleSettings,
        api_url="CONSOLE_API_URL",
        analyzer_url="CONSOLE_ANALYZER_URL",
        series_url="CONSOLE_SERIES_URL",
    )


def console_grants(environment: Mapping[str, str] | None = None) -> frozenset[str]:
    """The compartments of the Knowledge Layer that operators see: CONSOLE_GRANTS, separated by commas."""
    named = (os.environ if environment is None else environment).get("CONSOLE_GRANTS", "")
    return frozenset(name.strip() for name in named.split(",") if name.strip())


def sync() -> SyncSettings:
    return _read(
        SyncSettings,
        config_path="SPOT_CONFIG_PATH",
        call_key="SYNC_CALL_KEY",
        trigger_arn="SYNC_TRIGGER_ARN",
        dead_letter_arn="SYNC_DLQ_ARN",
        schedule_prefix="SCHEDULE_PREFIX",
    )


def _read(settings: type[Model], environment: Mapping[str, str] = os.environ, /, **variables: str) -> Model:
    """The model filled from the variables that are set; one that is set to nothing counts as not set."""
    values = {field: environment[name] for field, name in variables.items() if environment.get(name)}
    try:
        return settings.model_validate(values)
    except ValidationError as error:
        problems = "; ".join(f"{variables[str(found['loc'][0])]}: {found['msg']}" for found in error.errors())
        raise SettingsError(f"the environment is not right: {problems}") from None
