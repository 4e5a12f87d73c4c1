"""What operators ask of the store beside documents: providers and their runs, and keys."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Self
from urllib.parse import quote, urlencode

import httpx
from pydantic import RootModel

from spot_sdk.access import IssuedKey, IssueKey, KeyRecord, Keys
from spot_sdk.client import DEFAULT_TIMEOUT_S
from spot_sdk.connection import StoreConnection
from spot_sdk.documents import DocumentPage, ExpireResult, KnowledgeDocument, ListDocuments
from spot_sdk.errors import InvalidRequest, NotFound
from spot_sdk.items import ItemList, WholeItem
from spot_sdk.retrying import RetryPolicy
from spot_sdk.slow_queries import SlowQueries
from spot_sdk.sync import Providers, ProviderStatus, SyncAccepted, SyncRunRecord, SyncRuns

_KEYS_PATH = "/api/v1/keys"
_ITEMS_PATH = "/api/v1/knowledge-layer"
_PROVIDERS_PATH = "/api/v1/plugins/context_provider"

_MOST_RUNS = 500  # that the store lists at once


class OperatorClient:
    """The operators' side of the API at ``url``; every method raises KnowledgeError. Use it with ``async with``."""

    def __init__(
        self, url: str, api_key: str | None = None, *, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._connection = StoreConnection(
            url, api_key, timeout_s=DEFAULT_TIMEOUT_S, retry=RetryPolicy(), transport=transport
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._connection.close()

    async def providers(self) -> list[ProviderStatus]:
        """Every configured provider, with its last run."""
        return (await self._connection.call(Providers, "GET", _PROVIDERS_PATH, above_api=True)).providers

    async def provider(self, provider_id: str) -> ProviderStatus:
        """One provider, with its last ten runs. Raises NotFound."""
        return await self._connection.call(ProviderStatus, "GET", _sync_path(provider_id), above_api=True)

    async def start_sync(self, provider_id: str) -> int:
        """Have a provider sync; returns the run's id at once. Raises NotFound, SyncRunning while one is under way."""
        accepted = await self._connection.call(
            SyncAccepted, "POST", _sync_path(provider_id), body=b"{}", above_api=True, is_repeatable=False
        )
        return accepted.run_id

    async def runs(self, source: str | None = None, limit: int = 20) -> list[SyncRunRecord]:
        """The last runs of one source, or of every source and provider, newest first."""
        query = f"?limit={limit}" + (f"&source={_quoted(source)}" if source else "")
        return (await self._connection.call(SyncRuns, "GET", f"/sync-runs{query}")).runs

    async def run_of(self, provider_id: str, run_id: int) -> SyncRunRecord:
        """One run of a provider, also when many that were skipped came after it. Raises NotFound for one long gone."""
        last = (await self.provider(provider_id)).runs
        if not any(run.id == run_id for run in last):
            last = await self.runs(limit=_MOST_RUNS)
        for run in last:
            if run.id == run_id:
                return run
        raise NotFound(f"run {run_id} is not among the last {_MOST_RUNS}")

    async def confirm_run(self, run_id: int) -> SyncRunRecord:
        """Carry out the removals that the guard held back. Raises NotFound, or Conflict after a later run."""
        return await self._connection.call(
            SyncRunRecord, "POST", f"/sync-runs/{run_id}/confirm", body=b"{}", is_repeatable=False
        )

    async def documents(self, wanted: ListDocuments | None = None) -> DocumentPage:
        """Live documents in id order, page by page. Raises InvalidTagExpression."""
        query = (wanted or ListDocuments()).model_dump(exclude_none=True)
        return await self._connection.call(DocumentPage, "GET", f"/documents?{urlencode(query)}")

    async def document(self, document_id: str) -> KnowledgeDocument:
        """One live document as it is stored. Raises NotFound."""
        return await self._connection.call(KnowledgeDocument, "GET", f"/document?id={_quoted(document_id)}")

    async def expire(self, ids: Iterable[str]) -> int:
        """Let no query find these documents until their provider offers them again; returns how many were live."""
        body = json.dumps({"ids": list(ids)}).encode()
        return (await self._connection.call(ExpireResult, "POST", "/expire", body=body)).expired

    async def slow_queries(self) -> SlowQueries:
        """The last fifty queries that took long, newest first."""
        return await self._connection.call(SlowQueries, "GET", "/debug/slow-queries", above_api=True)

    async def items(self, text: str = "", compartment: str = "") -> ItemList:
        """Items of the Knowledge Layer that operators may see: what a text finds, or the working set.

        Raises NotFound where they see none.
        """
        query = urlencode({"text": text, "compartment": compartment})
        return await self._connection.call(ItemList, "GET", f"{_ITEMS_PATH}/items?{query}", above_api=True)

    async def item(self, item_id: str) -> WholeItem:
        """One item in full; that it was read is recorded. Raises NotFound."""
        return await self._connection.call(
            WholeItem, "GET", f"{_ITEMS_PATH}/item?id={_quoted(item_id)}", above_api=True
        )

    async def keys(self) -> list[KeyRecord]:
        """The keys that were issued, without the keys themselves."""
        return (await self._connection.call(Keys, "GET", _KEYS_PATH, above_api=True)).keys

    async def issue_key(self, request: IssueKey) -> IssuedKey:
        """A new key; for a name that has one, its successor."""
        body = request.model_dump_json().encode()
        return await self._connection.call(
            IssuedKey, "POST", _KEYS_PATH, body=body, above_api=True, is_repeatable=False
        )

    async def revoke_key(self, name: str) -> None:
        """Make every key of a name invalid. Raises NotFound."""
        path = f"{_KEYS_PATH}/{_quoted(name)}"
        await self._connection.call(RootModel[None], "DELETE", path, above_api=True, is_repeatable=False)


def _sync_path(provider_id: str) -> str:
    return f"{_PROVIDERS_PATH}/{_quoted(provider_id)}/sync"


def _quoted(name: str) -> str:
    """A name as it stands in an address. Raises InvalidRequest for what is not text."""
    try:
        return quote(name, safe="")
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"{name!r} is not text") from error
