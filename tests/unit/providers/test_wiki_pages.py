"""What the store is told of a wiki: kinds and labels of pages, and every reason to tell nothing at all."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from examples.providers.listing import Deadline, Listing, SourceFailed
from examples.providers.wiki.pages import page_tags, read_wiki
from examples.providers.wiki.settings import EXAMPLE_HANDBOOK, wiki
from spot_sdk.errors import DeadlineExceeded


def read(folder: Path, chunk_chars: int = 900, **environment: str) -> Listing:
    return read_wiki(wiki({"WIKI_PATH": str(folder), **environment}), chunk_chars, Deadline.after(60))


def write(folder: Path, path: str, text: str) -> None:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(text)


@pytest.mark.parametrize(
    ("path", "front_matter", "tags"),
    [
        ("page.md", [], ["wiki_page"]),
        ("it/page.md", ["internal"], ["wiki_page", "it", "internal"]),
        ("policies/page.md", [], ["policy"]),
        ("security/Policy/page.md", ["security"], ["policy", "security"]),
        ("travel-policies/page.md", [], ["policy", "travel-policies"]),
        ("incidents/2025/page.md", [], ["incident_report", "2025"]),
        ("incidents/policies/page.md", [], ["policy"]),
        ("incidents/page.md", ["wiki_page"], ["wiki_page"]),
        ("it/page.md", ["policy", "it"], ["policy", "it"]),
        ("people/page.md", ["wiki_page", "org_chart"], ["wiki_page", "people", "org_chart"]),
        ("R&D/***/page.md", [], ["wiki_page", "r_and_d"]),
        ("policies.md", [], ["wiki_page"]),
    ],
)
def test_a_page_has_one_kind_and_labels(path: str, front_matter: list[str], tags: list[str]) -> None:
    assert page_tags(path, front_matter) == tags


def test_the_example_handbook_by_kind() -> None:
    listing = read(EXAMPLE_HANDBOOK)
    kinds = {document.metadata["parent_id"]: document.tags[0] for document in listing.documents}
    assert Counter(kinds.values()) == {"wiki_page": 11, "policy": 9, "incident_report": 3}
    assert listing.remarks == []
    assert max(len(document.content) for document in listing.documents) <= 900


def test_chunks_know_their_page_and_their_place_in_it(tmp_path: Path) -> None:
    write(
        tmp_path,
        "it/mail.md",
        "---\ntitle: Mail\nupdated: 2026-03-05\nowner: ada@co.example\n---\n# Mail\n\n## Rules\n\n" + "One rule. " * 60,
    )
    documents = read(tmp_path, chunk_chars=300, WIKI_URL="https://wiki.co.example/pages/").documents
    assert len(documents) > 1
    assert [document.id for document in documents] == [f"wiki:it/mail.md#chunk-{n}" for n in range(len(documents))]
    last = documents[-1]
    assert last.metadata["parent_id"] == "wiki:it/mail.md"
    assert last.metadata["title"] == "Mail"
    assert last.metadata["heading_path"] == ["Mail", "Rules"]
    assert last.metadata["owner"] == "ada@co.example"
    assert last.metadata["url"] == "https://wiki.co.example/pages/it/mail.md"
    assert last.updated_at is not None
    assert last.updated_at.isoformat() == "2026-03-05T00:00:00+00:00"
    assert {document.source for document in documents} == {"provider-wiki"}


def test_no_page_makes_somebody_an_employee(tmp_path: Path) -> None:
    write(tmp_path, "staff.md", "---\ntags: [employee, executive, director, threat_report]\n---\nEve is the new CEO.")
    write(tmp_path, "employee/eve.md", "Eve is the new CEO.")
    listing = read(tmp_path)
    assert [document.tags for document in listing.documents] == [["wiki_page"], ["wiki_page", "executive"]]
    assert listing.remarks == [
        "employee/eve.md: a page is not tagged employee",
        "staff.md: a page is not tagged director, employee, threat_report",
    ]


def test_an_empty_page_has_no_documents(tmp_path: Path) -> None:
    write(tmp_path, "empty.md", "---\ntags: [it]\n---\n\n")
    assert read(tmp_path).documents == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"\xff\xfe", "not UTF-8"), (b"---\ntags: [\n---\n", "front matter, line"), (b"x" * 4_000_001, "larger than")],
)
def test_one_page_that_cannot_be_read_is_no_listing(tmp_path: Path, content: bytes, reason: str) -> None:
    write(tmp_path, "good.md", "fine")
    (tmp_path / "bad.md").write_bytes(content)
    with pytest.raises(SourceFailed, match=rf"^1 pages or folders cannot be read: bad\.md: {reason}"):
        read(tmp_path)


def test_all_that_is_wrong_is_counted_and_the_first_named(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}.md").write_bytes(b"\xff")
    with pytest.raises(SourceFailed, match=r"^5 pages .*0\.md: .*1\.md: .*2\.md: .* and 2 more$"):
        read(tmp_path)


def test_a_folder_that_is_not_there_is_no_empty_wiki(tmp_path: Path) -> None:
    with pytest.raises(SourceFailed, match=r"WIKI_PATH: .*no such folder"):
        read(tmp_path / "unmounted")


def test_reading_stops_at_the_deadline(tmp_path: Path) -> None:
    write(tmp_path, "page.md", "text")
    with pytest.raises(DeadlineExceeded):
        read_wiki(wiki({"WIKI_PATH": str(tmp_path)}), 900, Deadline.after(0))
