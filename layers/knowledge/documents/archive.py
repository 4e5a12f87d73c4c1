"""Archives: documents as JSON lines, to be kept or moved to another store.

The first line is a header (``ArchiveHeader``), each other one a document (``ArchivedDocument``) in id order, all UTF-8.
An archive can be read with standard tools, and reading it into a store twice is the same as once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from knowledge.documents.ingest import Ingestion, Restored
from knowledge.documents.store import DocumentStore, Exported
from knowledge.embedding.vectors import unit
from spot_sdk.documents import SET_BY_QUERIES, KnowledgeDocument, Moment, UpsertResult
from spot_sdk.errors import EmbeddingFailed, InvalidDocument, InvalidInput, Problem
from spot_sdk.tag_expression import TagExpression

if TYPE_CHECKING:
    from spot_sdk.documents import EmbeddingModel

FORMAT = "spot-knowledge-archive"
MAX_LINE_BYTES = 16_000_000

Progress = Callable[[int], None]
"""Told how many documents more are done."""


class VectorModel(BaseModel):
    """What must be equal for vectors to be comparable."""

    model_config = ConfigDict(frozen=True)

    model: str
    version: str
    dimensions: int

    @classmethod
    def of(cls, model: EmbeddingModel) -> VectorModel:
        return cls(model=model.model, version=model.version, dimensions=model.dimensions)

    def __str__(self) -> str:
        return f"{self.model} {self.version} ({self.dimensions} dimensions)"


class ArchiveHeader(BaseModel):
    """First line of an archive: what it is, and what it holds. ``source`` and ``tags`` say what it was limited to."""

    format: Literal["spot-knowledge-archive"] = FORMAT
    format_version: Literal[1] = 1
    created_at: datetime
    documents: int
    vectors: bool
    embedding: VectorModel
    source: str | None = None
    tags: str | None = None


class ArchivedDocument(BaseModel):
    """One document. ``document.updated_at`` is what its provider gave, ``updated_at`` what the store took for it.

    ``embedding`` is the vector of the text whose SHA-256 is ``content_hash``.
    """

    document: KnowledgeDocument
    updated_at: Moment
    content_hash: str = ""
    embedding: list[float] | None = None


class RestoreResult(BaseModel):
    """What became of an archive's documents; ``problems`` says why those that failed did."""

    created: int = 0
    updated: int = 0
    unchanged: int = 0
    failed: int = 0
    embedded: int = 0
    over_window: int = 0
    problems: list[Problem] = []

    @property
    def documents(self) -> int:
        return self.created + self.updated + self.unchanged + self.failed

    def add(self, batch: UpsertResult) -> None:
        self.created += batch.created
        self.updated += batch.updated
        self.unchanged += batch.unchanged
        self.failed += batch.failed
        self.embedded += batch.embedded
        self.over_window += batch.over_window
        self.problems += [outcome.problem for outcome in batch.results if outcome.problem]


def write_archive(
    store: DocumentStore,
    model: EmbeddingModel,
    file: BinaryIO,
    *,
    source: str | None = None,
    expression: TagExpression | None = None,
    with_vectors: bool = False,
    on_header: Callable[[ArchiveHeader], None],
    progress: Progress,
) -> None:
    """Write the live documents of one moment, all or those of a source or with these tags."""
    with store.export(source=source, expression=expression, with_vectors=with_vectors) as export:
        header = ArchiveHeader(
            created_at=datetime.now(UTC),
            documents=export.documents,
            vectors=with_vectors,
            embedding=VectorModel.of(model),
            source=source,
            tags=str(expression) if expression else None,
        )
        on_header(header)
        _write_line(file, header)
        for exported in export.entries:
            _write_line(file, _archived(exported), exclude={"document": SET_BY_QUERIES})
            progress(1)


def read_header(file: BinaryIO) -> ArchiveHeader:
    """The first line of an archive. Raises InvalidInput when this is none, or one that is newer than this code."""
    line = file.readline(MAX_LINE_BYTES)
    try:
        return ArchiveHeader.model_validate_json(line)
    except ValidationError as error:
        raise InvalidInput(f"this is no archive that can be read here; line 1: {_first_fault(error)}") from error


def read_archive(
    ingestion: Ingestion,
    model: EmbeddingModel,
    header: ArchiveHeader,
    file: BinaryIO,
    *,
    batch_size: int,
    re_embed: bool,
    progress: Progress,
) -> RestoreResult:
    """Store what follows the header, batch by batch, each all or nothing; after a failure it can be done again.

    Raises InvalidInput, and stores nothing, for vectors of another model unless they are to be made anew
    (``re_embed``); InvalidDocument, with the line, for what is no document; InvalidInput for an archive that is cut
    short; and what Ingestion raises. Batches before the failure are stored.
    """
    takes_vectors = header.vectors and not re_embed
    if takes_vectors and header.embedding != VectorModel.of(model):
        raise InvalidInput(
            f"the archive's vectors are of {header.embedding}, and this store's are of {VectorModel.of(model)}; "
            "nothing was stored. Import with --re-embed to have them made anew."
        )
    result = RestoreResult()
    entries = _restored(file, model.dimensions, takes_vectors)
    while batch := list(islice(entries, batch_size)):
        result.add(ingestion.restore(batch))
        progress(len(batch))
    if result.documents != header.documents:
        raise InvalidInput(
            f"the archive holds {result.documents} documents and should hold {header.documents}: was it cut short? "
            "What it holds is stored."
        )
    return result


def _restored(file: BinaryIO, dimensions: int, takes_vectors: bool) -> Iterator[Restored]:
    for number, line in enumerate(_lines(file), 2):
        try:
            archived = ArchivedDocument.model_validate_json(line)
            vector = unit(archived.embedding, dimensions) if takes_vectors and archived.embedding is not None else None
            content_hash = bytes.fromhex(archived.content_hash)
        except ValidationError as error:
            raise _refusal(number, _first_fault(error)) from error
        except (ValueError, EmbeddingFailed) as error:
            raise _refusal(number, str(error)) from error
        yield Restored(archived.document, archived.updated_at, content_hash, vector)


def _archived(exported: Exported) -> ArchivedDocument:
    """The line for a document; float32 with the fewest digits that give it back."""
    vector = None
    if exported.embedding is not None:
        vector = [float(digits) for digits in exported.embedding.to_numpy().astype(str)]
    return ArchivedDocument.model_construct(
        document=exported.document,
        updated_at=exported.updated_at,
        content_hash=exported.content_hash.hex(),
        embedding=vector,
    )


def _write_line(file: BinaryIO, line: BaseModel, *, exclude: Any = None) -> None:
    file.write(line.model_dump_json(exclude=exclude).encode() + b"\n")


def _lines(file: BinaryIO) -> Iterator[bytes]:
    while line := file.readline(MAX_LINE_BYTES):
        yield line


def _first_fault(error: ValidationError) -> str:
    fault = error.errors()[0]
    where = ".".join(map(str, fault["loc"]))
    message = fault["msg"].removeprefix("Value error, ")
    return f"{where}: {message}" if where else message


def _refusal(line: int, reason: str) -> InvalidDocument:
    return InvalidDocument(f"line {line} is no document: {reason}")
