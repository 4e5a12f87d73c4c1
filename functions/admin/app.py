"""Lambda: what operators and tools ask about the store itself."""

from __future__ import annotations

from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import unquote

from aws_lambda_powertools.event_handler.openapi.params import Query
from aws_lambda_powertools.utilities.typing import LambdaContext

from knowledge import __version__, wiring
from knowledge.http import Resolver, read
from knowledge.sync.overview import provider_status
from spot_sdk.access import IssuedKey, IssueKey, KeyName, Keys
from spot_sdk.documents import (
    MAX_LISTED,
    Delete,
    DocumentPage,
    Health,
    KnowledgeDocument,
    ListDocuments,
    Stats,
    Version,
)
from spot_sdk.items import ItemList, WholeItem
from spot_sdk.knowledge_tags import WELL_KNOWN_TAGS
from spot_sdk.slow_queries import SlowQueries
from spot_sdk.sync import Providers, ProviderStatus, SyncAccepted

app = Resolver()


@app.get("/health")
def health() -> Health:
    """Healthy when the database answers and holds the configured model's vectors."""
    wiring.documents().check()
    return Health(status="ok")


@app.get("/version")
def version() -> Version:
    """This release, and the embedding model with the length of text to chunk to."""
    following = wiring.next_embedder()
    return Version(
        version=__version__,
        embedding=wiring.embedder().model,
        next_embedding=None if following is None else following.model,
    )


@app.get("/api/v1/knowledge/stats")
def stats() -> Stats:
    """Document counts, by well-known tag and by source."""
    wiring.take_census()
    return wiring.documents().stats(WELL_KNOWN_TAGS)


@app.get("/debug/slow-queries")
def slow_queries() -> SlowQueries:
    """The last fifty queries that took long, newest first: plans and timings, and a hash for the text."""
    return wiring.slow_queries().latest()


@app.get("/api/v1/knowledge-layer/items")
def list_items(text: Annotated[str, Query()] = "", compartment: Annotated[str, Query()] = "") -> ItemList:
    """Items of the compartments that operators were granted: what a text finds, or the working set."""
    return wiring.items_view().list(text, compartment)


@app.get("/api/v1/knowledge-layer/item")
def show_item(item_id: Annotated[str, Query(alias="id")]) -> WholeItem:
    """One item in full; that it was read is recorded."""
    return wiring.items_view().read(item_id)


@app.get("/api/v1/knowledge/documents")
def list_documents(
    after: Annotated[str, Query()] = "",
    prefix: Annotated[str, Query()] = "",
    source: Annotated[str | None, Query()] = None,
    tags: Annotated[str | None, Query()] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_LISTED)] = 50,
) -> DocumentPage:
    """Live documents in id order, page by page; of a source, with tags, or whose ids begin with a prefix."""
    given = {"after": after, "prefix": prefix, "source": source, "tags": tags, "limit": limit}
    return wiring.listing().page(read(ListDocuments, given))


@app.get("/api/v1/knowledge/document")
def show_document(document_id: Annotated[str, Query(alias="id")]) -> KnowledgeDocument:
    """One live document as it is stored; its id is a query parameter, since a path could not carry every id."""
    [wanted] = read(Delete, {"ids": [document_id]}).ids
    return wiring.listing().one(wanted)


@app.get("/api/v1/plugins/context_provider")
def list_providers() -> Providers:
    """Every configured provider with its schedule, when it fires next, and its last run."""
    config = wiring.spot_config()
    return Providers(providers=[_status(provider_id, runs=1) for provider_id in config.providers])


@app.get("/api/v1/plugins/context_provider/<provider_id>/sync")
def show_provider(provider_id: str) -> ProviderStatus:
    """One provider with its last ten runs."""
    return _status(provider_id, runs=10)


@app.post(
    "/api/v1/plugins/context_provider/<provider_id>/sync",
    responses={202: {"description": "Begun", "content": {"application/json": {"model": SyncAccepted}}}},
)
def start_sync(provider_id: str) -> tuple[SyncAccepted, int]:
    """Have a provider sync now; the run goes on by itself."""
    return SyncAccepted(run_id=wiring.start_manual_sync(provider_id)), HTTPStatus.ACCEPTED


def _status(provider_id: str, runs: int) -> ProviderStatus:
    return provider_status(wiring.spot_config(), wiring.provider_sync(), provider_id, datetime.now(UTC), runs)


@app.get("/api/v1/keys")
def list_keys() -> Keys:
    """The keys that were issued, without the keys themselves."""
    return Keys(keys=wiring.keys().list())


@app.post("/api/v1/keys")
def issue_key(request: IssueKey) -> IssuedKey:
    """A new key for a role, and for a provider's source; issuing again for the same name rotates."""
    return wiring.keys().issue(request)


@app.delete("/api/v1/keys/<name>")
def revoke_key(name: str) -> None:
    """Make every key of this name invalid, within half a minute everywhere."""
    wiring.keys().revoke(read(KeyName, {"name": unquote(name)}).name)


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    return app.resolve(event, context)
