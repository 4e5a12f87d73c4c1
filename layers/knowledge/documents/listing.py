"""Stored documents for people to look through: page by page, and one as it is (``listing.sql``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from psycopg import sql

from knowledge.db.connection import Database, Transaction
from knowledge.db.statements import load_statements
from knowledge.tags.sql import tag_filter
from spot_sdk.documents import DocumentPage, DocumentSummary, KnowledgeDocument, ListDocuments
from spot_sdk.errors import NotFound
from spot_sdk.tag_expression import parse

_SQL = load_statements(Path(__file__).with_name("listing.sql"))

_EXCERPT_CHARACTERS = 240


class DocumentListing:
    """Reads live documents, whatever model their vectors are of. Each method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def page(self, wanted: ListDocuments) -> DocumentPage:
        """Documents in id order after ``wanted.after``. Raises InvalidTagExpression."""
        tags = tag_filter(parse(wanted.tags))
        statement = sql.SQL(_SQL["page"]).format(tags=sql.SQL(tags.condition))
        parameters: dict[str, Any] = {
            **tags.parameters,
            "after": wanted.after,
            "prefix": wanted.prefix,
            "source": wanted.source,
            "excerpt": _EXCERPT_CHARACTERS,
            "limit": wanted.limit + 1,
        }

        def work(transaction: Transaction) -> list[DocumentSummary]:
            return [DocumentSummary(**row) for row in transaction.execute(statement, parameters)]

        found = self._database.run(work)
        more = len(found) > wanted.limit
        return DocumentPage(documents=found[: wanted.limit], after=found[wanted.limit - 1].id if more else None)

    def one(self, document_id: str) -> KnowledgeDocument:
        """The document with this id, with the moment that the store took for it. Raises NotFound."""

        def work(transaction: Transaction) -> dict[str, Any] | None:
            return transaction.execute(_SQL["one"], {"id": document_id}).fetchone()

        row = self._database.run(work)
        if row is None:
            raise NotFound(f"there is no document {document_id!r}")
        return KnowledgeDocument.model_construct(**row)
