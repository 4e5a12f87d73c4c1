"""What travels about sync runs between providers, the store and operators."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from spot_sdk.documents import MAX_BATCH, MAX_SOURCE_LENGTH, DocumentId, KnowledgeDocument, Line, SyncRunRef, Text

SyncTrigger = Literal["client", "schedule", "manual"]
SyncStatus = Literal["running", "succeeded", "partial", "failed", "skipped"]

DEFAULT_MAX_REMOVED_SHARE = 0.2
DEFAULT_MAX_REMOVED_COUNT = 5


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class StartSyncRun(_Body):
    """Body of ``POST /sync-runs``: open a run over everything that one source has."""

    source: Annotated[Line, Field(min_length=1, max_length=MAX_SOURCE_LENGTH)]


class SyncRunStarted(BaseModel):
    """Answer of ``POST /sync-runs``. Send a batch or a heartbeat at least once in ``lease_s`` seconds."""

    run: SyncRunRef
    lease_s: int


class RemovalLimits(_Body):
    """How much one run may remove unconfirmed: up to ``count`` documents, or ``share`` of the source's if that is more.

    An empty run removes nothing, whatever the limits.
    """

    share: Annotated[float, Field(ge=0, le=1, strict=True)] = DEFAULT_MAX_REMOVED_SHARE
    count: Annotated[int, Field(ge=0, strict=True)] = DEFAULT_MAX_REMOVED_COUNT

    def allow(self, removals: int, total: int) -> bool:
        """True when removing ``removals`` of a source's ``total`` documents needs no confirmation."""
        return removals <= max(self.count, int(self.share * total))

    def why_held(self, removals: int, *, total: int, seen: int, run_id: int) -> str:
        """Why a run's ``removals`` are held back, and the command that confirms them; empty when they are not.

        ``total`` counts what the source had before the run, ``seen`` what of the source's the run has sent.
        """
        if not removals or (seen and self.allow(removals, total)):
            return ""
        reason = f"{removals} of {total} documents would go, more than {self.share:.0%} or {self.count}"
        if not seen:
            reason = f"the run sent nothing, and {removals} of {total} documents would go"
        return f"{reason}; nothing was removed. If it is right: `knowledge runs confirm {run_id}`"


class CompleteSyncRun(_Body):
    """Body of ``POST /sync-runs/{id}/complete``: everything was sent, remove what was not."""

    fence: int
    limits: RemovalLimits = RemovalLimits()


class FailSyncRun(_Body):
    """Body of ``POST /sync-runs/{id}/fail``."""

    fence: int
    reason: Annotated[Text, Field(max_length=2_000)]


class HeartbeatSyncRun(_Body):
    """Body of ``POST /sync-runs/{id}/heartbeat``: the run is alive though it sends nothing."""

    fence: int


class ReplaceChildren(_Body):
    """Body of ``POST /replace-children``: of this source, these documents and no others have this parent.

    ``source`` says whose children go when there are no documents; with documents it is theirs.
    """

    parent_id: DocumentId
    source: Annotated[Line, Field(max_length=MAX_SOURCE_LENGTH)] | None = None
    documents: Annotated[list[KnowledgeDocument], Field(max_length=MAX_BATCH)]


class SyncRunRecord(BaseModel):
    """How a run went. ``held`` counts removals that the guard kept; ``error`` says why a run is not ``succeeded``."""

    id: int
    name: str
    trigger: SyncTrigger
    status: SyncStatus
    slot: datetime | None = None
    started_at: datetime
    finished_at: datetime | None = None
    created: int = 0
    updated: int = 0
    unchanged: int = 0
    removed: int = 0
    held: int = 0
    error: str = ""


class ProviderStatus(BaseModel):
    """A configured provider: its schedule (unix cron, UTC), when it fires next, and its last runs, newest first."""

    id: str
    enabled: bool
    sync_schedule: str | None = None
    next_sync_at: datetime | None = None
    sync_timeout_ms: int
    runs: list[SyncRunRecord] = []


class Providers(BaseModel):
    """Answer of ``GET /api/v1/plugins/context_provider``."""

    providers: list[ProviderStatus]


class SyncAccepted(BaseModel):
    """Answer of ``POST /api/v1/plugins/context_provider/{id}/sync``: the run goes on by itself."""

    run_id: int


class SyncRuns(BaseModel):
    """Answer of ``GET /sync-runs``, newest first."""

    runs: list[SyncRunRecord]
