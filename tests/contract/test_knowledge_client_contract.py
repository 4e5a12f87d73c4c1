"""What every client of a store keeps to: the fake, and the real one against the real store through its handlers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from spot_sdk.batching import BatchLimits
from spot_sdk.documents import KnowledgeDocument, RetrievalLimits, SyncRunRef, UpsertResult
from spot_sdk.errors import (
    Conflict,
    DuplicateDocument,
    InvalidDocument,
    InvalidRequest,
    InvalidTagExpression,
    PayloadTooLarge,
    StaleRun,
    SyncRunning,
)
from spot_sdk.sync import RemovalLimits

pytestmark = pytest.mark.anyio

NOW = datetime.now(UTC)
TRAVEL = "Book trains and hotels with the travel desk, at least a week ahead."
PAYMENTS = "Payments to a new bank account need the approval of two people from finance."
LUNCH = "The canteen serves lunch from noon."


@dataclass
class Mail:
    body_text: str | None
    retrieval_limits: Any = None


def document(id_: str, content: str = LUNCH, *tags: str, **fields: Any) -> KnowledgeDocument:
    return KnowledgeDocument(id=id_, content=content, tags=list(tags), **fields)


def statuses(result: UpsertResult) -> dict[str, str]:
    return {outcome.id: outcome.status for outcome in result.results}


async def ids_in(kb, **question: Any) -> list[str]:
    question.setdefault("text", "anything")
    question.setdefault("top_k", 100)
    return sorted(found.id for found in await kb.fetch(**question))


# --- writing -----------------------------------------------------------------------------------------------------


async def test_created_unchanged_updated(kb):
    doc = document("a", PAYMENTS, "policy", metadata={"n": 1, "nested": {"x": [None, True, 1.5, "é"]}}, source="s")
    assert (await kb.upsert(doc)).status == "created"
    assert (await kb.upsert(doc)).status == "unchanged"
    for change in (
        {"content": LUNCH},
        {"tags": ["policy", "finance"]},
        {"metadata": {"n": 2}},
        {"source": "t"},
        {"expires_at": NOW + timedelta(days=1)},
        {"updated_at": NOW},
    ):
        doc = doc.model_copy(update=change)
        assert (await kb.upsert(doc)).status == "updated", change
        assert (await kb.upsert(doc)).status == "unchanged", change


async def test_what_is_stored_comes_back(kb):
    doc = document(
        "wiki:ä/ö?#1 %2F",
        "Zeile\r\n\ttab é\u0301 👩‍💻 \u2028",
        "großes-Tag:x_1",
        "日本語",
        metadata={"parent_id": "wiki:ä", "deep": {"list": [1, 2.5, None, False, {"k": "v"}]}, "big": 2**62},
        source="Quelle 1",
        updated_at=NOW - timedelta(days=3),
        expires_at=NOW + timedelta(days=3),
    )
    await kb.upsert(doc)
    [found] = await kb.fetch(text="tab")
    assert found.model_copy(update={"score": None}) == doc


async def test_a_document_without_a_moment_gets_the_stores(kb):
    await kb.upsert(document("a"))
    [found] = await kb.fetch(text="lunch")
    assert found.updated_at is not None
    assert abs(found.updated_at - datetime.now(UTC)) < timedelta(minutes=1)
    assert found.expires_at is None


async def test_the_score_of_an_answer_is_not_stored(kb):
    await kb.upsert(document("a"))
    [found] = await kb.fetch(text="lunch")
    found.updated_at = None
    assert (await kb.upsert(found)).status == "unchanged"


async def test_a_bulk_upsert_tells_of_each_in_order(kb):
    await kb.upsert(document("b"))
    seen: list[tuple[int, int]] = []
    result = await kb.bulk_upsert(
        [document("c"), document("b"), document("a", TRAVEL)], progress=lambda done, total: seen.append((done, total))
    )
    assert statuses(result) == {"c": "created", "b": "unchanged", "a": "created"}
    assert list(statuses(result)) == ["c", "b", "a"]
    assert (result.created, result.updated, result.unchanged, result.failed) == (2, 0, 1, 0)
    assert seen == [(3, 3)]
    assert await ids_in(kb) == ["a", "b", "c"]


async def test_only_what_changed_in_its_text_is_embedded(kb):
    docs = [document("a", TRAVEL, metadata={"title": "Travel"}), document("b")]
    assert (await kb.bulk_upsert(docs)).embedded == 2
    assert (await kb.bulk_upsert(docs)).embedded == 0
    docs[0] = docs[0].model_copy(update={"tags": ["wiki_page"]})
    assert (await kb.bulk_upsert(docs)).embedded == 0
    docs[0] = docs[0].model_copy(update={"metadata": {"title": "Journeys"}})
    assert (await kb.bulk_upsert(docs)).embedded == 1


async def test_a_long_list_is_one_result(make_client):
    kb = make_client(batch_limits=BatchLimits(documents=7))
    seen: list[int] = []
    docs = [document(f"d{n:02}", f"{LUNCH} {n}") for n in range(30)]
    result = await kb.bulk_upsert(iter(docs), lambda done, _: seen.append(done))
    assert [outcome.id for outcome in result.results] == [doc.id for doc in docs]
    assert (result.created, seen) == (30, [7, 14, 21, 28, 30])


async def test_an_empty_list_is_nothing(kb):
    assert (await kb.bulk_upsert([])).results == []
    assert await kb.delete_many([]) == 0


async def test_an_id_twice_is_refused_and_named_and_nothing_is_stored(kb):
    with pytest.raises(DuplicateDocument) as caught:
        await kb.bulk_upsert([document("a"), document("b"), document("a", TRAVEL)])
    assert [problem.document for problem in caught.value.problems] == ["a"]
    assert caught.value.message == "a id: stands 2 times; nothing was stored"
    assert await ids_in(kb) == []


async def test_a_spoilt_document_is_refused_and_named_and_nothing_is_stored(kb):
    spoilt = document("b")
    spoilt.tags.append("r&d")
    with pytest.raises(InvalidDocument) as caught:
        await kb.bulk_upsert([document("a"), spoilt])
    assert [(problem.document, problem.field) for problem in caught.value.problems] == [("b", "tags.0")]
    assert await ids_in(kb) == []


async def test_a_document_too_large_for_a_request_is_refused_and_named(make_client):
    kb = make_client(batch_limits=BatchLimits(bytes=2_000))
    with pytest.raises(PayloadTooLarge) as caught:
        await kb.bulk_upsert([document("a"), document("whole", "x" * 3_000)])
    assert [problem.document for problem in caught.value.problems] == ["whole"]
    assert await ids_in(kb) == []


async def test_delete(kb):
    odd = ["a/b", "a?b", "a%3Fb", "..", "a"]
    await kb.bulk_upsert([document(id_) for id_ in odd])
    assert await kb.delete("a?b") is True
    assert await kb.delete("a?b") is False
    assert await kb.delete("..") is True
    assert await kb.delete_many(["a/b", "a/b", "a%3Fb", "never there"]) == 2
    assert await ids_in(kb) == ["a"]
    with pytest.raises(InvalidRequest):
        await kb.delete("")


async def test_replace_children_leaves_exactly_these(kb):
    def chunks(*contents: str) -> list[KnowledgeDocument]:
        return [document(f"w#{n}", text, metadata={"parent_id": "w"}) for n, text in enumerate(contents)]

    await kb.upsert(document("other", metadata={"parent_id": "v"}))
    assert statuses(await kb.replace_children("w", chunks("one", "two", "three"))) == dict.fromkeys(
        ["w#0", "w#1", "w#2"], "created"
    )
    assert statuses(await kb.replace_children("w", chunks("one", "2"))) == {"w#0": "unchanged", "w#1": "updated"}
    assert await ids_in(kb) == ["other", "w#0", "w#1"]
    with pytest.raises(InvalidDocument) as caught:
        await kb.replace_children("w", [document("stray", metadata={"parent_id": "x"})])
    assert [problem.document for problem in caught.value.problems] == ["stray"]
    await kb.replace_children("w", [])
    assert await ids_in(kb) == ["other"]


async def test_replace_children_leaves_what_other_sources_have(kb):
    def child(id_: str, source: str) -> KnowledgeDocument:
        return document(id_, source=source, metadata={"parent_id": "pg"})

    await kb.bulk_upsert([child("a1", "A"), child("a2", "A"), child("b1", "B"), child("none", "")])
    await kb.replace_children("pg", [child("a1", "A")])
    assert await ids_in(kb) == ["a1", "b1", "none"]
    await kb.replace_children("pg", [])
    assert await ids_in(kb) == ["a1", "b1"]
    await kb.replace_children("pg", [], source="B")
    assert await ids_in(kb) == ["a1"]
    await kb.replace_children("pg", [child("a2", "A")], source="B")
    assert await ids_in(kb) == ["a2"]
    with pytest.raises(InvalidDocument):
        await kb.replace_children("pg", [child("a3", "A"), child("b3", "B")])
    assert await ids_in(kb) == ["a2"]
    with pytest.raises(InvalidRequest):
        await kb.replace_children("pg", [], source="\n")


async def test_children_that_do_not_fit_into_one_request_are_refused(make_client):
    kb = make_client(batch_limits=BatchLimits(bytes=4_000))
    with pytest.raises(PayloadTooLarge, match="of w "):
        await kb.replace_children("w", [document(f"w#{n}", metadata={"parent_id": "w"}) for n in range(80)])
    assert await ids_in(kb) == []


async def test_numbers_come_back_as_the_database_keeps_them(kb):
    await kb.upsert(document("a", metadata={"minus": -0.0, "list": [-0.0, {"whole": 1e17}], "tiny": 1e-7, "one": 1.0}))
    [found] = await kb.fetch(text="lunch")
    assert found.metadata == {"minus": 0, "list": [0, {"whole": 10**17}], "tiny": 1e-7, "one": 1}
    numbers = [found.metadata["minus"], found.metadata["list"][0], found.metadata["list"][1]["whole"]]
    assert [repr(number) for number in numbers] == ["0.0", "0.0", "100000000000000000"]
    assert repr(found.metadata["one"]) == "1.0"
    again = document("a", metadata={**found.metadata, "minus": -0.0, "list": [-0.0, {"whole": 1e17}]})
    assert (await kb.upsert(again)).status == "unchanged"
    assert (await kb.upsert(found.model_copy(update={"updated_at": None}))).status == "updated"


# --- asking ------------------------------------------------------------------------------------------------------


async def test_the_closest_comes_first_with_scores_in_range(kb):
    await kb.bulk_upsert([document("lunch"), document("pay", PAYMENTS), document("travel", TRAVEL)])
    found = await kb.fetch(text="Who approves payments to a new bank account?", top_k=3)
    assert found[0].id == "pay"
    scores = [doc.score for doc in found]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    [same, *others] = await kb.fetch(text=TRAVEL, top_k=3)
    assert same.id == "travel"
    assert same.score == pytest.approx(1, abs=1e-6)
    assert all(doc.score < 0.6 for doc in others)


async def test_title_and_headings_are_searched(kb):
    await kb.bulk_upsert(
        [
            document("a", "See the table.", metadata={"title": "Parental leave", "heading_path": ["Benefits"]}),
            document("b", "See the list.", metadata={"title": "Printers", "heading_path": ["Office", "Second floor"]}),
        ]
    )
    assert (await kb.fetch(text="parental leave", top_k=1))[0].id == "a"
    assert (await kb.fetch(text="printers on the second floor", top_k=1))[0].id == "b"


async def test_equal_scores_are_in_the_order_of_ids(kb):
    await kb.bulk_upsert([document(id_) for id_ in ("b", "a", "Z", "ä", "10", "9")])
    assert [doc.id for doc in await kb.fetch(text=LUNCH, top_k=4)] == ["10", "9", "Z", "a"]


async def test_top_k_is_how_many_there_are_at_most(kb):
    await kb.bulk_upsert([document(f"d{n}", f"{LUNCH} {n}") for n in range(8)])
    assert [len(await kb.fetch(text="lunch", top_k=k)) for k in (1, 5, 8, 100)] == [1, 5, 8, 8]
    assert len(await kb.fetch(text="lunch")) == 5


async def test_min_score_is_a_floor(kb):
    await kb.bulk_upsert([document("pay", PAYMENTS), document("lunch")])
    every = await kb.fetch(text=PAYMENTS)
    assert [doc.id for doc in every] == ["pay", "lunch"]
    assert [doc.id for doc in await kb.fetch(text=PAYMENTS, min_score=0.9)] == ["pay"]
    floor = every[1].score
    assert len(await kb.fetch(text=PAYMENTS, min_score=floor)) == 2, "a score equal to the floor is enough"


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        (None, "abcd"),
        ("", "abcd"),
        ("  ", "abcd"),
        ("employee", "abc"),
        ("employee+executive", "a"),
        ("executive|finance", "ab"),
        (" employee + executive | director ", "ad"),
        ("nobody", ""),
        ("employee+nobody|finance", "b"),
        ("Employee", ""),
    ],
)
async def test_tag_expressions(kb, tags, expected):
    await kb.bulk_upsert(
        [
            document("a", LUNCH, "employee", "executive"),
            document("b", LUNCH, "employee", "finance"),
            document("c", LUNCH, "employee"),
            document("d", LUNCH, "director"),
        ]
    )
    assert await ids_in(kb, tags=tags) == list(expected)


async def test_a_filtered_answer_is_never_short(kb):
    await kb.bulk_upsert([document(f"d{n:03}", f"{LUNCH} {n}", "rare" if n % 40 == 7 else "usual") for n in range(200)])
    assert await ids_in(kb, tags="rare", text=TRAVEL, top_k=10) == ["d007", "d047", "d087", "d127", "d167"]


@pytest.mark.parametrize(("tags", "column"), [("a+", 3), ("|a", 1), ("a++b", 3), ("r&d", 2), ("a b", 3), ("(a)", 1)])
async def test_a_wrong_expression_says_where(kb, tags, column):
    with pytest.raises(InvalidTagExpression) as caught:
        await kb.fetch(tags, "x")
    assert caught.value.column == column
    assert caught.value.expected


@pytest.mark.parametrize(
    "question",
    [
        {"text": "x", "top_k": 0},
        {"text": "x", "top_k": 101},
        {"text": "x", "min_score": -0.1},
        {"text": "x", "min_score": float("nan")},
        {"text": "x", "strategy": "telepathy"},
        {"text": " "},
        {"text": "\0"},
        {},
    ],
    ids=str,
)
async def test_a_question_that_cannot_be_asked(kb, question):
    with pytest.raises(InvalidRequest):
        await kb.fetch(**question)


async def test_the_expired_are_never_returned_nor_counted(kb):
    await kb.bulk_upsert(
        [
            document("gone", expires_at=NOW - timedelta(seconds=1)),
            document("naive", expires_at=(NOW - timedelta(seconds=1)).replace(tzinfo=None)),
            document("still", expires_at=NOW + timedelta(hours=1)),
            document("ever"),
        ]
    )
    assert await ids_in(kb) == ["ever", "still"]
    stats = await kb.stats()
    assert (stats.documents, stats.expired) == (2, 2)
    assert (await kb.upsert(document("gone"))).status == "updated"
    assert await ids_in(kb) == ["ever", "gone", "still"]


async def test_an_answer_is_ones_own(kb):
    await kb.upsert(document("a", LUNCH, "x", metadata={"list": [1]}))
    [found] = await kb.fetch(text="lunch")
    found.tags.append("y")
    found.metadata["list"].append(2)
    [again] = await kb.fetch(text="lunch")
    assert (again.tags, again.metadata) == (["x"], {"list": [1]})


async def test_limits_cap_and_never_widen(make_client):
    await make_client().bulk_upsert([document("pay", PAYMENTS), document("lunch"), document("travel", TRAVEL)])
    limited = make_client(retrieval_limits=RetrievalLimits(max_top_k=2, min_score_floor=0.0))
    assert [len(await limited.fetch(text="x", top_k=k)) for k in (1, 2, 100, 1000)] == [1, 2, 2, 2]
    strict = make_client(retrieval_limits=RetrievalLimits(min_score_floor=0.9))
    assert [doc.id for doc in await strict.fetch(text=PAYMENTS)] == ["pay"]
    assert await strict.fetch(text="Payments and lunch", min_score=0.0) == []
    with pytest.raises(InvalidRequest):
        await limited.fetch(text="x", top_k=0)


async def test_an_analysis_asks_with_its_email_within_its_limits(make_client):
    await make_client().bulk_upsert([document("pay", PAYMENTS, "policy"), document("travel", TRAVEL, "policy")])
    mail = Mail("Urgent: make payments to our new bank account", {"max_top_k": 1})
    kb = make_client(email=mail)
    assert [doc.id for doc in await kb.fetch("policy", top_k=5)] == ["pay"]
    assert [doc.id for doc in await kb.fetch(text="hotels and trains", top_k=5)] == ["travel"]
    assert await make_client(email=Mail("\n ")).fetch("policy") == []
    with pytest.raises(InvalidRequest):
        await make_client(email=Mail(None)).fetch("policy")
    with pytest.raises(InvalidRequest):
        make_client(email=Mail("x", {"max_top_k": 0}))


async def test_a_hostile_email_can_be_asked_with(make_client):
    await make_client().upsert(document("pay", PAYMENTS))
    hostile = Mail("payments\0 bank\ud800 account " + "padding " * 20_000)
    assert [doc.id for doc in await make_client(email=hostile).fetch(top_k=1)] == ["pay"]


async def test_stats_count_by_tag_and_source(kb):
    await kb.bulk_upsert(
        [
            document("a", LUNCH, "policy", "own:tag", source="wiki", updated_at=NOW - timedelta(days=2)),
            document("b", LUNCH, "policy", "hr", source="wiki", updated_at=NOW),
            document("c", LUNCH, source="ldap", updated_at=NOW - timedelta(days=1)),
        ]
    )
    stats = await kb.stats()
    assert stats.documents == 3
    counts = {count.tag: count.documents for count in stats.tags}
    assert (counts["policy"], counts["hr"], counts["ticket"]) == (2, 1, 0)
    assert [(count.source, count.documents) for count in stats.sources] == [("ldap", 1), ("wiki", 2)]
    assert (stats.sources[1].oldest, stats.sources[1].newest) == (NOW - timedelta(days=2), NOW)
    assert (stats.oldest, stats.newest) == (NOW - timedelta(days=2), NOW)


async def test_an_empty_store(kb):
    stats = await kb.stats()
    assert (stats.documents, stats.expired, stats.sources, stats.oldest) == (0, 0, [], None)
    assert await kb.fetch(text="anything") == []


async def test_version_says_how_long_chunks_should_be(kb):
    assert (await kb.version()).embedding.chunk_chars > 0


async def test_a_client_is_a_context_and_closes_twice(kb):
    async with kb as same:
        await same.upsert(document("a"))
    await kb.close()


# --- sync runs ---------------------------------------------------------------------------------------------------


def of_wiki(*numbers: int) -> list[KnowledgeDocument]:
    return [document(f"w{n}", f"{LUNCH} {n}", source="wiki") for n in numbers]


async def test_a_run_removes_what_its_source_no_longer_has(kb):
    await kb.bulk_upsert([*of_wiki(1, 2, 3), document("e1", source="ldap")])
    seen: list[int] = []
    async with kb.sync_run("wiki") as run:
        await run.upsert(of_wiki(1), progress=lambda done, _: seen.append(done))
        await run.upsert(of_wiki(2, 4))
    assert await ids_in(kb) == ["e1", "w1", "w2", "w4"]
    result = run.result
    assert (result.status, result.source, result.removed, result.held) == ("succeeded", "wiki", 1, 0)
    assert (result.created, result.updated, result.unchanged, result.embedded) == (1, 0, 2, 1)
    assert seen == [1]


async def test_a_run_that_raises_removes_nothing(kb):
    await kb.bulk_upsert(of_wiki(1, 2))
    run = kb.sync_run("wiki")

    async def sync() -> None:
        async with run:
            await run.upsert(of_wiki(1))
            raise OSError("page 2 of the listing cannot be read")

    with pytest.raises(OSError, match="page 2"):
        await sync()
    assert run.result.status == "failed"
    assert "page 2 of the listing" in run.result.error
    assert await ids_in(kb) == ["w1", "w2"]
    async with kb.sync_run("wiki") as run:
        await run.upsert(of_wiki(1))
    assert await ids_in(kb) == ["w1"]


@pytest.mark.parametrize("sent", [0, 4])
async def test_a_run_that_would_remove_too_much_removes_nothing_and_says_so(kb, sent):
    await kb.bulk_upsert(of_wiki(*range(10)))
    async with kb.sync_run("wiki", limits=RemovalLimits(share=0.5, count=1)) as run:
        await run.upsert(of_wiki(*range(sent)))
    assert (run.result.status, run.result.removed, run.result.held) == ("partial", 0, 10 - sent)
    assert "nothing was removed" in run.result.error
    assert len(await ids_in(kb)) == 10


async def test_what_a_run_brings_does_not_outweigh_what_it_would_remove(kb):
    await kb.bulk_upsert(of_wiki(*range(20)))
    async with kb.sync_run("wiki") as run:
        await run.upsert(of_wiki(*range(100, 300)))
    assert (run.result.status, run.result.created, run.result.held) == ("partial", 200, 20)
    assert run.result.error == (
        "20 of 20 documents would go, more than 20% or 5; nothing was removed. "
        f"If it is right: `knowledge runs confirm {run.result.run_id}`"
    )
    assert (await kb.stats()).documents == 220


async def test_a_run_that_sent_nothing_says_what_would_go(kb):
    await kb.bulk_upsert(of_wiki(1, 2))
    async with kb.sync_run("wiki") as run:
        pass
    assert run.result.error == (
        "the run sent nothing, and 2 of 2 documents would go; nothing was removed. "
        f"If it is right: `knowledge runs confirm {run.result.run_id}`"
    )


@pytest.mark.parametrize("sent", [(1,), ()], ids=["succeeded", "partial"])
async def test_a_run_is_completed_again_as_it_ended(kb, sent):
    await kb.bulk_upsert(of_wiki(1, 2))
    run = kb.sync_run("wiki")
    async with run:
        await run.upsert(of_wiki(*sent))
    first = run.result.model_copy()
    ref = run._run
    for limits in (RemovalLimits(), RemovalLimits(share=1)):
        record = await run._calls.complete(ref, limits)
        assert (record.id, record.status, record.removed, record.held, record.error) == (
            first.run_id,
            first.status,
            first.removed,
            first.held,
            first.error,
        )
    with pytest.raises(StaleRun):
        await run._calls.complete(SyncRunRef(id=ref.id, fence=ref.fence + 1), RemovalLimits())
    with pytest.raises(StaleRun):
        await run._calls.fail(ref, "too late")


async def test_a_run_that_failed_cannot_be_completed(kb):
    run = kb.sync_run("wiki")
    await run.__aenter__()
    await run._calls.fail(run._run, "told")
    with pytest.raises(StaleRun):
        await run._calls.complete(run._run, RemovalLimits())
    with pytest.raises(StaleRun):
        await run.__aexit__(None, None, None)


async def test_a_reason_that_cannot_be_stored_hides_no_error(kb):
    async def sync() -> None:
        async with kb.sync_run("wiki"):
            raise OSError("page \0 of \udcff cannot be read")

    with pytest.raises(OSError, match="page"):
        await sync()


async def test_an_empty_run_over_an_empty_source_is_no_trouble(kb):
    async with kb.sync_run("wiki") as run:
        pass
    assert (run.result.status, run.result.removed, run.result.held) == ("succeeded", 0, 0)


async def test_what_others_write_while_a_run_is_open_stays(kb):
    await kb.bulk_upsert(of_wiki(1, 2))
    async with kb.sync_run("wiki") as run:
        await run.upsert(of_wiki(1))
        await kb.upsert(document("w9", TRAVEL, source="wiki"))
    assert await ids_in(kb) == ["w1", "w9"]
    async with kb.sync_run("wiki") as run:
        await run.upsert(of_wiki(1))
        assert (await kb.upsert(document("w9", TRAVEL, source="wiki"))).status == "unchanged"
    assert await ids_in(kb) == ["w1", "w9"]


async def test_one_run_of_a_source_at_a_time(kb):
    async with kb.sync_run("wiki"):
        with pytest.raises(SyncRunning):
            async with kb.sync_run("wiki"):
                pass
        async with kb.sync_run("ldap"):
            pass
    async with kb.sync_run("wiki"):
        pass


async def test_a_run_is_about_its_own_source(kb):
    with pytest.raises(InvalidDocument) as caught:
        async with kb.sync_run("wiki") as run:
            await run.upsert([document("e1", source="ldap")])
    assert [problem.document for problem in caught.value.problems] == ["e1"]
    assert run.result.status == "failed"
    assert await ids_in(kb) == []


async def test_a_run_checks_like_a_bulk_upsert(kb):
    with pytest.raises(DuplicateDocument):
        async with kb.sync_run("wiki") as run:
            await run.upsert(of_wiki(1, 1))
    with pytest.raises(InvalidRequest):
        async with kb.sync_run(""):
            pass


async def test_a_run_that_is_over_writes_no_more(kb):
    run = kb.sync_run("wiki")
    with pytest.raises(Conflict):
        await run.upsert(of_wiki(1))
    async with run:
        pass
    with pytest.raises(StaleRun):
        await run.upsert(of_wiki(1))
    assert await ids_in(kb) == []
