"""The owner deletes: all of an item goes, what has other sources too is flagged, and a tombstone says nothing of it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from knowledge.items.deletion import Erased
from knowledge.items.layer import KnowledgeLayer
from knowledge.items.model import Item
from knowledge.items.session import AgentClass, Session
from spot_sdk.errors import Conflict, FirewallCrossed, NotFound
from tests.conftest import Server
from tests.postgres.items.conftest import HOME, OWNER, WORK_ONLY, draft

SENTINEL = "quixotryx"
"""A word that is its own stem, so that it stands in tsvectors as it is."""


def derived(layer: KnowledgeLayer, title: str, *sources: Item, compartment: str = "home") -> Item:
    links = [{"to": source.id, "relation": "derived_from"} for source in sources]
    return layer.store.store(draft(title, compartment=compartment, links=links), OWNER)


def there(layer: KnowledgeLayer, *items: Item) -> list[str]:
    return [item.title for item in layer.store.look([item.id for item in items], OWNER)]


def test_a_tombstone_is_left_and_tells_four_things(layer: KnowledgeLayer) -> None:
    item = layer.store.store(draft("secret", type="person"), OWNER)
    assert layer.deletion.erase(item.id, OWNER) == Erased([item.id], [])
    (tombstone,) = layer.deletion.tombstones(HOME)
    assert (tombstone.item_id, tombstone.type, tombstone.deleted_by) == (item.id, "person", "justine")
    assert tombstone._fields == ("item_id", "type", "deleted_at", "deleted_by")
    with pytest.raises(NotFound):
        layer.store.get(item.id, OWNER)
    assert layer.provenance.events(OWNER, item_id=item.id) == []
    (event,) = layer.provenance.events(OWNER)
    assert (event.event, event.actor, event.detail["items"]) == ("deleted", "justine", [item.id])


def test_an_id_is_not_used_twice(layer: KnowledgeLayer) -> None:
    layer.store.store(draft(id="a"), OWNER)
    layer.deletion.erase("a", OWNER)
    with pytest.raises(Conflict, match="was deleted"):
        layer.store.store(draft(id="a"), OWNER)


def test_hidden_and_absent_are_answered_alike(layer: KnowledgeLayer) -> None:
    item = layer.store.store(draft(), HOME)
    answers = set[str]()
    for item_id in (item.id, "absent"):
        with pytest.raises(NotFound) as refused:
            layer.deletion.erase(item_id, WORK_ONLY)
        answers.add(str(refused.value))
    assert len(answers) == 1
    assert there(layer, item) == ["Keys"]


def test_what_was_made_from_it_alone_goes_too(layer: KnowledgeLayer) -> None:
    source = layer.store.store(draft("source"), OWNER)
    summary = derived(layer, "summary", source)
    of_summary = derived(layer, "of the summary", summary)
    of_both = derived(layer, "of both", source, of_summary)
    bystander = layer.store.store(draft("bystander", links=[{"to": source.id, "relation": "about"}]), OWNER)
    erased = layer.deletion.erase(source.id, OWNER)
    assert erased.deleted[0] == source.id
    assert set(erased.deleted) == {source.id, summary.id, of_summary.id, of_both.id}
    assert erased.flagged == []
    assert there(layer, source, summary, of_summary, of_both, bystander) == ["bystander"]
    assert layer.store.get(bystander.id, OWNER).links == []
    assert len(layer.deletion.tombstones(OWNER)) == 4
    assert layer.provenance.verify(OWNER).findings == []


def test_what_has_other_sources_too_is_flagged_for_a_decision(layer: KnowledgeLayer) -> None:
    one, two = (layer.store.store(draft(title), OWNER) for title in ("one", "two"))
    mixed = derived(layer, "mixed", one, two)
    of_mixed = derived(layer, "of the mixed", mixed)
    assert layer.deletion.erase(one.id, OWNER) == Erased([one.id], [mixed.id])
    assert set(there(layer, mixed, of_mixed)) == {"mixed", "of the mixed"}
    (flag,) = layer.deletion.flags(OWNER)
    assert (flag.item_id, flag.source_id, flag.kept_at) == (mixed.id, one.id, None)
    assert layer.deletion.flags(WORK_ONLY) == []
    assert layer.provenance.verify(OWNER).findings == []


def test_the_owner_decides_to_keep(layer: KnowledgeLayer) -> None:
    one, two = (layer.store.store(draft(title), OWNER) for title in ("one", "two"))
    mixed = derived(layer, "mixed", one, two)
    layer.deletion.erase(one.id, OWNER)
    layer.deletion.keep(mixed.id, OWNER)
    assert layer.deletion.flags(OWNER) == []
    (kept,) = layer.deletion.flags(OWNER, undecided=False)
    assert (kept.kept_by, kept.kept_at is not None) == ("justine", True)
    assert layer.provenance.events(OWNER)[-1].event == "kept"
    with pytest.raises(NotFound):
        layer.deletion.keep(mixed.id, OWNER)
    assert layer.deletion.erase(two.id, OWNER) == Erased([two.id], [mixed.id])  # its last source: asked once more
    assert there(layer, mixed) == ["mixed"]


def test_the_owner_decides_to_delete(layer: KnowledgeLayer) -> None:
    one, two = (layer.store.store(draft(title), OWNER) for title in ("one", "two"))
    mixed = derived(layer, "mixed", one, two)
    layer.deletion.erase(one.id, OWNER)
    layer.deletion.erase(mixed.id, OWNER)
    assert layer.deletion.flags(OWNER, undecided=False) == []
    assert there(layer, mixed, two) == ["two"]


def test_a_derivative_out_of_sight_is_flagged_and_not_deleted(layer: KnowledgeLayer) -> None:
    source = layer.store.store(draft("source"), OWNER)
    hidden = derived(layer, "hidden", source, compartment="work")
    at_home = Session("justine", AgentClass.OWNER, frozenset({"home"}))
    assert layer.deletion.erase(source.id, at_home).deleted == [source.id]
    assert there(layer, hidden) == ["hidden"]
    assert [flag.item_id for flag in layer.deletion.flags(OWNER)] == [hidden.id]


def test_a_ring_of_derivatives_ends(layer: KnowledgeLayer) -> None:
    source = layer.store.store(draft("source"), OWNER)
    one = derived(layer, "one", source)
    two = derived(layer, "two", one)
    layer.store.link(one.id, two.id, "derived_from", OWNER)
    assert layer.deletion.erase(source.id, OWNER) == Erased([source.id], [one.id])
    assert set(layer.deletion.erase(one.id, OWNER).deleted) == {one.id, two.id}


@pytest.fixture
def buried(layer: KnowledgeLayer) -> Iterator[str]:
    """The id of an item with the sentinel in every field, updated, embedded, linked, read, and deleted."""
    friend = layer.store.store(draft("friend"), OWNER)
    item = layer.store.store(sentinel_draft(1), OWNER)
    layer.store.store(sentinel_draft(2, id=item.id), OWNER)
    layer.store.store(draft(f"{SENTINEL} by reference", id=item.id, body=None, body_ref=f"s3://{SENTINEL}"), OWNER)
    layer.store.store(sentinel_draft(3, id=item.id), OWNER)
    layer.store.link(item.id, friend.id, "about", OWNER)
    layer.store.link(friend.id, item.id, "about", OWNER)
    derived(layer, f"{SENTINEL} retold", item)
    layer.transactions.write(
        OWNER,
        lambda transaction: transaction.execute(
            """INSERT INTO knowledge_layer.item_embeddings (item_id, chunk, model, version, item_version, embedding)
               SELECT %s, 0, 'kl-hash-embed', '1', 4, array_fill(0.051, ARRAY[384])::vector""",
            (item.id,),
        ),
    )
    layer.store.get(item.id, OWNER)
    for refused in (
        sentinel_draft(4, id=item.id, tier="long-term"),
        sentinel_draft(5, id=item.id, compartment="divorce"),
    ):
        with pytest.raises((Conflict, FirewallCrossed)):
            layer.store.store(refused, OWNER)
    layer.deletion.erase(item.id, OWNER)
    yield item.id
    assert layer.provenance.verify(OWNER).findings == []


def sentinel_draft(number: int, **fields: str):
    long = " ".join(f"{SENTINEL} {word}" for word in range(5000))  # beyond what fits into a row
    return draft(
        f"{SENTINEL} {number}",
        summary=f"of {SENTINEL}",
        body={SENTINEL: [SENTINEL, {"deep": long}]},
        tags=[SENTINEL, str(number)],
        **fields,
    )


def tables_with_sentinel(connection: psycopg.Connection) -> set[str]:
    """Every table and view of every schema, statistics and running queries included, that tells of the sentinel."""
    found: set[str] = set()
    relations = connection.execute(
        """SELECT nspname, relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
           WHERE relkind IN ('r', 'p', 'v', 'm') AND NOT (nspname = 'pg_catalog' AND relname IN
               ('pg_hba_file_rules', 'pg_ident_file_mappings', 'pg_shmem_allocations_numa'))"""
    ).fetchall()
    for schema, name in relations:
        row = connection.execute(
            sql.SQL("SELECT count(*) FROM {} AS whole WHERE strpos(whole::text, %s) > 0").format(
                sql.Identifier(schema, name)
            ),
            (SENTINEL,),
        ).fetchone()
        if row is not None and row[0]:
            found.add(f"{schema}.{name}")
    return found


def relations_with_sentinel(connection: psycopg.Connection) -> set[str]:
    """Every file of a table, index or TOAST table of this database whose pages hold the sentinel's bytes."""
    rows = connection.execute(
        """SELECT relation::text FROM (SELECT oid::regclass AS relation, pg_relation_size(oid) / 8192 AS pages
                                       FROM pg_class WHERE relfilenode <> 0 OR relkind IN ('r', 'i', 't')) AS files
           WHERE EXISTS (SELECT FROM generate_series(0, pages - 1) AS page
                         WHERE position(convert_to(%s, 'UTF8') IN get_raw_page(relation::text, page)) > 0)""",
        (SENTINEL,),
    )
    return {row[0] for row in rows}


def test_before_it_is_deleted_the_sentinel_is_found_where_it_has_to_be(
    layer: KnowledgeLayer, superuser: psycopg.Connection
) -> None:
    """So that finding nothing later means something."""
    superuser.execute("CREATE EXTENSION pageinspect")
    item = layer.store.store(sentinel_draft(1), OWNER)
    layer.store.store(sentinel_draft(2, id=item.id), OWNER)
    superuser.execute("ANALYZE")
    superuser.execute("CHECKPOINT")
    assert tables_with_sentinel(superuser) == {"knowledge_layer.items", "knowledge_layer.item_versions"}
    found = relations_with_sentinel(superuser)
    assert {"knowledge_layer.items", "knowledge_layer.item_versions", "knowledge_layer.items_search_text"} <= found


def test_a_deleted_text_is_in_no_table_and_no_statistic(buried: str, superuser: psycopg.Connection) -> None:
    superuser.execute("ANALYZE")
    assert tables_with_sentinel(superuser) == set()


def test_the_servers_log_tells_of_refusals_and_not_of_content(buried: str, postgres_server: Server) -> None:
    if postgres_server.log_path is None:
        pytest.skip("the log of TEST_DATABASE_URL's server cannot be read")
    text = postgres_server.log_path.read_text(encoding="utf-8", errors="replace")
    assert "only the gate leads to long-term" in text
    assert SENTINEL not in text


def test_after_a_scrub_it_is_in_no_page_of_a_table_or_an_index(
    buried: str, layer: KnowledgeLayer, superuser: psycopg.Connection
) -> None:
    superuser.execute("CREATE EXTENSION pageinspect")
    assert relations_with_sentinel(superuser) != set()  # a deletion alone marks rows as gone
    layer.deletion.scrub(OWNER)
    assert relations_with_sentinel(superuser) == set()
    assert tables_with_sentinel(superuser) == set()


def test_what_is_left_is_content_free(buried: str, superuser: psycopg.Connection) -> None:
    event, detail = superuser.execute(
        "SELECT event, detail::text FROM knowledge_layer.provenance_events ORDER BY seq DESC LIMIT 1"
    ).fetchone() or ("", "")
    assert event == "deleted"
    assert set(json.loads(detail)) == {"items", "flagged", "removed"}
    assert json.loads(detail)["items"][0] == buried
    assert all(len(left) == 3 and len(left[2]) == 64 for left in json.loads(detail)["removed"])
