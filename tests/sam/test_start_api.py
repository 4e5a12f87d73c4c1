"""``sam local start-api``, used by the SDK and by providers in containers as they would use the API on AWS."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sam_local import SAM_LOCAL_JSON, SamLocal
from stand_ins import CHECKOUT

from spot_sdk.errors import Unauthorized
from spot_sdk.knowledge import KnowledgeClient, KnowledgeDocument

pytestmark = pytest.mark.anyio
KEY = json.loads(SAM_LOCAL_JSON.read_text())["Parameters"]["SPOT_INTERNAL_API_KEY"]


async def test_a_document_is_stored_found_and_removed(api: str) -> None:
    note = KnowledgeDocument(
        id="note:sam/1?", content="Invoices above 10,000 need two signatures.", tags=["sam_note"], source="sam"
    )
    async with KnowledgeClient(api, api_key=KEY) as client:
        assert (await client.upsert(note)).status == "created"
        (found,) = await client.fetch(tags="sam_note", text="who signs invoices")
        assert (found.id, found.content) == (note.id, note.content)
        assert await client.delete(note.id)
        assert await client.fetch(tags="sam_note", text="who signs invoices") == []


async def test_a_caller_without_the_key_is_refused(api: str) -> None:
    async with KnowledgeClient(api) as client:
        with pytest.raises(Unauthorized):
            await client.fetch(tags="policy", text="payments")


@pytest.mark.usefixtures("providers")
async def test_a_sync_fills_the_store_from_a_provider_in_a_container(api: str, sam: SamLocal, tmp_path: Path) -> None:
    event = tmp_path / "sync.json"
    scheduled = json.loads((CHECKOUT / "events" / "sync_trigger.json").read_text())
    event.write_text(json.dumps(scheduled | {"provider_id": "wiki"}))
    record = sam.invoke("SyncTriggerFunction", event)
    assert record["status"] == "succeeded", record
    async with KnowledgeClient(api, api_key=KEY) as client:
        pages = await client.fetch(tags="policy", text="Who may approve a payment to a new bank account?", top_k=3)
    assert pages
    assert all(page.id.startswith("wiki:") for page in pages)
