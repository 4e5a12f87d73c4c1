"""Another model for the items: searches read one model's vectors or the other's, and no item is missed."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from knowledge.embedding.hashing import HashEmbedder
from knowledge.items import models
from knowledge.items import reembed as reembed_module
from knowledge.items.layer import KnowledgeLayer
from knowledge.items.models import ItemModel
from knowledge.items.reembed import ItemReembedding
from spot_sdk.documents import EmbeddingModel
from spot_sdk.errors import Conflict, Forbidden, InvalidRequest
from tests.postgres.items.conftest import HOME, OWNER, draft

SCOPE = ["home"]


class Backwards(HashEmbedder):
    """Another model: the hash of each text read backwards."""

    @property
    def model(self) -> EmbeddingModel:
        return super().model.model_copy(update={"model": "backwards"})

    def _windows(self, text: str) -> list[str]:
        return [text[::-1]]


@pytest.fixture(autouse=True)
def minilm_is_backwards() -> Iterator[None]:
    """The change itself is what is tested, so a light model stands for the one that takes seconds to load."""
    patch = pytest.MonkeyPatch()
    embedders = {"hash": HashEmbedder(), "minilm": Backwards()}
    local = models.local_embedder
    patch.setattr(models, "local_embedder", lambda backend: embedders.get(backend) or local(backend))
    yield
    patch.undo()


@pytest.fixture
def reembedding(layer: KnowledgeLayer) -> ItemReembedding:
    return ItemReembedding(layer.transactions)


def say_nothing(done: int, items: int) -> None:
    pass


def models_of_vectors(superuser: psycopg.Connection) -> dict[str, int]:
    return dict(
        superuser.execute("SELECT model, count(*) FROM knowledge_layer.item_embeddings GROUP BY model").fetchall()
    )


def test_after_a_change_searches_read_the_next_models_vectors(
    layer: KnowledgeLayer, reembedding: ItemReembedding, superuser: psycopg.Connection
) -> None:
    layer.store.store(draft("Passport"), OWNER)
    [before] = layer.search.search("passports", SCOPE, OWNER)
    heard: list[tuple[int, int]] = []

    assert reembedding.run("minilm", OWNER, lambda *told: heard.append(told))

    assert heard == [(0, 1), (1, 1)]
    assert reembedding.state(OWNER).current.model == "backwards"
    assert superuser.execute("SELECT count(*) FROM knowledge_layer.items_to_embed").fetchone() == (0,)
    [after] = layer.search.search("passports", SCOPE, OWNER)
    assert 0 < after.semantic_score != before.semantic_score
    assert models_of_vectors(superuser) == {"kl-hash-embed": 1, "backwards": 1}
    assert reembedding.drop_old(OWNER) == 1
    assert models_of_vectors(superuser) == {"backwards": 1}
    assert layer.search.search("passports", SCOPE, OWNER) == [after]
    assert not reembedding.run("minilm", OWNER, say_nothing)


def test_provenance_tells_of_the_change_and_verifies(layer: KnowledgeLayer, reembedding: ItemReembedding) -> None:
    layer.store.store(draft("Passport"), OWNER)
    reembedding.run("minilm", OWNER, say_nothing)
    last = layer.provenance.events(OWNER)[-1]
    assert (last.event, last.actor) == ("noted", OWNER.identity)
    assert last.detail["embedding_model"]["after"].startswith("backwards")
    assert layer.provenance.verify(OWNER).findings == []


def test_until_the_switch_searches_read_the_former_models_vectors(
    layer: KnowledgeLayer, reembedding: ItemReembedding, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer.store.store(draft("Passport"), OWNER)
    before = layer.search.search("passports", SCOPE, OWNER)
    write_vectors = reembed_module.write_vectors

    def search_meanwhile(*arguments: object) -> object:
        written = write_vectors(*arguments)  # type: ignore[arg-type]
        raise KeyboardInterrupt(written)

    monkeypatch.setattr(reembed_module, "write_vectors", search_meanwhile)
    with pytest.raises(KeyboardInterrupt):
        reembedding.run("minilm", OWNER, say_nothing)
    assert reembedding.state(OWNER).next == models.model_of("minilm")
    assert layer.search.search("passports", SCOPE, OWNER) == before

    monkeypatch.undo()
    assert reembedding.run("minilm", OWNER, say_nothing)  # goes on


def test_what_is_written_meanwhile_is_embedded_at_the_switch(
    layer: KnowledgeLayer,
    reembedding: ItemReembedding,
    superuser: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reembed_module, "EMBEDDED_UNDER_LOCK", 1)
    changing = layer.store.store(draft("Passport"), OWNER)
    written = False

    def write_some(done: int, items: int) -> None:
        nonlocal written
        if done == items and not written:
            written = True
            layer.store.store(draft("Piano tuning", id=changing.id), OWNER)
            for number in range(3):
                layer.store.store(draft(f"Dentist {number}"), HOME)

    reembedding.run("minilm", OWNER, write_some)

    assert superuser.execute("SELECT count(*) FROM knowledge_layer.items_to_embed").fetchone() == (0,)
    assert models_of_vectors(superuser)["backwards"] == 4
    found = layer.search.search("pianos and dentists", SCOPE, OWNER)
    assert sorted(hit.title for hit in found) == ["Dentist 0", "Dentist 1", "Dentist 2", "Piano tuning"]


def test_an_item_after_the_switch_is_indexed_by_the_new_model(
    layer: KnowledgeLayer, reembedding: ItemReembedding, superuser: psycopg.Connection
) -> None:
    reembedding.run("minilm", OWNER, say_nothing)
    layer.store.store(draft("Passport"), OWNER)
    assert layer.search.search("passports", SCOPE, OWNER)[0].semantic_score > 0
    assert models_of_vectors(superuser) == {"backwards": 1}


def test_one_change_at_a_time_and_it_can_be_given_up(
    layer: KnowledgeLayer, reembedding: ItemReembedding, superuser: psycopg.Connection
) -> None:
    layer.store.store(draft("Passport"), OWNER)
    before = layer.search.search("passports", SCOPE, OWNER)
    superuser.execute(
        "INSERT INTO knowledge_layer.item_models (state, backend, model, version, dimensions) "
        "VALUES ('next', 'minilm', 'another', '7', 384)"
    )
    with pytest.raises(Conflict, match=r"another 7 .*--abort"):
        reembedding.run("minilm", OWNER, say_nothing)
    reembedding.abort(OWNER)
    assert reembedding.state(OWNER).next is None
    assert layer.search.search("passports", SCOPE, OWNER) == before
    with pytest.raises(Conflict):
        reembedding.abort(OWNER)


def test_the_index_of_the_next_model_is_there_and_without_statistics_of_content(
    reembedding: ItemReembedding, superuser: psycopg.Connection
) -> None:
    reembedding.run("minilm", OWNER, say_nothing)
    [(definition, statistics)] = superuser.execute(
        "SELECT pg_get_indexdef(indexrelid), attstattarget FROM pg_index "
        "JOIN pg_attribute ON attrelid = indexrelid AND attnum = 1 "
        "WHERE indrelid = 'knowledge_layer.item_embeddings'::regclass "
        "AND pg_get_indexdef(indexrelid) LIKE '%backwards%'"
    ).fetchall()
    assert "hnsw" in definition
    assert statistics == 0


def test_only_local_models_and_only_for_who_sees_everything(reembedding: ItemReembedding) -> None:
    with pytest.raises(InvalidRequest, match="need no network"):
        reembedding.run("openai", OWNER, say_nothing)
    with pytest.raises(Forbidden):
        reembedding.run("minilm", HOME, say_nothing)
    with pytest.raises(Forbidden):
        reembedding.abort(HOME)
    assert isinstance(reembedding.state(HOME).current, ItemModel)
