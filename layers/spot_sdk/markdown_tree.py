"""A folder of Markdown and text files as documents: pages found in order, cut into chunks, tagged.

What is a page, and what is not:

- files named ``*.md``, ``*.markdown``, ``*.txt`` or ``*.text`` are pages; other files are none of our business;
- hidden files and folders (``.git``) are not looked at;
- symbolic links are not followed, so a tree cannot loop and cannot reach outside itself; like pipes and devices they
  are listed as ignored;
- a page without text is a page without documents;
- a page that cannot be read (not UTF-8, larger than ``MAX_PAGE_BYTES``, front matter that is not YAML, no permission)
  and a folder that cannot be listed are *refused*: they are there, so nobody may take their documents for gone.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import ValidationError

from spot_sdk.chunking import chunk_markdown, chunk_text
from spot_sdk.documents import KnowledgeDocument
from spot_sdk.errors import InvalidDocument, InvalidInput, Problem
from spot_sdk.front_matter import scalars, split_front_matter
from spot_sdk.front_matter import tags as labelled_tags
from spot_sdk.knowledge_tags import to_tag
from spot_sdk.markdown import outline

MARKDOWN_SUFFIXES = (".md", ".markdown")
TEXT_SUFFIXES = (".txt", ".text")
PAGE_SUFFIXES = MARKDOWN_SUFFIXES + TEXT_SUFFIXES
MAX_PAGE_BYTES = 4_000_000

_FOLDER_PAGES = ("index", "readme")  # pages that are named for their folder
_MOMENT_KEYS = ("updated", "updated_at")


@dataclass(frozen=True, slots=True)
class Survey:
    """What a folder holds: pages and ignored entries by path, relative and with ``/``, and what cannot be listed."""

    pages: list[str] = field(default_factory=list)
    ignored: dict[str, str] = field(default_factory=dict)
    """Path -> why it is no page."""
    refused: list[InvalidDocument] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class MarkdownPage:
    """One page: ``id`` is the ``parent_id`` of its ``documents``, which are its chunks in order."""

    id: str
    path: str
    title: str
    documents: list[KnowledgeDocument]


class MarkdownTree:
    """The pages under ``folder``, as documents of ``source``.

    A document's id is ``<id_prefix>:<path>#chunk-<n>``, counted from 0; ``id_prefix`` is ``source`` unless given. Every
    document gets ``tags``, those of its page's front matter, and, with ``tags_from_folders``, one for each folder above
    it. Chunks have at most ``chunk_chars`` characters, of which ``overlap`` (a tenth unless given) repeat the end of
    the chunk before.
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        source: str,
        id_prefix: str | None = None,
        tags: Sequence[str] = (),
        chunk_chars: int = 2000,
        overlap: int | None = None,
        tags_from_folders: bool = False,
    ) -> None:
        self.folder = Path(folder)
        self._source = source
        self._id_prefix = id_prefix or source
        self._tags = list(tags)
        self._chunk_chars = chunk_chars
        self._overlap = chunk_chars // 10 if overlap is None else overlap
        self._tags_from_folders = tags_from_folders

    def survey(self) -> Survey:
        """Look at the whole tree without reading a page; paths are sorted.

        Raises InvalidInput when the folder itself is none.
        """
        if not self.folder.is_dir():
            raise InvalidInput(f"{self.folder}: there is no such folder")
        survey = Survey()
        folders = [PurePosixPath()]
        while folders:
            folders += self._survey_folder(folders.pop(), survey)
        survey.pages.sort()
        return survey

    def read(self, path: str) -> MarkdownPage:
        """The page at ``path``, relative to the folder.

        Raises InvalidDocument, which names the path and the reason, for a page that is refused.
        """
        try:
            return self._read(PurePosixPath(path))
        except OSError as error:
            raise _refusal(path, error.strerror or type(error).__name__) from error
        except ValidationError as error:
            raise _invalid(path, error) from error
        except ValueError as error:
            raise _refusal(path, str(error)) from error

    def _survey_folder(self, folder: PurePosixPath, survey: Survey) -> list[PurePosixPath]:
        """Note what is in one folder; returns the folders in it."""
        subfolders: list[PurePosixPath] = []
        try:
            with os.scandir(self.folder / folder) as entries:
                for entry in entries:
                    path = folder / entry.name
                    if entry.name.startswith("."):
                        continue
                    if entry.is_symlink():
                        survey.ignored[str(path)] = "a symbolic link"
                    elif entry.is_dir():
                        subfolders.append(path)
                    elif path.suffix.lower() in PAGE_SUFFIXES:
                        if entry.is_file():
                            survey.pages.append(str(path))
                        else:
                            survey.ignored[str(path)] = "not a regular file"
        except OSError as error:
            survey.refused.append(_refusal(f"{folder}/", error.strerror or type(error).__name__))
        return subfolders

    def _read(self, path: PurePosixPath) -> MarkdownPage:
        text = _read_text(self.folder / path)
        is_markdown = path.suffix.lower() in MARKDOWN_SUFFIXES
        front_matter: dict[str, Any] = {}
        if is_markdown:
            front_matter, text = split_front_matter(text)
        chunks = self._cut(text, is_markdown)
        facts = scalars(front_matter)
        title = facts.get("title") or (_first_heading(text) if is_markdown else None) or _name_as_title(path)
        page_id = unicodedata.normalize("NFC", f"{self._id_prefix}:{path}")
        tags = [*self._tags, *self._folder_tags(path), *labelled_tags(front_matter)]
        updated_at = _take_moment(facts)
        documents = [
            KnowledgeDocument(
                id=f"{page_id}#chunk-{number}",
                content=content,
                tags=tags,
                metadata={
                    **facts,
                    "parent_id": page_id,
                    "title": title,
                    "heading_path": headings,
                    "chunk_index": number,
                    "path": str(path),
                },
                source=self._source,
                updated_at=updated_at,
            )
            for number, (content, headings) in enumerate(chunks)
        ]
        return MarkdownPage(page_id, str(path), title, documents)

    def _cut(self, text: str, is_markdown: bool) -> list[tuple[str, list[str]]]:
        """Chunks with the headings that each stands under."""
        if is_markdown:
            chunks = chunk_markdown(text, self._chunk_chars, self._overlap)
            return [(chunk.text, list(chunk.heading_path)) for chunk in chunks]
        return [(content, []) for content in chunk_text(text, self._chunk_chars, self._overlap)]

    def _folder_tags(self, path: PurePosixPath) -> Iterator[str]:
        for name in path.parent.parts if self._tags_from_folders else ():
            try:
                yield to_tag(name)
            except ValueError:
                continue  # a folder of signs only labels nothing


def read_markdown_tree(
    folder: Path | str,
    *,
    source: str,
    id_prefix: str | None = None,
    tags: Sequence[str] = (),
    chunk_chars: int = 2000,
    overlap: int | None = None,
    tags_from_folders: bool = False,
) -> Iterator[KnowledgeDocument]:
    """The documents of a whole tree (see MarkdownTree), page by page.

    Raises InvalidDocument at the first page or folder that is refused: a listing with holes is no listing.
    """
    tree = MarkdownTree(
        folder,
        source=source,
        id_prefix=id_prefix,
        tags=tags,
        chunk_chars=chunk_chars,
        overlap=overlap,
        tags_from_folders=tags_from_folders,
    )
    survey = tree.survey()
    for refusal in survey.refused:
        raise refusal
    for path in survey.pages:
        yield from tree.read(path).documents


def _read_text(path: Path) -> str:
    with path.open("rb") as file:
        raw = file.read(MAX_PAGE_BYTES + 1)
    if len(raw) > MAX_PAGE_BYTES:
        raise ValueError(f"larger than {MAX_PAGE_BYTES:,} bytes")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 (byte {error.start})") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _first_heading(text: str) -> str | None:
    return next((heading.title for heading in outline(text).headings if heading.title), None)


def _name_as_title(path: PurePosixPath) -> str:
    name = path.parent.name if path.stem.lower() in _FOLDER_PAGES and path.parent.name else path.stem
    words = re.sub(r"[-_\s]+", " ", name).strip() or name
    return words[:1].upper() + words[1:]


def _take_moment(facts: dict[str, str]) -> datetime | None:
    """The moment of the last change, taken out of ``facts``; what cannot be read as one stays there as text."""
    for key in _MOMENT_KEYS:
        try:
            moment = datetime.fromisoformat(facts[key])
        except (KeyError, ValueError):
            continue
        del facts[key]
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return None


def _refusal(path: str, reason: str) -> InvalidDocument:
    printable = path.encode("utf-8", "replace").decode()
    return InvalidDocument(f"{printable}: {reason}", problems=[Problem(document=printable, message=reason)])


def _invalid(path: str, error: ValidationError) -> InvalidDocument:
    """Pydantic's findings for a page; the same for each of its chunks, so each is told once."""
    printable = path.encode("utf-8", "replace").decode()
    problems = [
        Problem(
            document=printable,
            field=".".join(map(str, found["loc"])) or None,
            message=found["msg"].removeprefix("Value error, "),
        )
        for found in error.errors()
    ]
    first = problems[0]
    return InvalidDocument(f"{printable}: {first.field}: {first.message}", problems=problems)
