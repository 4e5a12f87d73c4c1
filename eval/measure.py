"""How well each way of searching finds what answers the questions of a collection."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

import ir_measures
import numpy as np
from ir_measures import R, ScoredDoc, Success, nDCG

from eval.collection import Collection, Question
from knowledge.db.connection import Database
from knowledge.documents.ingest import Ingestion
from knowledge.documents.retrieval import Retrieval
from knowledge.documents.search import DocumentSearch
from knowledge.documents.store import DocumentStore
from knowledge.embedding.base import Embedder
from spot_sdk.documents import MAX_TOP_K, Query, Strategy

MEASURES = {"nDCG@10": nDCG @ 10, "Recall@10": R @ 10, "hit@1": Success @ 1, "hit@5": Success @ 5}

_RESAMPLES = 2000
_BATCH = 500
_DIVERSE_TOP_K = 30  # enough chunks for ten pages; of all candidates none is left out as a repeat


class Estimate(NamedTuple):
    """The mean over the questions, and the 95 % interval of the mean by bootstrap."""

    mean: float
    low: float
    high: float


Search = Callable[[Question], Sequence[str]]
Scores = dict[str, dict[str, Estimate]]
"""Strategy -> measure -> estimate."""


class Store:
    """A collection in a database that is empty and migrated."""

    def __init__(self, database: Database, embedder: Embedder, collection: Collection) -> None:
        self._collection = collection
        self._search = DocumentSearch(database, embedder.model)
        self._retrieval = Retrieval(self._search, embedder)
        ingestion = Ingestion(DocumentStore(database, embedder.model), embedder)
        for start in range(0, len(collection.documents), _BATCH):
            ingestion.upsert(collection.documents[start : start + _BATCH])
        for table in ("knowledge_documents", "knowledge_document_words"):
            database.run(lambda transaction, table=table: transaction.execute(f"ANALYZE {table}"))  # type: ignore[arg-type]

    def measure(self) -> Scores:
        """All measures of the strategies, and of the lexical leg alone."""
        searches: dict[str, Search] = {
            "dense": self._by("similarity"),
            "lexical": lambda question: list(self._search.by_words(question.text, None, MAX_TOP_K).scores),
            "hybrid": self._by("hybrid"),
            "diverse": self._by("diverse", _DIVERSE_TOP_K),
        }
        return {name: _estimates(self._values(search)) for name, search in searches.items()}

    def _by(self, strategy: Strategy, top_k: int = MAX_TOP_K) -> Search:
        def search(question: Question) -> list[str]:
            answer = self._retrieval.answer(Query(text=question.text, strategy=strategy, top_k=top_k))
            return [document.id for document in answer.documents]

        return search

    def _values(self, search: Search) -> dict[str, list[float]]:
        questions = self._collection.questions
        run = [
            ScoredDoc(question.id, name, float(-place))
            for question in questions
            for place, name in enumerate(self._collection.ranking(search(question), question))
        ]
        relevant = {question.id: question.grades for question in questions}
        names = {measure: name for name, measure in MEASURES.items()}
        values: dict[str, dict[str, float]] = defaultdict(dict)
        for value in ir_measures.iter_calc(list(MEASURES.values()), relevant, run):
            values[names[value.measure]][value.query_id] = value.value
        return {name: [values[name].get(question.id, 0.0) for question in questions] for name in MEASURES}


def _estimates(values: dict[str, list[float]]) -> dict[str, Estimate]:
    dice = np.random.default_rng(0)
    count = len(next(iter(values.values())))
    samples = dice.integers(0, count, (_RESAMPLES, count))
    return {name: _estimate(np.array(each), samples) for name, each in values.items()}


def _estimate(values: np.ndarray, samples: np.ndarray) -> Estimate:
    low, high = np.percentile(values[samples].mean(axis=1), [2.5, 97.5])
    return Estimate(round(float(values.mean()), 4), round(float(low), 4), round(float(high), 4))
