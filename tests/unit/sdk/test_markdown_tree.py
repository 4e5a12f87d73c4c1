from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from spot_sdk.errors import InvalidDocument, InvalidInput
from spot_sdk.markdown_tree import MAX_PAGE_BYTES, MarkdownPage, MarkdownTree, read_markdown_tree


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def write(folder: Path, path: str, content: str | bytes) -> None:
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)


def read_page(folder: Path, content: str | bytes, *, path: str = "page.md", **options: object) -> MarkdownPage:
    write(folder, path, content)
    return MarkdownTree(folder, source="handbook", **options).read(path)  # type: ignore[arg-type]


def test_a_page_becomes_chunks_that_say_where_they_stand(folder: Path) -> None:
    page = read_page(
        folder,
        "---\ntitle: Payments\nowner: treasury@company.example\ntags: [policy, R&D]\nupdated: 2026-02-16\n---\n"
        "# Payment approval\n\n" + "Two people sign. " * 12 + "\n\n## Limits\n\n" + "Ten thousand at most. " * 10,
        path="finance/payment-approval.md",
        tags=["wiki_page"],
        chunk_chars=250,
        overlap=20,
    )

    assert [document.id for document in page.documents] == [
        "handbook:finance/payment-approval.md#chunk-0",
        "handbook:finance/payment-approval.md#chunk-1",
    ]
    first, second = page.documents
    assert first.tags == ["wiki_page", "policy", "r_and_d"]
    assert first.source == "handbook"
    assert first.updated_at == datetime(2026, 2, 16, tzinfo=UTC)
    assert first.metadata == {
        "owner": "treasury@company.example",
        "parent_id": "handbook:finance/payment-approval.md",
        "title": "Payments",
        "heading_path": ["Payment approval"],
        "chunk_index": 0,
        "path": "finance/payment-approval.md",
    }
    assert second.metadata["heading_path"] == ["Payment approval", "Limits"]
    assert second.metadata["chunk_index"] == 1
    assert page.id == "handbook:finance/payment-approval.md"
    assert page.title == "Payments"


def test_a_page_of_one_chunk_has_a_parent_like_any_other(folder: Path) -> None:
    page = read_page(folder, "# Short\n\nAll of it.", id_prefix="wiki")

    [document] = page.documents
    assert document.id == "wiki:page.md#chunk-0"
    assert document.metadata["parent_id"] == "wiki:page.md"


@pytest.mark.parametrize(
    ("path", "content", "title"),
    [
        ("a.md", "---\ntitle: From the top\n---\n# From the text", "From the top"),
        ("a.md", "Before.\n\n## From the **text**\n\nAfter.", "From the text"),
        ("a.md", "```\n# a comment\n```\n", "A"),
        ("payment_approval-2.md", "No heading.", "Payment approval 2"),
        ("team/it/README.md", "No heading.", "It"),
        ("index.md", "No heading.", "Index"),
        ("notes.txt", "# not a heading in plain text", "Notes"),
    ],
)
def test_title(folder: Path, path: str, content: str, title: str) -> None:
    page = read_page(folder, content, path=path)

    assert page.title == title
    assert page.documents[0].metadata["title"] == title


def test_plain_text_is_cut_without_headings_and_front_matter(folder: Path) -> None:
    [document] = read_page(folder, "---\ntags: [a]\n---\n# comment\n", path="run.txt").documents

    assert document.content.startswith("---\ntags")
    assert document.tags == []
    assert document.metadata["heading_path"] == []


@pytest.mark.parametrize(
    ("front_matter", "tags"),
    [
        ("tags: [Human Resources, 'C++', no, 2026]", ["human_resources", "c_plus_plus", "no", "2026"]),
        ("tags: finance, legal hold", ["finance", "legal_hold"]),
        ("tags:\n- a\nlabels:\n- b\n- a", ["a", "b"]),
        ("tags:", []),
        ("tags: []\nlabels: null", []),
        ("title: without any", []),
    ],
)
def test_labels_become_tags(folder: Path, front_matter: str, tags: list[str]) -> None:
    assert read_page(folder, f"---\n{front_matter}\n---\nText.").documents[0].tags == tags


def test_scalars_stay_as_they_were_written(folder: Path) -> None:
    page = read_page(
        folder,
        "---\nversion: 1.10\nreviewed: yes\nempty:\nnothing: null\nlist: [1]\n"
        "parent_id: forged\npath: forged\n---\nText.",
    )

    metadata = page.documents[0].metadata
    assert metadata["version"] == "1.10"
    assert metadata["reviewed"] == "yes"
    assert not metadata.keys() & {"empty", "nothing", "list", "tags"}
    assert metadata["parent_id"] == "handbook:page.md"
    assert metadata["path"] == "page.md"


@pytest.mark.parametrize(
    ("written", "moment"),
    [
        ("2026-02-16", datetime(2026, 2, 16, tzinfo=UTC)),
        ("2026-02-16T10:00:00+02:00", datetime(2026, 2, 16, 8, tzinfo=UTC)),
        ("last Tuesday", None),
        ("2026-02-30", None),
    ],
)
def test_updated(folder: Path, written: str, moment: datetime | None) -> None:
    [document] = read_page(folder, f"---\nupdated: {written}\n---\nText.").documents

    assert document.updated_at == moment
    assert document.metadata.get("updated") == (None if moment else written)


@pytest.mark.parametrize(
    "content",
    [
        "---\nnot closed: true\n\nText.",
        "---\nJust a sentence.\n---\nText.",
        "\n---\nnot: at the top\n---\nText.",
        "----\na: b\n----\nText.",
    ],
)
def test_what_is_no_front_matter_is_text(folder: Path, content: str) -> None:
    [document] = read_page(folder, content).documents

    assert document.content == content
    assert document.metadata.keys() == {"parent_id", "title", "heading_path", "chunk_index", "path"}


def test_byte_order_mark_and_carriage_returns_are_no_content(folder: Path) -> None:
    [document] = read_page(folder, b"\xef\xbb\xbf---\r\ntitle: T\r\n---\r\nOne.\r\nTwo.\r").documents

    assert document.content == "One.\nTwo.\n"
    assert document.metadata["title"] == "T"


@pytest.mark.parametrize("content", [b"", b" \n\n", b"\xef\xbb\xbf", b"---\ntitle: T\n---\n"])
def test_a_page_without_text_has_no_documents(folder: Path, content: bytes) -> None:
    assert read_page(folder, content).documents == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"caf\xe9", "page.md: not UTF-8 (byte 3)"),
        (b"x" * (MAX_PAGE_BYTES + 1), "page.md: larger than 4,000,000 bytes"),
        (b"a\0b", "page.md: content: a NUL character cannot be stored"),
        (b"---\nok: 1\na: b: c\n---\n", "page.md: front matter, line 3: mapping values are not allowed here"),
        (b"---\na: [1\n---\n", "page.md: front matter, line"),
        (b"---\na: \x07\n---\n", "page.md: front matter: unacceptable character #x0007"),
        (b"---\na: " + b"[" * 500 + b"\n---\n", "page.md: front matter: nested too deep"),
        (b"---\ntags: {a: b}\n---\nText.", "page.md: front matter, tags: expected a list of labels"),
        (b"---\ntags: [[a]]\n---\nText.", "page.md: front matter, tags: expected a list of labels"),
        (b"---\ntags: ['!!!']\n---\nText.", "page.md: no tag can be made of '!!!'"),
        (b"---\nblob: '" + b"x" * 70_000 + b"'\n---\nText.", "page.md: front matter: longer than 65,536 characters"),
        (b"---\nblob: '" + b"x" * 65_500 + b"'\n---\nText.", "page.md: metadata: 65"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_path_and_the_reason(folder: Path, content: bytes, reason: str) -> None:
    with pytest.raises(InvalidDocument, match=f"^{re.escape(reason)}") as refused:
        read_page(folder, content)

    assert {problem.document for problem in refused.value.problems} == {"page.md"}


def test_a_file_that_vanished_is_refused(folder: Path) -> None:
    with pytest.raises(InvalidDocument, match=r"gone\.md: No such file"):
        MarkdownTree(folder, source="handbook").read("gone.md")


def test_folders_become_tags_when_asked_to(folder: Path) -> None:
    page = read_page(folder, "Text.", path="Human Resources/!!/Pay & Benefits/a.md", tags_from_folders=True)

    assert page.documents[0].tags == ["human_resources", "pay_and_benefits"]


def test_a_name_has_one_id_however_its_accents_are_stored(folder: Path) -> None:
    assert read_page(folder, "Text.", path="cafe\u0301.md").id == "handbook:caf\u00e9.md"


def test_the_survey_lists_pages_and_says_what_it_ignores(folder: Path) -> None:
    for path in ("b.md", "a/z.MD", "a/y.markdown", "a.txt", "a-b.text", ".hidden.md", ".git/config.md", "logo.png"):
        write(folder, path, "Text.")
    (folder / "a/loop").symlink_to(folder)
    (folder / "link.md").symlink_to("b.md")
    os.mkfifo(folder / "pipe.md")
    (folder / "folder.md").mkdir()
    write(folder, "folder.md/inside.md", "Text.")

    survey = MarkdownTree(folder, source="handbook").survey()

    assert survey.pages == ["a-b.text", "a.txt", "a/y.markdown", "a/z.MD", "b.md", "folder.md/inside.md"]
    assert survey.ignored == {
        "a/loop": "a symbolic link",
        "link.md": "a symbolic link",
        "pipe.md": "not a regular file",
    }
    assert survey.refused == []


def test_a_tree_deeper_than_the_interpreters_stack(folder: Path) -> None:
    with deep_page(folder, ["d"] * 1_100) as path:
        assert MarkdownTree(folder, source="handbook").survey().pages == [path]


@contextmanager
def deep_page(folder: Path, folders: list[str]) -> Iterator[str]:
    """A page below these nested folders, made and removed by steps: the path of all may be longer than is allowed."""
    back = Path.cwd()
    os.chdir(folder)
    try:
        for each in folders:
            Path(each).mkdir()
            os.chdir(each)
        Path("page.md").write_text("Text.")
        yield "/".join([*folders, "page.md"])
        Path("page.md").unlink()
        for each in reversed(folders):
            os.chdir("..")
            Path(each).rmdir()
    finally:
        os.chdir(back)


def test_no_folder_is_no_tree(folder: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no such folder"):
        MarkdownTree(folder / "nowhere", source="handbook").survey()


def test_a_folder_that_cannot_be_listed_is_not_taken_for_empty(folder: Path) -> None:
    write(folder, "page.md", "Text.")

    with deep_page(folder, ["d" * 250] * 17):  # longer than the longest path that may be opened
        [refusal] = MarkdownTree(folder, source="handbook").survey().refused
        with pytest.raises(InvalidDocument):
            list(read_markdown_tree(folder, source="handbook"))

    assert str(refusal).endswith("d/: File name too long")


def test_a_file_name_that_is_no_text_is_refused(folder: Path) -> None:
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.md")).write_text("Text.")
    tree = MarkdownTree(folder, source="handbook")
    [path] = tree.survey().pages

    with pytest.raises(InvalidDocument, match=r"caf\?.md: id: a lone surrogate"):
        tree.read(path)


def test_the_whole_tree_comes_page_by_page(folder: Path) -> None:
    write(folder, "b.md", "Second.")
    write(folder, "a/a.md", "First.")

    ids = [document.id for document in read_markdown_tree(folder, source="handbook", id_prefix="wiki", tags=["t"])]

    assert ids == ["wiki:a/a.md#chunk-0", "wiki:b.md#chunk-0"]


def test_a_tree_with_a_page_that_is_refused_is_not_read_to_its_end(folder: Path) -> None:
    write(folder, "a.md", b"\xff")
    write(folder, "b.md", "Text.")

    with pytest.raises(InvalidDocument, match=r"a\.md: not UTF-8"):
        list(read_markdown_tree(folder, source="handbook"))
