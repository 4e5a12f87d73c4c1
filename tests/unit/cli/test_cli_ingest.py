from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spot_sdk.documents import KnowledgeDocument
from spot_sdk.testing import FakeKnowledgeClient

Knowledge = Callable[..., Any]


@pytest.fixture
def handbook(tmp_path: Path) -> Path:
    """Ten pages, one of them with two chunks."""
    folder = tmp_path / "handbook"
    (folder / "finance").mkdir(parents=True)
    for number in range(9):
        (folder / f"page-{number}.md").write_text(f"# Page {number}\n\nWhat page {number} says.\n")
    long = "# Payments\n\n" + "Two people approve. " * 60 + "\n\n## Limits\n\n" + "Ten thousand at most. " * 60
    (folder / "finance/payments.md").write_text(f"---\ntags: [policy]\n---\n{long}")
    return folder


@pytest.fixture
def ingest(knowledge: Knowledge, handbook: Path) -> Knowledge:
    def ingest(*options: str) -> Any:
        return knowledge("ingest", str(handbook), "--source", "handbook", *options)

    return ingest


def ids(store: FakeKnowledgeClient) -> set[str]:
    return {document.id for document in store.documents}


def test_a_folder_becomes_documents(ingest: Knowledge, store: FakeKnowledgeClient) -> None:
    ended = ingest("--tags", "wiki_page", "--tags", "internal", "--tags-from-folders")

    assert ended.code == 0
    assert "10 pages, 11 chunks: 11 created, 0 updated, 0 unchanged, 0 removed\n11 texts embedded" in ended.out
    by_id = {document.id: document for document in store.documents}
    payments = by_id["handbook:finance/payments.md#chunk-1"]
    assert payments.tags == ["wiki_page", "internal", "finance", "policy"]
    assert payments.source == "handbook"


def test_a_second_run_embeds_what_changed_and_removes_what_is_gone(
    ingest: Knowledge, store: FakeKnowledgeClient, handbook: Path
) -> None:
    ingest()
    (handbook / "page-0.md").write_text("# Page 0\n\nRewritten.\n")
    (handbook / "page-1.md").unlink()
    (handbook / "finance/payments.md").write_text("# Payments\n\nShort now.\n")

    summary = json.loads(ingest("--json").out)

    assert summary["status"] == "succeeded"
    assert {name: summary[name] for name in ("created", "updated", "unchanged", "removed", "embedded")} == {
        "created": 0,
        "updated": 2,
        "unchanged": 7,
        "removed": 2,
        "embedded": 2,
    }
    assert not ids(store) & {"handbook:page-1.md#chunk-0", "handbook:finance/payments.md#chunk-1"}


def test_a_rate_is_told_of_what_was_sent(
    ingest: Knowledge, knowledge: Knowledge, store: FakeKnowledgeClient, tmp_path: Path
) -> None:
    assert re.search(r"\n11 texts embedded; sent in \d+\.\d s, [\d,]+ chunks a second\n$", ingest().out)
    assert re.search(r"\n0 texts embedded; sent in \d+\.\d s, [\d,]+ chunks a second\n$", ingest().out)
    empty = tmp_path / "empty"
    empty.mkdir()
    assert re.search(r"\n0 texts embedded; sent in \d+\.\d s\n$", knowledge("ingest", str(empty), "--source", "s").out)


def test_other_sources_keep_what_is_theirs(ingest: Knowledge, store: FakeKnowledgeClient) -> None:
    asyncio.run(store.upsert(KnowledgeDocument(id="other", content="Somebody else's", source="other")))
    ingest()

    assert "other" in ids(store)


def test_many_removals_wait_for_confirmation(ingest: Knowledge, store: FakeKnowledgeClient, handbook: Path) -> None:
    ingest()
    for number in range(8):
        (handbook / f"page-{number}.md").unlink()

    held = ingest()
    assert held.code == 1
    assert "--max-removed 8" in held.err
    assert len(ids(store)) == 11

    assert ingest("--max-removed", "7").code == 1
    assert ingest("--max-removed", "8").code == 0
    assert len(ids(store)) == 3


def test_removals_are_confirmed_as_a_share_too(ingest: Knowledge, store: FakeKnowledgeClient, handbook: Path) -> None:
    ingest()
    for number in range(8):
        (handbook / f"page-{number}.md").unlink()

    assert ingest("--max-removed", "70%").code == 1  # 7 of 11
    assert ingest("--max-removed", "80%").code == 0


def test_an_empty_folder_removes_nothing(
    ingest: Knowledge, knowledge: Knowledge, store: FakeKnowledgeClient, tmp_path: Path
) -> None:
    ingest()
    (tmp_path / "empty").mkdir()

    ended = knowledge("ingest", str(tmp_path / "empty"), "--source", "handbook", "--max-removed", "100%")

    assert ended.code == 1
    assert len(ids(store)) == 11


def test_a_page_that_cannot_be_read_keeps_what_is_stored(
    ingest: Knowledge, store: FakeKnowledgeClient, handbook: Path
) -> None:
    ingest()
    (handbook / "page-0.md").write_bytes(b"caf\xe9")
    (handbook / "page-1.md").unlink()
    (handbook / "page-2.md").write_text("# Page 2\n\nRewritten.\n")

    ended = ingest()

    assert ended.code == 1
    assert "1 cannot be read:\n  page-0.md: not UTF-8 (byte 3)" in ended.err
    assert "nothing was removed" in ended.err
    assert "--skip-unreadable" in ended.err
    assert {"handbook:page-0.md#chunk-0", "handbook:page-1.md#chunk-0"} <= ids(store)
    assert any(document.content.endswith("Rewritten.\n") for document in store.documents)

    assert ingest("--skip-unreadable").code == 0
    assert not {"handbook:page-0.md#chunk-0", "handbook:page-1.md#chunk-0"} & ids(store)


def test_links_and_empty_pages_are_told(ingest: Knowledge, store: FakeKnowledgeClient, handbook: Path) -> None:
    (handbook / "link.md").symlink_to("page-0.md")
    (handbook / "empty.md").touch()

    summary = json.loads(ingest("--json").out)

    assert summary["ignored"] == {"link.md": "a symbolic link", "empty.md": "without text"}
    assert (summary["pages"], summary["chunks"]) == (11, 11)


def test_what_the_model_refuses_fails_the_command_and_nothing_else(
    ingest: Knowledge, store: FakeKnowledgeClient
) -> None:
    store.refuse_to_embed("handbook:page-0.md#chunk-0")

    ended = ingest()

    assert ended.code == 1
    assert "1 could not be embedded:\n  handbook:page-0.md#chunk-0: refused" in ended.err
    assert "10 created" in ended.out
    assert "1 failed" in ended.out


def test_one_file_replaces_its_own_chunks(
    ingest: Knowledge, knowledge: Knowledge, store: FakeKnowledgeClient, handbook: Path
) -> None:
    ingest()
    page = handbook / "finance/payments.md"
    page.write_text("# Payments\n\nShort now.\n")

    ended = knowledge("ingest", str(page), "--base", str(handbook), "--source", "handbook")

    assert ended.code == 0
    assert "1 page, 1 chunk: 0 created, 1 updated" in ended.out
    assert len(ids(store)) == 10


def test_one_file_that_became_empty_leaves_no_chunk(
    ingest: Knowledge, knowledge: Knowledge, store: FakeKnowledgeClient, handbook: Path
) -> None:
    ingest()
    page = handbook / "finance/payments.md"
    page.write_text("")

    ended = knowledge("ingest", str(page), "--base", str(handbook), "--source", "handbook")

    assert ended.code == 0
    assert not [id_ for id_ in ids(store) if "payments" in id_]
    assert len(ids(store)) == 9


def test_one_file_alone_has_the_id_of_its_name(
    knowledge: Knowledge, store: FakeKnowledgeClient, handbook: Path
) -> None:
    knowledge("ingest", str(handbook / "finance/payments.md"), "--source", "s", "--id-prefix", "wiki")

    assert ids(store) == {"wiki:payments.md#chunk-0", "wiki:payments.md#chunk-1"}


def test_a_dry_run_sends_nothing(ingest: Knowledge, store: FakeKnowledgeClient) -> None:
    ended = ingest("--dry-run", "--chunk-chars", "500")

    assert (ended.code, store.documents) == (0, [])
    assert "nothing was sent" in ended.out


def test_chunks_are_as_long_as_the_store_advises_or_as_told(ingest: Knowledge, store: FakeKnowledgeClient) -> None:
    assert json.loads(ingest("--dry-run", "--json").out)["chunks"] == 11
    assert json.loads(ingest("--dry-run", "--json", "--chunk-chars", "500").out)["chunks"] > 14


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tags", "R&D"], "'R&D' is no tag"),
        (["--max-removed", "many"], "expected a number of documents"),
        (["--max-removed", "101%"], "expected a number of documents"),
        (["--chunk-chars", "0"], "--chunk-chars"),
        (["--base", "."], "a folder is its own base"),
    ],
)
def test_options_that_are_not_right(
    ingest: Knowledge, store: FakeKnowledgeClient, options: list[str], message: str
) -> None:
    ended = ingest(*options)

    assert ended.code == 2
    assert message in ended.err
    assert store.documents == []


def test_a_file_outside_its_base(
    knowledge: Knowledge, store: FakeKnowledgeClient, handbook: Path, tmp_path: Path
) -> None:
    (tmp_path / "other.md").write_text("Text.")

    ended = knowledge("ingest", str(tmp_path / "other.md"), "--base", str(handbook), "--source", "s")

    assert ended.code == 2
    assert "is not in" in ended.err


def test_no_such_folder(knowledge: Knowledge, store: FakeKnowledgeClient) -> None:
    ended = knowledge("ingest", "nowhere", "--source", "s")

    assert ended.code == 2
    assert "does not exist" in ended.err
