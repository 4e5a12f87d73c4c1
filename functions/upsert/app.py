"""Lambda: take documents from providers, one by one or as whole sync runs, and remove them again."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import unquote

from aws_lambda_powertools.event_handler.openapi.params import Query
from aws_lambda_powertools.utilities.typing import LambdaContext

from knowledge import wiring
from knowledge.http import Resolver, read
from knowledge.telemetry import logger
from spot_sdk.documents import (
    BulkUpsert,
    Delete,
    DeleteResult,
    Expire,
    ExpireResult,
    KnowledgeDocument,
    SyncRunRef,
    UpsertResult,
)
from spot_sdk.sync import (
    CompleteSyncRun,
    FailSyncRun,
    HeartbeatSyncRun,
    ReplaceChildren,
    StartSyncRun,
    SyncRunRecord,
    SyncRuns,
    SyncRunStarted,
)

app = Resolver()


@app.post("/api/v1/knowledge/upsert")
def upsert(document: KnowledgeDocument) -> UpsertResult:
    """Store one document; the same id again replaces it."""
    return _told(wiring.ingestion().upsert([document], writer=wiring.writer(app.caller)))


@app.post("/api/v1/knowledge/bulk-upsert")
def bulk_upsert(batch: BulkUpsert) -> UpsertResult:
    """Store a batch of documents, all or none; with ``run``, as part of a sync run."""
    writer = wiring.writer(app.caller)
    if batch.run is None:
        return _told(wiring.ingestion().upsert(batch.documents, writer=writer))
    return _told(wiring.source_sync().upsert(batch.run, batch.documents, writer=writer))


@app.post("/api/v1/knowledge/replace-children")
def replace_children(request: ReplaceChildren) -> UpsertResult:
    """Make these documents the only ones with their parent: a page that shrank leaves no chunk behind."""
    writer = wiring.writer(app.caller)
    result = wiring.ingestion().replace_children(request.parent_id, request.documents, request.source, writer=writer)
    return _told(result)


@app.post("/api/v1/knowledge/delete")
def delete_many(request: Delete) -> DeleteResult:
    """Remove documents by id; those that are not there are none of those removed."""
    return DeleteResult(deleted=wiring.documents().delete(request.ids, writer=wiring.writer(app.caller)))


@app.post("/api/v1/knowledge/expire")
def expire(request: Expire) -> ExpireResult:
    """Let no query find these documents from now on, until their provider offers them again."""
    return ExpireResult(expired=wiring.documents().expire(request.ids, writer=wiring.writer(app.caller)))


@app.delete("/api/v1/knowledge/<document_id>")
def delete(document_id: str) -> DeleteResult:
    """Remove one document."""
    request = read(Delete, {"ids": [unquote(document_id)]})
    return DeleteResult(deleted=wiring.documents().delete(request.ids, writer=wiring.writer(app.caller)))


@app.post("/api/v1/knowledge/sync-runs")
def start_sync_run(request: StartSyncRun) -> SyncRunStarted:
    """Open a run over everything that a source has."""
    return wiring.source_sync().start(request.source, writer=wiring.writer(app.caller))


@app.post("/api/v1/knowledge/sync-runs/<run_id>/heartbeat")
def heartbeat(run_id: int, request: HeartbeatSyncRun) -> SyncRunRef:
    """Keep a run alive that has nothing to send just now."""
    run = SyncRunRef(id=run_id, fence=request.fence)
    wiring.source_sync().heartbeat(run, writer=wiring.writer(app.caller))
    return run


@app.post("/api/v1/knowledge/sync-runs/<run_id>/complete")
def complete(run_id: int, request: CompleteSyncRun) -> SyncRunRecord:
    """End a run that sent everything, and remove what the source no longer has, within limits."""
    run = SyncRunRef(id=run_id, fence=request.fence)
    return wiring.source_sync().complete(run, request.limits, writer=wiring.writer(app.caller))


@app.post("/api/v1/knowledge/sync-runs/<run_id>/fail")
def fail(run_id: int, request: FailSyncRun) -> SyncRunRecord:
    """End a run that could not send everything; nothing is removed."""
    run = SyncRunRef(id=run_id, fence=request.fence)
    return wiring.source_sync().fail(run, request.reason, writer=wiring.writer(app.caller))


@app.post("/api/v1/knowledge/sync-runs/<run_id>/confirm")
def confirm(run_id: int) -> SyncRunRecord:
    """Carry out the removals that the guard held back."""
    return wiring.source_sync().confirm(run_id)


@app.get("/api/v1/knowledge/sync-runs")
def list_sync_runs(
    source: Annotated[str | None, Query(pattern=r"^[^\x00]+$")] = None, limit: Annotated[int, Query(ge=1, le=500)] = 20
) -> SyncRuns:
    """The last runs of one source, or of every source and provider, newest first."""
    return SyncRuns(runs=wiring.source_sync().latest(source, limit))


def _told(result: UpsertResult) -> UpsertResult:
    """The result, whose counts are in the log now."""
    logger.info("upsert", documents=result.model_dump(exclude={"results"}))
    return result


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    return app.resolve(event, context)
