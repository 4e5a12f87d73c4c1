"""Whose mails are made: a directory as its provider tells of it, with the example company's handbook beside it."""

from __future__ import annotations

from pathlib import Path

from examples.providers.employee_dir.app import reader
from examples.providers.employee_dir.settings import EXAMPLE_LDIF
from examples.providers.listing import Deadline
from examples.providers.wiki.pages import read_wiki
from examples.providers.wiki.settings import wiki
from spot_sdk.documents import KnowledgeDocument

_PATIENCE_S = 120.0


def company(chunk_chars: int, ldif: Path = EXAMPLE_LDIF) -> list[KnowledgeDocument]:
    """What a store holds when both providers have synced: people from ``ldif``, pages from the example handbook."""
    deadline = Deadline.after(_PATIENCE_S)
    people = reader({"EMPLOYEE_DIR_LDIF": str(ldif)})(chunk_chars, deadline)
    return [*people.documents, *read_wiki(wiki({}), chunk_chars, deadline).documents]
