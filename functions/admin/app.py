"""Lambda: what operators and tools ask about the store itself."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from aws_lambda_powertools.utilities.typing import LambdaContext

from knowledge import __version__, wiring
from knowledge.http import Resolver
from spot_sdk.access import IssuedKey, IssueKey, Keys
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


@app.get("/api/v1/knowledge/keys")
def list_keys() -> Keys:
    """The keys that were issued, without the keys themselves."""
    return Keys(keys=wiring.keys().list())


@app.post("/api/v1/knowledge/keys")
def issue_key(request: IssueKey) -> IssuedKey:
    """A new key for a role, and for a provider's source; issuing again for the same name rotates."""
    return wiring.keys().issue(request)


@app.delete("/api/v1/knowledge/keys/<name>")
def revoke_key(name: str) -> None:
    """Make every key of this name invalid, within half a minute everywhere."""
    wiring.keys().revoke(unquote(name))


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    return app.resolve(event, context)
