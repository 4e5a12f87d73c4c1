"""Retrieval: one question, the documents that answer it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knowledge.documents.search import DocumentSearch
from spot_sdk.documents import Query, QueryResult
from spot_sdk.tag_expression import parse

if TYPE_CHECKING:
    from knowledge.embedding.base import Embedder


class Retrieval:
    """Answers queries: the text is embedded once, the database filters and ranks."""

    def __init__(self, search: DocumentSearch, embedder: Embedder) -> None:
        self._search = search
        self._embedder = embedder

    def answer(self, query: Query) -> QueryResult:
        """The ``top_k`` best live documents that the tag expression admits and that score at least ``min_score``.

        Raises InvalidTagExpression, EmbedderUnavailable, EmbeddingFailed, ModelMismatch and the store's errors.
        """
        expression = parse(query.tags)
        found = self._search.nearest(self._embedder.embed(query.text), expression, query.top_k)
        return QueryResult(
            documents=[document for document in found.rows if (document.score or 0.0) >= query.min_score],
            text_over_window=self._embedder.over_window(query.text),
        )
