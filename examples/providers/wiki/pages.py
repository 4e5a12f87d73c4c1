"""Reads the pages of a wiki as documents, each of one kind, with labels from its folders and its front matter."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from urllib.parse import quote

from examples.providers.listing import Deadline, Listing, SourceFailed
from examples.providers.wiki.git import Checkout
from examples.providers.wiki.settings import WikiSettings
from spot_sdk.errors import InvalidInput
from spot_sdk.knowledge_tags import KnowledgeTag, to_tag
from spot_sdk.markdown_tree import MarkdownPage, MarkdownTree

SOURCE = "provider-wiki"

_KINDS = (KnowledgeTag.POLICY, KnowledgeTag.INCIDENT_REPORT, KnowledgeTag.WIKI_PAGE)
_KIND_BY_FOLDER = {
    "policy": KnowledgeTag.POLICY,
    "policies": KnowledgeTag.POLICY,
    "incident": KnowledgeTag.INCIDENT_REPORT,
    "incidents": KnowledgeTag.INCIDENT_REPORT,
}

NOT_FOR_PAGES = frozenset(
    {
        KnowledgeTag.EMPLOYEE,
        KnowledgeTag.DIRECTOR,
        KnowledgeTag.TICKET,
        KnowledgeTag.THREAT_REPORT,
        KnowledgeTag.SENDER_HISTORY,
    }
)
"""What a page cannot be, whatever it says: whoever may edit a wiki must not make people that analyzers believe in."""


def read_wiki(settings: WikiSettings, chunk_chars: int, deadline: Deadline) -> Listing:
    """All pages, in chunks of at most ``chunk_chars`` characters.

    Raises SourceFailed when one page or folder cannot be read, or when the checkout is not what was committed: what is
    missing from a listing would be taken for gone.
    """
    if not Checkout.is_one(settings.folder):
        return _read(settings, chunk_chars, deadline, committed=None)
    checkout = Checkout(settings.folder, settings.git_timeout_s)
    if settings.git_pull:
        checkout.pull(deadline)
    head = checkout.head(deadline)
    listing = _read(settings, chunk_chars, deadline, committed=checkout.committed_files(deadline))
    if checkout.head(deadline) != head:
        raise SourceFailed(f"{settings.folder}: another commit was checked out while the pages were read")
    return listing


def _read(settings: WikiSettings, chunk_chars: int, deadline: Deadline, committed: set[str] | None) -> Listing:
    tree = MarkdownTree(settings.folder, source=SOURCE, id_prefix="wiki", chunk_chars=chunk_chars)
    listing = Listing([])
    for page in _pages(tree, deadline, committed):
        tags = page_tags(page.path, page.documents[0].tags) if page.documents else []
        refused = NOT_FOR_PAGES.intersection(tags)
        if refused:
            listing.remarks.append(f"{page.path}: a page is not tagged {', '.join(sorted(refused))}")
        for document in page.documents:
            document.tags = [tag for tag in tags if tag not in refused]
            if settings.url:
                document.metadata["url"] = f"{str(settings.url).rstrip('/')}/{quote(page.path)}"
        listing.documents.extend(page.documents)
    return listing


def _pages(tree: MarkdownTree, deadline: Deadline, committed: set[str] | None) -> Iterator[MarkdownPage]:
    problems = list[str]()
    try:
        survey = tree.survey()
    except InvalidInput as error:
        raise SourceFailed(f"WIKI_PATH: {error.message}") from error
    problems += [refusal.message for refusal in survey.refused]
    for path in survey.pages:
        deadline.check()
        if committed is not None and path not in committed:
            continue
        try:
            yield tree.read(path)
        except InvalidInput as error:
            problems.append(error.message)
    if problems:
        more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
        raise SourceFailed(f"{len(problems)} pages or folders cannot be read: {'; '.join(problems[:3])}{more}")


def page_tags(path: str, front_matter: Iterable[str]) -> list[str]:
    """The tags of the page at ``path``: its kind, and labels from its folders and front matter.

    The kind is what the front matter says, else what the nearest folder with a telling name says, else ``wiki_page``.
    """
    said = list(front_matter)
    folders = [name.lower() for name in PurePosixPath(path).parent.parts]
    telling = [kind for name in folders if (kind := _KIND_BY_FOLDER.get(_last_word(name)))]
    kind = next((kind for kind in _KINDS if kind in said), telling[-1] if telling else KnowledgeTag.WIKI_PAGE)
    labels = [*_labels(name for name in folders if name not in _KIND_BY_FOLDER), *said]
    return list(dict.fromkeys([kind, *(label for label in labels if label not in _KINDS)]))


def _last_word(name: str) -> str:
    return re.split(r"[-_\s]", name)[-1]


def _labels(folders: Iterable[str]) -> Iterator[str]:
    for name in folders:
        try:
            yield to_tag(name)
        except ValueError:
            continue  # a folder of signs only labels nothing
