"""Lambda: take documents from providers, and remove them again."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from aws_lambda_powertools.utilities.typing import LambdaContext

from knowledge import wiring
from knowledge.http import Resolver
from spot_sdk.documents import BulkUpsert, Delete, DeleteResult, KnowledgeDocument, UpsertResult

app = Resolver()


@app.post("/api/v1/knowledge/upsert")
def upsert(document: KnowledgeDocument) -> UpsertResult:
    """Store one document; the same id again replaces it."""
    return wiring.ingestion().upsert([document])


@app.post("/api/v1/knowledge/bulk-upsert")
def bulk_upsert(batch: BulkUpsert) -> UpsertResult:
    """Store a batch of documents, all or none."""
    return wiring.ingestion().upsert(batch.documents)


@app.post("/api/v1/knowledge/delete")
def delete_many(request: Delete) -> DeleteResult:
    """Remove documents by id; those that are not there are none of those removed."""
    return DeleteResult(deleted=wiring.documents().delete(request.ids))


@app.delete("/api/v1/knowledge/<document_id>")
def delete(document_id: str) -> DeleteResult:
    """Remove one document."""
    return DeleteResult(deleted=wiring.documents().delete([unquote(document_id)]))


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    return app.resolve(event, context)
