"""Lambda: answer an analyzer's question."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from knowledge import wiring
from knowledge.http import Resolver
from spot_sdk.documents import Query, QueryResult

app = Resolver()


@app.post("/api/v1/knowledge/query")
def query(request: Query) -> QueryResult:
    """The documents closest in meaning to a text, among those that a tag expression admits."""
    return wiring.retrieval().answer(request)


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    return app.resolve(event, context)
