"""``knowledge ingest``: a folder of Markdown and text files, or one of its files, becomes documents."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel

from cli.exits import ExitCode
from cli.options import Json, Url
from cli.output import counted, note, print_json, printable, results
from cli.progress import Progress, progress_bar
from cli.store import call
from spot_sdk.client import KnowledgeClient
from spot_sdk.documents import KnowledgeDocument
from spot_sdk.errors import InvalidDocument, InvalidInput
from spot_sdk.knowledge_tags import TAG_RULE, is_tag
from spot_sdk.markdown_tree import MarkdownPage, MarkdownTree, Survey
from spot_sdk.sync import RemovalLimits

MAX_CHUNK_CHARS = 100_000
_MAX_LINES_SHOWN = 20


class IngestSummary(BaseModel):
    """What an ingest found and did. ``seconds`` is the time that sending took."""

    source: str
    status: str = "dry_run"
    """``succeeded``, ``partial`` (removals were held back), ``failed`` or ``dry_run``."""
    pages: int
    chunks: int
    unreadable: list[str]
    """Pages and folders that could not be read, each with the reason."""
    ignored: dict[str, str]
    """Entries that made no documents, and why."""
    created: int = 0
    updated: int = 0
    unchanged: int = 0
    failed: int = 0
    removed: int | None = 0
    """None where one file was ingested: the store does not count the chunks that a page lost."""
    held: int = 0
    embedded: int = 0
    over_window: int = 0
    seconds: float = 0.0
    error: str = ""
    problems: list[str] = []


@dataclass(frozen=True, slots=True)
class Reading:
    """What was found on disk: pages with their documents, what is no page, and what could not be read."""

    pages: list[MarkdownPage]
    ignored: dict[str, str]
    unreadable: list[InvalidDocument]

    @property
    def documents(self) -> list[KnowledgeDocument]:
        return [document for page in self.pages for document in page.documents]


def _removal_limits(text: str) -> RemovalLimits:
    """``30`` allows 30 removals, ``30%`` that share of the source's documents."""
    number, is_share = text.removesuffix("%"), text.endswith("%")
    if not (number.isascii() and number.isdigit()) or (is_share and int(number) > 100):
        raise typer.BadParameter("expected a number of documents, such as 30, or a share, such as 30%")
    return RemovalLimits(share=int(number) / 100, count=0) if is_share else RemovalLimits(share=0, count=int(number))


def _fit_tags(tags: list[str]) -> list[str]:
    for tag in tags:
        if not is_tag(tag):
            raise typer.BadParameter(f"{tag!r} is no tag ({TAG_RULE})")
    return tags


def ingest(
    path: Annotated[Path, typer.Argument(exists=True, metavar="PATH", help="A folder, or one Markdown or text file.")],
    source: Annotated[
        str, typer.Option(metavar="NAME", help="Whose documents these are; a folder is all that its source has.")
    ],
    tags: Annotated[
        list[str],
        typer.Option("--tags", metavar="TAG", callback=_fit_tags, help="A tag for all documents; repeatable."),
    ] = [],  # noqa: B006 - never changed
    tags_from_folders: Annotated[
        bool, typer.Option("--tags-from-folders", help="The folders above a page name tags for it, too.")
    ] = False,
    id_prefix: Annotated[
        str | None, typer.Option(metavar="PREFIX", help="Ids are PREFIX:path#chunk-n. Without it: the source.")
    ] = None,
    base: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", exists=True, file_okay=False, help="For one file: the folder that its id is relative to."
        ),
    ] = None,
    chunk_chars: Annotated[
        int | None,
        typer.Option(min=100, max=MAX_CHUNK_CHARS, metavar="N", help="Longest chunk. Without it: what fits the model."),
    ] = None,
    max_removed: Annotated[
        RemovalLimits | None,
        typer.Option(
            parser=_removal_limits,
            metavar="N|N%",
            help="How many documents that are gone may be removed. Without it: 20% of them, or 5.",
        ),
    ] = None,
    skip_unreadable: Annotated[
        bool, typer.Option("--skip-unreadable", help="Take pages that cannot be read for gone.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read and cut the pages, and send nothing.")] = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Load a folder of Markdown and text files.

    The store is kept equal to the folder. Pages are cut into chunks that fit the embedding model. Front matter gives
    tags (`tags`, `labels`), the title, the date (`updated`) and metadata. A second run embeds only what changed, and
    removes the chunks and pages that are gone from the folder; many removals at once wait for your --max-removed, and
    none is done while a page cannot be read. One file replaces its own chunks and touches nothing else.

    Examples:

    \b
      knowledge ingest handbook --source handbook --tags wiki_page --tags internal
      knowledge ingest handbook/travel/expenses.md --base handbook --source handbook
      knowledge ingest handbook --source handbook --max-removed 60%
    """
    if base is not None and path.is_dir():
        raise typer.BadParameter("is for one file; a folder is its own base", param_hint="--base")
    if not path.is_dir() and not path.is_file():
        raise typer.BadParameter(f"{path} is neither a folder nor a regular file", param_hint="PATH")
    root = path if path.is_dir() else base or path.parent

    async def work(client: KnowledgeClient) -> IngestSummary:
        limit = chunk_chars or (await client.version()).embedding.chunk_chars
        tree = MarkdownTree(
            root, source=source, id_prefix=id_prefix, tags=tags, chunk_chars=limit, tags_from_folders=tags_from_folders
        )
        with progress_bar("pages") as bar:
            reading = _read(tree, path, bar)
        summary = _summary(source, reading)
        if dry_run:
            return summary
        started = time.monotonic()
        with progress_bar("chunks") as bar:
            if path.is_dir():
                await _sync(client, reading, summary, max_removed or RemovalLimits(), skip_unreadable, bar)
            else:
                await _replace(client, reading, summary, bar)
        summary.seconds = round(time.monotonic() - started, 3)
        return summary

    summary = call(url, work)
    _tell_what_is_missing(summary)
    if as_json:
        print_json(summary)
    else:
        _print(summary)
    if summary.status in ("partial", "failed") or summary.failed:
        raise typer.Exit(ExitCode.FAILED)


def _read(tree: MarkdownTree, path: Path, bar: Progress) -> Reading:
    """The pages of the whole tree, or the one at ``path``."""
    survey = tree.survey() if path.is_dir() else Survey(pages=[_relative(path, tree.folder)])
    reading = Reading([], survey.ignored, survey.refused)
    for page in bar.track(survey.pages, description="reading"):
        try:
            reading.pages.append(tree.read(page))
        except InvalidDocument as refusal:
            reading.unreadable.append(refusal)
    return reading


def _relative(file: Path, folder: Path) -> str:
    try:
        return file.resolve().relative_to(folder.resolve()).as_posix()
    except ValueError:
        raise InvalidInput(f"{file} is not in {folder}") from None


def _summary(source: str, reading: Reading) -> IngestSummary:
    return IngestSummary(
        source=source,
        pages=len(reading.pages),
        chunks=len(reading.documents),
        unreadable=[printable(refusal.message) for refusal in reading.unreadable],
        ignored={
            printable(path): reason
            for path, reason in [
                *reading.ignored.items(),
                *((page.path, "without text") for page in reading.pages if not page.documents),
            ]
        },
    )


async def _sync(
    client: KnowledgeClient,
    reading: Reading,
    summary: IngestSummary,
    limits: RemovalLimits,
    skip_unreadable: bool,
    bar: Progress,
) -> None:
    """Make the store equal to the folder; where pages could not be read, bring it up to date and remove nothing."""
    task = bar.add_task("storing", total=summary.chunks)
    run = client.sync_run(summary.source, limits=limits)
    try:
        async with run:
            await run.upsert(reading.documents, lambda done, total: bar.update(task, completed=done, total=total))
            if reading.unreadable and not skip_unreadable:
                raise _PagesUnreadable(
                    "What cannot be read is not gone, so nothing was removed. "
                    "Mend it, or take it for gone with --skip-unreadable."
                )
        summary.error = run.result.error
    except _PagesUnreadable as why:
        summary.error = str(why)
    for name in ("status", "created", "updated", "unchanged", "failed", "removed", "held", "embedded", "over_window"):
        setattr(summary, name, getattr(run.result, name))
    summary.problems = [f"{problem.document}: {problem.message}" for problem in run.result.problems]


class _PagesUnreadable(Exception):
    """Ends a run that has sent all it could, so that it counts as failed and removes nothing."""


async def _replace(client: KnowledgeClient, reading: Reading, summary: IngestSummary, bar: Progress) -> None:
    """Swap the chunks of one page."""
    if reading.unreadable:
        raise reading.unreadable[0]
    [page] = reading.pages
    task = bar.add_task("storing", total=summary.chunks)
    result = await client.replace_children(page.id, page.documents, source=summary.source)
    bar.advance(task, summary.chunks)
    for name in ("created", "updated", "unchanged", "failed", "embedded", "over_window"):
        setattr(summary, name, getattr(result, name))
    summary.status, summary.removed = "succeeded", None


def _tell_what_is_missing(summary: IngestSummary) -> None:
    """Notes on everything that is not in the store though it may be thought to be."""
    for lines, heading in (
        ([f"{path}: {reason}" for path, reason in summary.ignored.items()], "ignored"),
        (summary.unreadable, "cannot be read"),
        (summary.problems, "could not be embedded"),
    ):
        if lines:
            note(f"{len(lines)} {heading}:")
            for line in lines[:_MAX_LINES_SHOWN]:
                note(f"  {line}")
            if len(lines) > _MAX_LINES_SHOWN:
                note(f"  ... and {len(lines) - _MAX_LINES_SHOWN} more (--json lists all)")
    if summary.over_window:
        note(
            f"{counted(summary.over_window, 'chunk')} longer than the model reads at once, and so found less well; "
            "a smaller --chunk-chars has them fit."
        )
    if summary.error:
        note(summary.error)
    if summary.held:
        note(f"Or run this again with --max-removed {summary.held}.")


def _print(summary: IngestSummary) -> None:
    found = f"{counted(summary.pages, 'page')}, {counted(summary.chunks, 'chunk')}"
    if summary.status == "dry_run":
        results.print(f"{found}; nothing was sent")
        return
    removed = "" if summary.removed is None else f", {summary.removed:,} removed"
    failed = f", {summary.failed:,} failed" if summary.failed else ""
    results.print(
        f"{found}: {summary.created:,} created, {summary.updated:,} updated, {summary.unchanged:,} unchanged"
        f"{removed}{failed}",
        soft_wrap=True,
    )
    rate = f", {summary.chunks / summary.seconds:,.0f} chunks a second" if summary.chunks and summary.seconds else ""
    results.print(
        f"{counted(summary.embedded, 'text')} embedded; sent in {summary.seconds:,.1f} s{rate}", soft_wrap=True
    )
