"""``knowledge export`` and ``knowledge import``: documents as JSON lines, straight from and to the database."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from cli.database import find_database, open_store
from cli.exits import ExitCode
from cli.options import Backend, Database, Json, TagExpression
from cli.output import counted, note, print_json, printable, results
from cli.progress import progress_bar
from spot_sdk.documents import MAX_BATCH
from spot_sdk.errors import InvalidInput
from spot_sdk.tag_expression import parse

if TYPE_CHECKING:
    from knowledge.documents.archive import ArchiveHeader

_MAX_PROBLEMS_SHOWN = 20


def export(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Where to write, or '-' for stdout.")],
    with_vectors: Annotated[
        bool, typer.Option("--with-vectors", help="Take the vectors along, so that nothing is embedded on import.")
    ] = False,
    source: Annotated[str | None, typer.Option(metavar="NAME", help="Only documents of this source.")] = None,
    tags: TagExpression = None,
    database: Database = None,
    backend: Backend = None,
) -> None:
    """Write the documents to a file.

    One JSON object a line, all as of one moment; the first line says what the file holds. The file is there when it
    is complete. Expired documents stay behind.

    Examples:

    \b
      knowledge export documents.jsonl --with-vectors
      knowledge export - --source handbook | gzip > handbook.jsonl.gz
    """
    from knowledge.documents.archive import write_archive

    target = find_database(database, backend)
    with open_store(target) as (store, _), _output(file) as output, progress_bar("documents") as bar:
        task = bar.add_task("exporting", total=None)
        documents = 0

        def on_header(header: ArchiveHeader) -> None:
            nonlocal documents
            documents = header.documents
            bar.update(task, total=documents)

        write_archive(
            store,
            target.embedder.model,
            output,
            source=source,
            expression=parse(tags),
            with_vectors=with_vectors,
            on_header=on_header,
            progress=lambda count: bar.advance(task, count),
        )
    note(f"{counted(documents, 'document')} exported" + ("" if file == "-" else f" to {file}"))


def import_(
    file: Annotated[str, typer.Argument(metavar="FILE", help="What `knowledge export` wrote, or '-' for stdin.")],
    batch: Annotated[
        int, typer.Option("--batch", min=1, max=MAX_BATCH, help="How many documents are stored at once.")
    ] = 200,
    re_embed: Annotated[
        bool, typer.Option("--re-embed", help="Do not use the file's vectors: embed all texts with this store's model.")
    ] = False,
    database: Database = None,
    backend: Backend = None,
    as_json: Json = False,
) -> None:
    """Store the documents of an exported file.

    Vectors are taken over when they are of this store's model, and made where the file has none. Doing it again, after
    a failure for example, costs only what is not stored yet.

    Examples:

    \b
      knowledge import documents.jsonl
      gunzip -c handbook.jsonl.gz | knowledge import - --re-embed
    """
    from knowledge.documents.archive import read_archive, read_header

    target = find_database(database, backend)
    with _input(file) as archive, open_store(target) as (_, ingestion), progress_bar("documents") as bar:
        header = read_header(archive)
        task = bar.add_task("importing", total=header.documents)
        result = read_archive(
            ingestion,
            target.embedder.model,
            header,
            archive,
            batch_size=batch,
            re_embed=re_embed,
            progress=lambda count: bar.advance(task, count),
        )
    for problem in result.problems[:_MAX_PROBLEMS_SHOWN]:
        note(printable(f"{problem.document}: {problem.message}"))
    if as_json:
        print_json(result)
    else:
        results.print(
            f"{counted(result.documents, 'document')}: {result.created:,} created, {result.updated:,} updated, "
            f"{result.unchanged:,} unchanged, {result.failed:,} failed; "
            f"{counted(result.embedded, 'text')} embedded",
            soft_wrap=True,
        )
    if result.failed:
        raise typer.Exit(ExitCode.FAILED)


@contextmanager
def _output(name: str) -> Generator[BinaryIO]:
    """stdout, or a file that only its owner may read and that is there when it is complete."""
    if name == "-":
        yield sys.stdout.buffer
        sys.stdout.flush()
        return
    path = Path(name)
    is_special = path.exists() and not path.is_file()  # a pipe or a device cannot be replaced
    partial = path if is_special else path.with_name(f".{path.name}.part")
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            yield file
        if not is_special:
            partial.replace(path)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}") from error
    finally:
        if not is_special:
            partial.unlink(missing_ok=True)


@contextmanager
def _input(name: str) -> Generator[BinaryIO]:
    if name == "-":
        yield sys.stdin.buffer
        return
    try:
        with Path(name).open("rb") as file:
            yield file
    except OSError as error:
        raise InvalidInput(f"{name} cannot be read: {error.strerror}") from error
