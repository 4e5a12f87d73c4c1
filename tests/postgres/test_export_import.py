from __future__ import annotations

import io
import json
import stat
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cli.main import run
from knowledge.db.connection import Database
from knowledge.db.migrate import migrate
from knowledge.documents import archive as archive_module
from knowledge.documents.archive import ArchiveHeader, RestoreResult, read_archive, read_header, write_archive
from knowledge.documents.ingest import Ingestion
from knowledge.documents.store import DocumentStore
from knowledge.embedding.hashing import HashEmbedder
from spot_sdk.documents import KnowledgeDocument
from spot_sdk.errors import InvalidDocument, InvalidInput
from spot_sdk.tag_expression import parse

GIVEN = datetime(2026, 2, 16, 9, 30, tzinfo=UTC)
FAR = datetime(2099, 1, 1, tzinfo=UTC)

DOCUMENTS = [
    KnowledgeDocument(
        id="wiki:1#chunk-0",
        content="Two people sign: Müller and 佐藤 🖋.\nNobody else.",
        tags=["policy", "finance"],
        metadata={"parent_id": "wiki:1", "title": "Payments", "heading_path": ["Limits"], "weight": 1.5, "none": None},
        source="wiki",
        updated_at=GIVEN,
        expires_at=FAR,
    ),
    KnowledgeDocument(id="employee:a@company.example", content="A. Person, CEO", tags=["employee"], source="directory"),
    KnowledgeDocument(id="loose", content="Neither tags nor source"),
]


@pytest.fixture
def other_url(bare_database_url: str, embedder: HashEmbedder) -> str:
    migrate(bare_database_url, embedder.model)
    return bare_database_url


@pytest.fixture
def other_database(other_url: str) -> Iterator[Database]:
    database = Database(lambda: other_url)
    yield database
    database.close()


@pytest.fixture
def other_store(other_database: Database, embedder: HashEmbedder) -> DocumentStore:
    return DocumentStore(other_database, embedder.model)


class CountingEmbedder(HashEmbedder):
    """Knows how many texts it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.texts = 0

    def embed_batch(self, texts: Any) -> Any:
        self.texts += len(texts)
        return super().embed_batch(texts)


@pytest.fixture
def other_embedder() -> CountingEmbedder:
    return CountingEmbedder()


@pytest.fixture
def other_ingestion(other_store: DocumentStore, other_embedder: CountingEmbedder) -> Ingestion:
    return Ingestion(other_store, other_embedder)


def export(store: DocumentStore, embedder: HashEmbedder, **options: Any) -> bytes:
    file = io.BytesIO()
    write_archive(store, embedder.model, file, on_header=lambda header: None, progress=lambda count: None, **options)
    return file.getvalue()


def restore(ingestion: Ingestion, embedder: HashEmbedder, archive: bytes, **options: Any) -> RestoreResult:
    file = io.BytesIO(archive)
    settings = {"batch_size": 2, "re_embed": False, "progress": lambda count: None} | options
    return read_archive(ingestion, embedder.model, read_header(file), file, **settings)


def lines(archive: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in archive.splitlines()]


def changed(archive: bytes, line: int, change: Callable[[dict[str, Any]], None]) -> bytes:
    read = lines(archive)
    change(read[line])
    return b"".join(json.dumps(each).encode() + b"\n" for each in read)


def rows(url: str) -> list[tuple[Any, ...]]:
    """All that is stored, bookkeeping apart."""
    with psycopg.connect(url) as connection:
        return connection.execute(
            "SELECT id, content, tags, metadata, source, updated_at, expires_at, content_hash, row_hash, "
            "embedding::text FROM knowledge_documents ORDER BY id"
        ).fetchall()


@pytest.mark.parametrize("with_vectors", [True, False])
def test_another_store_becomes_the_same(
    database_url: str,
    other_url: str,
    store: DocumentStore,
    ingestion: Ingestion,
    embedder: HashEmbedder,
    other_ingestion: Ingestion,
    other_store: DocumentStore,
    other_embedder: CountingEmbedder,
    with_vectors: bool,
) -> None:
    ingestion.upsert(DOCUMENTS)
    archive = export(store, embedder, with_vectors=with_vectors)

    result = restore(other_ingestion, embedder, archive)

    assert (result.created, result.documents, result.embedded) == (3, 3, 0 if with_vectors else 3)
    assert other_embedder.texts == result.embedded
    assert rows(other_url) == rows(database_url)
    assert lines(export(other_store, embedder, with_vectors=with_vectors))[1:] == lines(archive)[1:]


def test_what_was_restored_is_unchanged_for_its_provider(
    store: DocumentStore, ingestion: Ingestion, embedder: HashEmbedder, other_ingestion: Ingestion
) -> None:
    ingestion.upsert(DOCUMENTS)
    restore(other_ingestion, embedder, export(store, embedder, with_vectors=True))

    assert other_ingestion.upsert(DOCUMENTS).unchanged == 3


def test_restoring_twice_is_the_same_as_once(
    store: DocumentStore, ingestion: Ingestion, embedder: HashEmbedder, other_ingestion: Ingestion
) -> None:
    ingestion.upsert(DOCUMENTS)
    archive = export(store, embedder)
    restore(other_ingestion, embedder, archive)

    again = restore(other_ingestion, embedder, archive)

    assert (again.unchanged, again.embedded) == (3, 0)


def test_the_header_says_what_the_archive_holds(
    store: DocumentStore, ingestion: Ingestion, embedder: HashEmbedder
) -> None:
    ingestion.upsert(DOCUMENTS)

    header = ArchiveHeader.model_validate_json(export(store, embedder, with_vectors=True).splitlines()[0])

    assert (header.documents, header.vectors) == (3, True)
    assert str(header.embedding) == "kl-hash-embed 1 (384 dimensions)"


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ({}, ["employee:a@company.example", "loose", "wiki:1#chunk-0"]),
        ({"source": "wiki"}, ["wiki:1#chunk-0"]),
        ({"source": ""}, ["loose"]),
        ({"expression": parse("employee|policy+finance")}, ["employee:a@company.example", "wiki:1#chunk-0"]),
        ({"source": "wiki", "expression": parse("employee")}, []),
    ],
)
def test_an_export_can_be_limited(
    store: DocumentStore, ingestion: Ingestion, embedder: HashEmbedder, options: dict[str, Any], ids: list[str]
) -> None:
    ingestion.upsert(DOCUMENTS)

    header, *documents = lines(export(store, embedder, **options))

    assert [line["document"]["id"] for line in documents] == ids
    assert header["documents"] == len(ids)


def test_an_export_is_of_one_moment_and_without_the_expired(
    database_url: str, store: DocumentStore, ingestion: Ingestion, embedder: HashEmbedder
) -> None:
    ingestion.upsert([*DOCUMENTS, KnowledgeDocument(id="old", content="Old", expires_at=GIVEN - timedelta(days=1))])

    with store.export() as opened:
        store.delete(["loose"])
        ingestion.upsert([KnowledgeDocument(id="new", content="New")])
        ids = [entry.document.id for entry in opened.entries]

    assert ids == ["employee:a@company.example", "loose", "wiki:1#chunk-0"]
    assert opened.documents == 3


def test_a_vector_counts_only_for_the_text_that_it_is_of(
    store: DocumentStore,
    ingestion: Ingestion,
    embedder: HashEmbedder,
    other_ingestion: Ingestion,
    other_embedder: CountingEmbedder,
) -> None:
    ingestion.upsert(DOCUMENTS)
    archive = changed(
        export(store, embedder, with_vectors=True), 1, lambda line: line["document"].update(content="Edited by hand")
    )

    assert restore(other_ingestion, embedder, archive).embedded == 1
    assert other_embedder.texts == 1


def test_vectors_of_another_model_are_refused_or_made_anew(
    other_url: str, store: DocumentStore, ingestion: Ingestion, embedder: HashEmbedder, other_ingestion: Ingestion
) -> None:
    ingestion.upsert(DOCUMENTS)
    archive = changed(
        export(store, embedder, with_vectors=True), 0, lambda header: header["embedding"].update(version="0")
    )

    with pytest.raises(InvalidInput, match=r"kl-hash-embed 0 \(384.*kl-hash-embed 1 .*nothing was stored.*--re-embed"):
        restore(other_ingestion, embedder, archive)
    assert rows(other_url) == []
    assert restore(other_ingestion, embedder, archive, re_embed=True).embedded == 3


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda line: line.update(embedding=[0.0] * 384), "zero in every dimension"),
        (lambda line: line.update(embedding=[1.0] * 383), "383 numbers, not 384"),
        (lambda line: line["embedding"].__setitem__(0, float("nan")), "not finite"),
        (lambda line: line["embedding"].__setitem__(0, float("inf")), "not finite"),
        (lambda line: line.update(embedding="no"), "embedding: Input should be a valid array"),
        (lambda line: line.update(content_hash="xyz"), "hexadecimal"),
        (lambda line: line["document"].update(id=""), "document.id: Value should have at least 1 item"),
        (lambda line: line["document"].update(tags=["R&D"]), r"document.tags.0: 'R&D' is not a tag"),
        (lambda line: line["document"]["metadata"].update(x=float("nan")), "document.metadata: nan is not a JSON"),
        (lambda line: line.pop("document"), "document: Field required"),
    ],
)
def test_what_is_no_document_is_refused_with_its_line(
    other_url: str,
    store: DocumentStore,
    ingestion: Ingestion,
    embedder: HashEmbedder,
    other_ingestion: Ingestion,
    change: Callable[[dict[str, Any]], None],
    reason: str,
) -> None:
    ingestion.upsert(DOCUMENTS)
    archive = changed(export(store, embedder, with_vectors=True), 3, change)

    with pytest.raises(InvalidDocument, match=f"^line 4 is no document: .*{reason}"):
        restore(other_ingestion, embedder, archive)

    assert [row[0] for row in rows(other_url)] == ["employee:a@company.example", "loose"]  # the batch before it


@pytest.mark.parametrize(
    ("archive", "reason"),
    [
        (b"", "EOF"),
        (b"not json\n", "expected"),
        (b"\xff\xfe\n", "line 1"),
        (b'{"id": "a", "content": "a document, not a header"}\n', "Field required"),
        (b'{"format": "spot-knowledge-archive", "format_version": 2}\n', "format_version: Input should be 1"),
    ],
)
def test_what_is_no_archive_is_refused(archive: bytes, reason: str) -> None:
    with pytest.raises(InvalidInput, match=f"no archive that can be read here; line 1.*{reason}"):
        read_header(io.BytesIO(archive))


def test_an_archive_that_was_cut_short_is_noticed(
    store: DocumentStore, ingestion: Ingestion, embedder: HashEmbedder, other_ingestion: Ingestion
) -> None:
    ingestion.upsert(DOCUMENTS)
    archive = export(store, embedder)
    whole_lines = archive[: archive.rstrip().rindex(b"\n") + 1]

    with pytest.raises(InvalidInput, match="holds 2 documents and should hold 3"):
        restore(other_ingestion, embedder, whole_lines)
    with pytest.raises(InvalidDocument, match="line 4 is no document"):
        restore(other_ingestion, embedder, archive[:-20])
    assert restore(other_ingestion, embedder, archive).documents == 3


# --- the commands --------------------------------------------------------------------------------------------------


@pytest.fixture
def knowledge(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> Callable[..., tuple[int, bytes, str]]:
    """Runs the command line on the database at ``url``."""
    monkeypatch.setenv("KNOWLEDGE_HOME", str(tmp_path / "home"))

    def knowledge(url: str, *arguments: str) -> tuple[int, bytes, str]:
        code = run([*arguments, "--database", url, "--embedding-backend", "hash"])
        said = capfdbinary.readouterr()
        return code, said.out, said.err.decode()

    return knowledge


Knowledge = Callable[..., tuple[int, bytes, str]]


def test_from_one_database_to_a_file_to_another(
    knowledge: Knowledge, database_url: str, other_url: str, ingestion: Ingestion, tmp_path: Path
) -> None:
    ingestion.upsert(DOCUMENTS)
    file = tmp_path / "documents.jsonl"

    assert knowledge(database_url, "export", str(file), "--with-vectors") == (
        0,
        b"",
        f"3 documents exported to {file}\n",
    )
    assert knowledge(other_url, "import", str(file), "--batch", "2") == (
        0,
        b"3 documents: 3 created, 0 updated, 0 unchanged, 0 failed; 0 texts embedded\n",
        "",
    )
    assert rows(other_url) == rows(database_url)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_through_a_pipe(
    knowledge: Knowledge, database_url: str, other_url: str, ingestion: Ingestion, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingestion.upsert(DOCUMENTS)

    code, archive, note = knowledge(database_url, "export", "-", "--tags", "policy | employee")
    assert (code, note) == (0, "2 documents exported\n")
    assert [line["document"]["id"] for line in lines(archive)[1:]] == ["employee:a@company.example", "wiki:1#chunk-0"]

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(archive)))
    code, said, _ = knowledge(other_url, "import", "-", "--json")
    assert (code, json.loads(said)["created"]) == (0, 2)


def test_an_export_that_fails_leaves_the_file_as_it_was(
    knowledge: Knowledge, database_url: str, tmp_path: Path, ingestion: Ingestion, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingestion.upsert(DOCUMENTS)
    file = tmp_path / "documents.jsonl"
    file.write_text("yesterday's")
    monkeypatch.setattr(archive_module, "_archived", lambda exported: pytest.fail("in the middle"))

    with pytest.raises(pytest.fail.Exception):
        knowledge(database_url, "export", str(file))

    assert [path.name for path in tmp_path.iterdir()] == ["documents.jsonl"]
    assert file.read_text() == "yesterday's"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["export", "/nowhere/at/all.jsonl"], "cannot be written: No such file"),
        (["import", "/nowhere/at/all.jsonl"], "cannot be read: No such file"),
        (["import", "/"], "cannot be read: Is a directory"),
        (["import", "/dev/null"], "no archive that can be read here"),
        (["export", "-", "--tags", "a+"], "found the end"),
        (["import", "/dev/null", "--batch", "0"], "--batch"),
    ],
)
def test_what_is_refused(knowledge: Knowledge, database_url: str, arguments: list[str], message: str) -> None:
    code, said, note = knowledge(database_url, *arguments)

    assert (code, said) == (2, b"")
    assert message in note


def test_migrating(knowledge: Knowledge, bare_database_url: str) -> None:
    code, said, _ = knowledge(bare_database_url, "migrate")
    assert (code, said.splitlines()[0]) == (0, b"applied 0001_documents")

    assert knowledge(bare_database_url, "migrate") == (0, b"nothing to do\n", "")
    assert json.loads(knowledge(bare_database_url, "migrate", "--json")[1]) == {"applied": []}


def test_a_database_without_a_schema(knowledge: Knowledge, bare_database_url: str) -> None:
    code, said, note = knowledge(bare_database_url, "export", "-")

    assert (code, said) == (3, b"")
    assert "run `knowledge migrate`" in note
