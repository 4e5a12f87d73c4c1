"""What ``knowledge doctor`` checks around the database: the model, the API, its key, providers, schedules, the disk."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path

import anyio
import httpx

from cli.output import printable
from knowledge.embedding.base import Embedder
from knowledge.finding import Finding
from knowledge.sync.config import Provider
from knowledge.sync.cron import translate
from knowledge.sync.schedules import Schedules
from spot_sdk.errors import Conflict, EmbedderUnavailable, EmbeddingFailed, Forbidden, KnowledgeError, Unauthorized
from spot_sdk.operators import OperatorClient
from spot_sdk.sync import ProviderStatus

MIN_FREE_BYTES = 1024**3
MIN_KEY_LENGTH = 20
OVERDUE_AFTER = timedelta(minutes=10)

_PROVIDER_TIMEOUT_S = 3.0


def check_model(embedder: Embedder) -> list[Finding]:
    """Whether the embedding model answers."""
    try:
        embedder.embed("check-up")
    except (EmbedderUnavailable, EmbeddingFailed) as error:
        todo = "see that the model's server runs and is reachable from here and from the functions"
        return [Finding(subject="model", message=f"the embedding model does not answer: {error.message}", command=todo)]
    return []


def check_key(key: str | None) -> list[Finding]:
    """Whether there is a key, and one that nobody guesses."""
    if not key:
        return [Finding(subject="key", message="no internal key is set", command=_NEW_KEY)]
    if len(key) < MIN_KEY_LENGTH:
        message = f"the internal key has {len(key)} characters; whoever guesses it may do everything"
        return [Finding(subject="key", message=message, command=_NEW_KEY)]
    return []


_NEW_KEY = "make one with `openssl rand -base64 32`, and set SPOT_INTERNAL_API_KEY or the secret's `current` to it"


async def check_api(client: OperatorClient) -> tuple[list[Finding], list[ProviderStatus]]:
    """Whether the API answers, reaches its database, and takes the key; and the providers that it tells of."""
    try:
        return [], await client.providers()
    except (Unauthorized, Forbidden) as error:
        todo = "set SPOT_INTERNAL_API_KEY to the key that the functions have; they take up a new one when they are new"
        return [Finding(subject="key", message=f"the API refuses the key: {error.message}", command=todo)], []
    except KnowledgeError as error:
        todo = "see why in the functions' log; a local stack starts with `make up`"
        return [Finding(subject="api", message=f"the API does not serve: {printable(error.message)}", command=todo)], []


def check_runs(provider: ProviderStatus, now: datetime) -> list[Finding]:
    """Whether a provider's last run went well, and whether one that was due has come."""
    if not provider.enabled:
        return []
    again = f"knowledge sync {provider.id}"
    if not provider.runs:
        return [Finding(subject="provider", message=f"{provider.id} has never been synced", command=again)]
    last = provider.runs[0]
    if last.status in ("failed", "partial"):
        message = f"the last sync of {provider.id}, run {last.id}, is {last.status}: {printable(last.error)}"
        return [Finding(subject="provider", message=message, command=f"mend what it says, and then: {again}")]
    if provider.sync_schedule is None:
        return []
    due = next(translate(provider.sync_schedule).after(last.started_at))
    if due + OVERDUE_AFTER > now:
        return []
    message = f"{provider.id} was due at {due:%Y-%m-%d %H:%M} UTC, and has not been synced since"
    return [Finding(subject="provider", message=message, command=f"{_WHY_NOT}; and then: {again}")]


_WHY_NOT = "see `knowledge schedules plan`, the log of sync-trigger and the queue of lost events"


async def check_providers(providers: Mapping[str, Provider]) -> list[Finding]:
    """Whether each provider answers. Any answer but a server's error will do: not every one has ``/health``."""
    findings: list[Finding] = []

    async def check(client: httpx.AsyncClient, name: str, provider: Provider) -> None:
        try:
            answer = await client.get(f"{provider.url}/health")
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
        else:
            if answer.status_code < 500:
                return
            reason = f"it answered {answer.status_code}"
        message = f"the provider {name} at {provider.url} is not well: {printable(reason)}"
        findings.append(Finding(subject="provider", message=message, command="start it, or mend its url in spot.yaml"))

    async with (
        httpx.AsyncClient(timeout=_PROVIDER_TIMEOUT_S, trust_env=False) as client,
        anyio.create_task_group() as group,
    ):
        for name, provider in providers.items():
            if provider.enabled:
                group.start_soon(check, client, name, provider)
    return sorted(findings, key=lambda finding: finding.message)


def check_schedules(schedules: Schedules, providers: Mapping[str, Provider], file: Path) -> list[Finding]:
    """Whether the rules in EventBridge are those that the file declares."""
    try:
        changes = [change for change in schedules.plan(providers) if change.action != "keep"]
    except Conflict as error:
        return [Finding(subject="schedule", message=error.message, command="remove or rename that rule")]
    except KnowledgeError as error:
        todo = "see that EventBridge is reachable, and that your credentials may list its rules"
        return [Finding(subject="schedule", message=error.message, command=todo)]
    return [
        Finding(
            subject="schedule",
            message=f"the rules are not what {file} declares: {str(change).splitlines()[0]}",
            command=f"knowledge schedules apply --file {file}",
        )
        for change in changes
    ]


def check_disk(
    folder: Path, free_bytes: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free
) -> list[Finding]:
    """Whether there is room for the database to grow."""
    free = free_bytes(folder)
    if free >= MIN_FREE_BYTES:
        return []
    message = f"{free / 1024**2:,.0f} MiB are left on the disk of {folder}; PostgreSQL stops when it is full"
    return [Finding(subject="disk", message=message, command="make room, or move KNOWLEDGE_HOME to another disk")]
