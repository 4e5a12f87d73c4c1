"""Sync runs: after a good one the store has what the source has; after a bad one, what it had."""

from __future__ import annotations

from datetime import timedelta

import pytest

from knowledge.db.connection import Database
from knowledge.documents import sync_run
from knowledge.documents.ingest import Ingestion
from knowledge.documents.sync_run import SourceSync
from knowledge.documents.writer import Writer
from knowledge.sync import runs
from spot_sdk.documents import KnowledgeDocument, SyncRunRef
from spot_sdk.errors import Conflict, Forbidden, InvalidDocument, NotFound, StaleRun, SyncRunning
from spot_sdk.sync import RemovalLimits

ANY_REMOVAL = RemovalLimits(share=1.0)


def documents(*ids: str, source: str = "wiki", content: str = "words") -> list[KnowledgeDocument]:
    return [KnowledgeDocument(id=id_, content=f"{content} {id_}", source=source) for id_ in ids]


def stored(database: Database) -> set[str]:
    return {r["id"] for r in database.run(lambda t: t.execute("SELECT id FROM knowledge_documents").fetchall())}


def run_with(sync: SourceSync, *ids: str, limits: RemovalLimits = ANY_REMOVAL):
    run = sync.start("wiki").run
    if ids:
        sync.upsert(run, documents(*ids))
    return sync.complete(run, limits)


def test_removes_what_the_source_no_longer_has(source_sync: SourceSync, database: Database) -> None:
    run_with(source_sync, "a", "b", "c")
    record = run_with(source_sync, "b", "c", "d")
    assert stored(database) == {"b", "c", "d"}
    assert (record.status, record.created, record.updated, record.unchanged, record.removed) == (
        "succeeded", 1, 0, 2, 1,
    )  # fmt: skip


def test_leaves_other_sources_alone(source_sync: SourceSync, ingestion: Ingestion, database: Database) -> None:
    ingestion.upsert(documents("x", "y", source="directory"))
    run_with(source_sync, "a")
    assert stored(database) == {"a", "x", "y"}


def test_what_is_sent_outside_a_run_meanwhile_stays_though_it_is_unchanged(
    source_sync: SourceSync, ingestion: Ingestion, database: Database
) -> None:
    run_with(source_sync, "a", "b", "gone")
    run = source_sync.start("wiki").run
    source_sync.upsert(run, documents("a"))
    assert ingestion.upsert(documents("b")).unchanged == 1
    assert source_sync.complete(run, ANY_REMOVAL).removed == 1
    assert stored(database) == {"a", "b"}


def test_a_page_replaced_meanwhile_stays_though_it_is_unchanged(
    source_sync: SourceSync, ingestion: Ingestion, database: Database
) -> None:
    page = [KnowledgeDocument(id="p#1", content="x", source="wiki", metadata={"parent_id": "p"})]
    ingestion.upsert(page)
    run_with(source_sync, "a", "p#1", limits=RemovalLimits(share=0))
    ingestion.upsert(page)
    run = source_sync.start("wiki").run
    source_sync.upsert(run, documents("a"))
    assert ingestion.replace_children("p", page).unchanged == 1
    assert source_sync.complete(run, ANY_REMOVAL).removed == 0
    assert stored(database) == {"a", "p#1"}


def test_what_is_sent_after_the_guard_held_is_not_removed_by_its_confirmation(
    source_sync: SourceSync, ingestion: Ingestion, database: Database
) -> None:
    run_with(source_sync, "a", "b")
    held = run_with(source_sync)
    ingestion.upsert(documents("a"))
    assert source_sync.confirm(held.id).removed == 1
    assert stored(database) == {"a"}


def test_an_unchanged_document_that_goes_before_it_is_kept_is_created_anew(
    source_sync: SourceSync, ingestion: Ingestion, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_with(source_sync, "a", "b")
    run = source_sync.start("wiki").run
    source_sync.upsert(run, documents("a"))
    prepare, prepared = ingestion.prepare, 0

    def prepare_and_be_overtaken(*arguments, **options):
        nonlocal prepared
        found = prepare(*arguments, **options)
        prepared += 1
        if prepared == 1:
            assert source_sync.complete(run, ANY_REMOVAL).removed == 1
        return found

    monkeypatch.setattr(ingestion, "prepare", prepare_and_be_overtaken)
    assert ingestion.upsert(documents("b")).created == 1
    assert stored(database) == {"a", "b"}


def test_unchanged_documents_are_not_touched_where_no_run_could_remove_them(
    source_sync: SourceSync, ingestion: Ingestion, database: Database
) -> None:
    run_with(source_sync, "a")
    places = "SELECT ctid::text AS place FROM knowledge_documents"
    before = database.run(lambda t: t.execute(places).fetchall())
    assert ingestion.upsert(documents("a")).unchanged == 1
    assert database.run(lambda t: t.execute(places).fetchall()) == before


def test_an_empty_run_removes_nothing(source_sync: SourceSync, database: Database) -> None:
    run_with(source_sync, "a", "b")
    record = run_with(source_sync)
    assert (record.status, record.removed, record.held) == ("partial", 0, 2)
    assert f"knowledge runs confirm {record.id}" in record.error
    assert stored(database) == {"a", "b"}


def test_old_records_go_and_the_last_ones_stay(
    source_sync: SourceSync, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "KEEP_RUNS", 2)
    old = [run_with(source_sync, "a").id for _ in range(4)]
    database.run(lambda t: t.execute("UPDATE knowledge_sync_runs SET started_at = now() - interval '91 days'"))
    newest = run_with(source_sync, "a").id
    assert [record.id for record in source_sync.latest("wiki", 10)] == [newest, old[-1]]


def test_the_guard_holds_a_large_removal_until_it_is_confirmed(source_sync: SourceSync, database: Database) -> None:
    everyone = [f"p{n:02d}" for n in range(20)]
    run_with(source_sync, *everyone)
    record = run_with(source_sync, *everyone[:10], limits=RemovalLimits())
    assert (record.status, record.held) == ("partial", 10)
    assert "10 of 20" in record.error
    assert stored(database) == set(everyone)
    confirmed = source_sync.confirm(record.id)
    assert (confirmed.status, confirmed.removed) == ("succeeded", 10)
    assert stored(database) == set(everyone[:10])
    with pytest.raises(NotFound):
        source_sync.confirm(record.id)


def test_a_held_removal_is_not_confirmed_after_a_later_run(source_sync: SourceSync, database: Database) -> None:
    everyone = [f"p{n:02d}" for n in range(20)]
    run_with(source_sync, *everyone)
    held = run_with(source_sync, *everyone[:10], limits=RemovalLimits())
    run_with(source_sync, *everyone)
    with pytest.raises(Conflict):
        source_sync.confirm(held.id)
    assert stored(database) == set(everyone)


def test_what_a_run_brings_does_not_outweigh_what_it_would_remove(source_sync: SourceSync, database: Database) -> None:
    """A source that changes its scheme of ids offers many new documents, and all the old ones would go."""
    old = [f"old{n:02d}" for n in range(20)]
    run_with(source_sync, *old)
    record = run_with(source_sync, *[f"new{n:03d}" for n in range(80)], limits=RemovalLimits())
    assert (record.status, record.held) == ("partial", 20)
    assert set(old) <= stored(database)


def test_a_failed_run_removes_nothing(source_sync: SourceSync, database: Database) -> None:
    run_with(source_sync, "a", "b")
    run = source_sync.start("wiki").run
    source_sync.upsert(run, documents("c"))
    record = source_sync.fail(run, "page 2 of the listing answered 500")
    assert (record.status, record.error) == ("failed", "page 2 of the listing answered 500")
    assert stored(database) == {"a", "b", "c"}


def test_one_run_at_a_time(source_sync: SourceSync) -> None:
    source_sync.start("wiki")
    with pytest.raises(SyncRunning):
        source_sync.start("wiki")
    source_sync.start("directory")


def test_a_run_that_was_taken_over_can_do_no_harm(
    source_sync: SourceSync, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_with(source_sync, "a", "b")
    monkeypatch.setattr(sync_run, "LEASE", timedelta(seconds=-1))  # runs out as soon as it is claimed
    frozen = source_sync.start("wiki").run
    monkeypatch.undo()
    live = source_sync.start("wiki").run
    assert live.fence > frozen.fence
    for write in (
        lambda: source_sync.upsert(frozen, documents("stale")),
        lambda: source_sync.heartbeat(frozen),
        lambda: source_sync.complete(frozen, ANY_REMOVAL),
        lambda: source_sync.fail(frozen, "x"),
        lambda: source_sync.upsert(SyncRunRef(id=live.id, fence=frozen.fence), documents("stale")),
    ):
        with pytest.raises(StaleRun):
            write()
    source_sync.upsert(live, documents("a", "b", "c"))
    source_sync.complete(live, ANY_REMOVAL)
    assert stored(database) == {"a", "b", "c"}
    assert source_sync.latest("wiki", 10)[1].status == "failed"


def test_a_finished_run_takes_nothing_more(source_sync: SourceSync, database: Database) -> None:
    run = source_sync.start("wiki").run
    source_sync.complete(run, ANY_REMOVAL)
    with pytest.raises(StaleRun):
        source_sync.upsert(run, documents("late"))
    assert stored(database) == set()


def test_what_was_written_beside_the_run_stays(
    source_sync: SourceSync, ingestion: Ingestion, database: Database
) -> None:
    run_with(source_sync, "a", "b")
    run = source_sync.start("wiki").run
    source_sync.upsert(run, documents("a"))
    ingestion.upsert(documents("b", content="fresh"))
    source_sync.complete(run, ANY_REMOVAL)
    assert stored(database) == {"a", "b"}


def test_a_document_of_another_source_is_refused(source_sync: SourceSync, database: Database) -> None:
    run = source_sync.start("wiki").run
    with pytest.raises(InvalidDocument):
        source_sync.upsert(run, [*documents("a"), *documents("b", source="directory")])
    assert stored(database) == set()


def test_a_bound_writer_runs_its_own_source_only(source_sync: SourceSync) -> None:
    stranger = Writer("directory", respects_sources=True)
    run = source_sync.start("wiki").run
    for attempt in (
        lambda: source_sync.start("other", writer=stranger),
        lambda: source_sync.upsert(run, documents("a"), writer=stranger),
        lambda: source_sync.complete(run, ANY_REMOVAL, writer=stranger),
        lambda: source_sync.fail(run, "x", writer=stranger),
        lambda: source_sync.heartbeat(run, writer=stranger),
    ):
        with pytest.raises(Forbidden):
            attempt()


def test_the_seen_marks_of_earlier_runs_are_cleared(source_sync: SourceSync, database: Database) -> None:
    for _ in range(3):
        run_with(source_sync, "a", "b")
    marks = database.run(lambda t: t.execute("SELECT count(*) AS n FROM knowledge_sync_seen").fetchone())
    assert marks is not None
    assert marks["n"] <= 2
