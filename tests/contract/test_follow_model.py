"""Functions that know two models follow the documents from one to the other, and back, without a refusal."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from knowledge import settings, wiring
from knowledge.db.connection import Database
from knowledge.documents.reembed import Reembedding, drop_old
from knowledge.embedding.factory import make_embedder
from spot_sdk.client import KnowledgeClient
from spot_sdk.documents import KnowledgeDocument
from spot_sdk.errors import ModelMismatch

pytestmark = pytest.mark.anyio


def move(url: str, backend: str) -> None:
    """Move the documents as ``knowledge reembed`` does, in another process than the functions."""
    database = Database(lambda: url)
    Reembedding(database, make_embedder(settings.embedding(backend=backend))).run(lambda _: None, lambda *_: None)
    drop_old(database)
    database.close()


@pytest.fixture
def both_known(monkeypatch: pytest.MonkeyPatch, store_client: Callable[..., KnowledgeClient]) -> None:
    monkeypatch.setenv("EMBEDDING_NEXT_BACKEND", "minilm")
    wiring.reset()


@pytest.mark.usefixtures("both_known")
async def test_queries_and_writes_go_on_over_a_switch_and_back(
    store_client: Callable[..., KnowledgeClient], database_url: str
) -> None:
    async with store_client() as client:
        await client.upsert(KnowledgeDocument(id="cat", content="The cat sat on the mat.", source="s"))
        await client.upsert(KnowledgeDocument(id="tax", content="Taxes are due in April.", source="s"))
        version = await client.version()
        assert (version.embedding.backend, version.next_embedding and version.next_embedding.backend) == (
            "hash",
            "minilm",
        )

        move(database_url, "minilm")
        found = await client.fetch(text="a kitten on a rug", top_k=1)
        assert [document.id for document in found] == ["cat"]  # by meaning: no word is the same
        assert (await client.version()).embedding.backend == "minilm"
        assert (
            await client.upsert(KnowledgeDocument(id="dog", content="A dog barks.", source="s"))
        ).status == "created"

        move(database_url, "hash")
        async with client.sync_run("s") as run:
            await run.upsert([KnowledgeDocument(id="cat", content="The cat sat on the mat.", source="s")])
        assert (await client.version()).embedding.backend == "hash"
        assert [document.id for document in await client.fetch(text="cat", top_k=10)] == ["cat"]  # all that the run saw


async def test_functions_that_know_one_model_refuse_another(
    store_client: Callable[..., KnowledgeClient], database_url: str
) -> None:
    async with store_client() as client:
        await client.upsert(KnowledgeDocument(id="cat", content="The cat sat on the mat."))
        move(database_url, "minilm")
        with pytest.raises(ModelMismatch, match="MiniLM"):
            await client.fetch(text="cat")


@pytest.mark.usefixtures("both_known")
def test_a_deploy_in_between_migrates(database_url: str) -> None:
    move(database_url, "minilm")
    assert wiring.migrate() == []
    assert wiring.embedder().model.backend == "minilm"
