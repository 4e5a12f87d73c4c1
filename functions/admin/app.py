"""Lambda: what operators and tools ask about the store itself."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from knowledge import __version__, wiring
from knowledge.http import Resolver
from spot_sdk.documents import Health, Stats, Version
from spot_sdk.knowledge_tags import WELL_KNOWN_TAGS

app = Resolver()


@app.get("/health")
def health() -> Health:
    """Healthy when the database answers and holds the configured model's vectors."""
    wiring.documents().check()
    return Health(status="ok")


@app.get("/version")
def version() -> Version:
    """This release, and the embedding model with the length of text to chunk to."""
    return Version(version=__version__, embedding=wiring.embedder().model)


@app.get("/api/v1/knowledge/stats")
def stats() -> Stats:
    """Document counts, by well-known tag and by source."""
    return wiring.documents().stats(WELL_KNOWN_TAGS)


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    return app.resolve(event, context)
