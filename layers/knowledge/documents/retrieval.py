"""Retrieval: one question, the documents that answer it, by four strategies.

``similarity``: the nearest vectors. ``diverse``: the same without near-repeats (``search.mmr``). ``hybrid``: vectors
and words together (``search.fusion``), and whoever the question names before all else. ``people``: names and addresses.
In every answer a higher score stands before a lower one, and ``min_score`` is a floor under what is returned.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from knowledge import __version__, correlation, metrics
from knowledge.cache.answers import KeptAnswer
from knowledge.cache.base import Cache, NoCache
from knowledge.cache.embeddings import CachingEmbedder
from knowledge.documents.model_hold import Moment
from knowledge.documents.search import DocumentSearch
from knowledge.documents.slow_queries import SlowQueryLog
from knowledge.search import fusion, mmr
from knowledge.search.people import PERSON_SCORE, mentions
from knowledge.telemetry import logger, record
from knowledge.text_hash import HashText, text_hasher
from spot_sdk.documents import MAX_TOP_K, KnowledgeDocument, Leg, LegDebug, Query, QueryDebug, QueryResult
from spot_sdk.errors import KnowledgeError
from spot_sdk.slow_queries import SlowQuery
from spot_sdk.tag_expression import TagExpression, parse

if TYPE_CHECKING:
    from knowledge.embedding.base import Embedder, Vector

CacheUse = Literal["hit", "miss", "off"]

FUSED = 100
"""So many of each leg's best take part in ``hybrid``."""

DENSE_WEIGHT = 0.5
DENSE_WEIGHT_OF_HASHED_WORDS = 0.3
"""What meaning counts in ``hybrid``, the rest being words; measured in ADR 8."""

_DIVERSE_FROM, _DIVERSE_AT_LEAST, _DIVERSE_AT_MOST = 4, 40, 200


class Retrieval:
    """Answers queries: the text is embedded once, the database filters and ranks.

    ``embeddings`` keeps the vectors of questions, ``answers`` whole answers for up to ``keep_s`` seconds (0: never). An
    answer is kept for one state of the documents, so a change is seen by the next query, and no longer than each of its
    documents lives. ``hash_text`` names texts in logs (unless given, in a way of this object's own), and
    ``slow_queries`` keeps what takes long.
    """

    def __init__(
        self,
        search: DocumentSearch,
        embedder: Embedder,
        *,
        embeddings: Cache | None = None,
        answers: Cache | None = None,
        keep_s: float = 0.0,
        hash_text: HashText | None = None,
        slow_queries: SlowQueryLog | None = None,
    ) -> None:
        self._search = search
        self._embedder = CachingEmbedder(embedder, embeddings or NoCache())
        self._answers = answers or NoCache()
        self._keep_s = keep_s
        self._hash_text = hash_text or text_hasher(secrets.token_hex())
        self._slow_queries = slow_queries

    def answer(self, query: Query) -> QueryResult:
        """The ``top_k`` best live documents that the tag expression admits and that score at least ``min_score``.

        Raises InvalidTagExpression, EmbedderUnavailable, EmbeddingFailed, ModelMismatch and the store's errors.
        """
        started = time.perf_counter()
        self._embedder.forget_last()
        legs = _Legs(self._search, parse(query.tags), query.text)
        try:
            found, cache = self._find(query, legs)
        except KnowledgeError as error:
            self._note_if_slow(query, self._debug(query, legs, "off"), started, error=error.code)
            raise
        debug = self._debug(query, legs, cache)
        self._tell(query, debug, started, hits=len(found.documents))
        if not query.debug:
            return found.model_copy(update={"debug": None})
        return found.model_copy(update={"debug": debug.model_copy(update={"found_by": legs.found_by(found.documents)})})

    def _find(self, query: Query, legs: _Legs) -> tuple[QueryResult, CacheUse]:
        """The answer, kept or found now."""
        if self._keep_s <= 0:
            return self._search_for(query, legs), "off"
        moment = self._search.moment()
        key = self._key(query, moment)
        kept = KeptAnswer.read(self._answers.get(key), moment.now)
        if kept is not None:
            return kept, "hit"
        found = self._search_for(query, legs)
        to_keep = KeptAnswer.of(found, moment.now, self._keep_s)
        self._answers.put(key, to_keep.model_dump_json().encode(), to_keep.lifetime_s(moment.now))
        return found, "miss"

    def _debug(self, query: Query, legs: _Legs, cache: CacheUse) -> QueryDebug:
        embedding_cache: Literal["hit", "miss", "unused"] = "unused"
        if self._embedder.was_hit is not None:
            embedding_cache = "hit" if self._embedder.was_hit else "miss"
        return QueryDebug(strategy=query.strategy, cache=cache, embedding_cache=embedding_cache, legs=legs.debug)

    def _tell(self, query: Query, debug: QueryDebug, started: float, *, hits: int) -> None:
        """Put an answered query into metrics, logs and, when it was slow, the list of those."""
        took_s = time.perf_counter() - started
        was_kept = debug.cache == "hit"
        record(
            metrics.QUERY_DURATION,
            took_s,
            cache_hit=str(was_kept).lower(),
            has_tag_filter=str(bool(query.tags)).lower(),
        )
        logger.info(
            "query",
            text_hash=self._hash_text(query.text),
            tags=query.tags,  # a vocabulary; and only letters, digits and :_- where they could be read
            top_k=query.top_k,
            strategy=query.strategy,
            hits=hits,
            cache_hit=was_kept,
            embedding_cache=debug.embedding_cache,
            plans=[leg.plan for leg in debug.legs],
            latency_ms=round(took_s * 1000, 1),
        )
        self._note_if_slow(query, debug, started, hits=hits)

    def _note_if_slow(
        self, query: Query, debug: QueryDebug, started: float, *, hits: int = 0, error: str | None = None
    ) -> None:
        took_ms = round((time.perf_counter() - started) * 1000, 1)
        if self._slow_queries is None or not self._slow_queries.is_slow(took_ms):
            return
        self._slow_queries.note(
            SlowQuery(
                asked_at=datetime.now(UTC),
                correlation_id=correlation.current(),
                text_hash=self._hash_text(query.text),
                tags=query.tags,
                strategy=query.strategy,
                top_k=query.top_k,
                min_score=query.min_score,
                hits=hits,
                milliseconds=took_ms,
                cache=debug.cache,
                embedding_cache=debug.embedding_cache,
                embedding_ms=round(self._embedder.took_s * 1000, 1),
                legs=debug.legs,
                error=error,
            )
        )

    def _key(self, query: Query, moment: Moment) -> str:
        """Whatever an answer depends on."""
        model = self._embedder.model
        asked = query.model_dump_json(exclude={"debug"})
        parts = (__version__, asked, model.model, model.version, str(model.dimensions), moment.state)
        return f"answer:{hashlib.sha256(chr(10).join(parts).encode()).hexdigest()}"

    def _search_for(self, query: Query, legs: _Legs) -> QueryResult:
        match query.strategy:
            case "people":
                documents = [d for d in legs.people(query.top_k) if _score(d) >= query.min_score]
                over_window = False
            case "similarity":
                documents = self._similar(legs, query)
                over_window = self._embedder.over_window(query.text)
            case "diverse":
                documents = self._diverse(legs, query)
                over_window = self._embedder.over_window(query.text)
            case "hybrid":
                documents = self._hybrid(legs, query)
                over_window = self._embedder.over_window(query.text)
        return QueryResult(documents=documents, text_over_window=over_window)

    def _similar(self, legs: _Legs, query: Query) -> list[KnowledgeDocument]:
        found = legs.nearest(self._embedder.embed(query.text), query.top_k)
        return [document for document in found if _score(document) >= query.min_score]

    def _diverse(self, legs: _Legs, query: Query) -> list[KnowledgeDocument]:
        """Chosen by MMR among the nearest that reach ``min_score``, given in the order of their similarity."""
        wanted = max(_DIVERSE_AT_LEAST, min(_DIVERSE_AT_MOST, _DIVERSE_FROM * query.top_k))
        nearest = legs.nearest(self._embedder.embed(query.text), wanted)
        candidates = {document.id: document for document in nearest if _score(document) >= query.min_score}
        likeness = self._search.likeness(list(candidates))
        present = [candidates[id_] for id_ in likeness]
        taken = mmr.diverse([_score(document) for document in present], list(likeness.values()), query.top_k)
        return [present[number] for number in sorted(taken)]

    def _hybrid(self, legs: _Legs, query: Query) -> list[KnowledgeDocument]:
        """Each document's score of both legs, whichever of them found it; then those who are named in the question."""
        vector = self._embedder.embed(query.text)
        nearest = {document.id: document for document in legs.nearest(vector, FUSED)}
        by_words = legs.by_words(FUSED, also=nearest)
        dense = {id_: _score(document) for id_, document in nearest.items()}
        dense |= self._search.similarities(vector, [id_ for id_ in by_words if id_ not in dense])
        weight = DENSE_WEIGHT_OF_HASHED_WORDS if self._embedder.model.backend == "hash" else DENSE_WEIGHT
        scores = fusion.fuse(dense, {id_: score for id_, score in by_words.items() if id_ in dense}, weight)
        named = self._named(legs, query.top_k)
        highest = max((score for id_, score in scores.items() if id_ not in named), default=0.0)
        scores |= {id_: max(_score(document), highest) for id_, document in named.items()}
        best = fusion.best(scores, query.top_k, query.min_score, first=named)
        known = nearest | named
        known |= self._search.documents([id_ for id_ in best if id_ not in known])
        return _with_scores(best, known)

    def _named(self, legs: _Legs, top_k: int) -> dict[str, KnowledgeDocument]:
        """Who is named or written to in the question: as stored, or looking just like it."""
        if not mentions(legs.text):
            return {}
        named = [
            document
            for document in legs.people(MAX_TOP_K)  # what is merely near may stand before who is named
            if _score(document) >= PERSON_SCORE and document.evidence and document.evidence.match != "near"
        ]
        return {document.id: document for document in named[:top_k]}


class _Legs:
    """The legs of one question's search; each writes down how it went."""

    def __init__(self, search: DocumentSearch, expression: TagExpression | None, text: str) -> None:
        self._search = search
        self._expression = expression
        self.text = text
        self.debug: list[LegDebug] = []
        self._found: list[tuple[Leg, Collection[str]]] = []

    def found_by(self, documents: Iterable[KnowledgeDocument]) -> dict[str, list[Leg]]:
        """The legs that found each of these documents; nothing where no leg was gone."""
        if not self._found:
            return {}
        return {each.id: [leg for leg, ids in self._found if each.id in ids] for each in documents}

    def nearest(self, vector: Vector, limit: int) -> list[KnowledgeDocument]:
        started = time.perf_counter()
        found = self._search.nearest(vector, self._expression, limit)
        self._note("dense", found.plan.path, found.plan.expected_rows, {row.id for row in found.rows}, started)
        return found.rows

    def by_words(self, limit: int, also: Mapping[str, object]) -> dict[str, float]:
        started = time.perf_counter()
        found = self._search.by_words(self.text, self._expression, limit, also)
        self._note("lexical", found.plan, found.matching, found.scores, started)
        return found.scores | found.further

    def people(self, limit: int) -> list[KnowledgeDocument]:
        started = time.perf_counter()
        found = self._search.people(self.text, self._expression, limit)
        self._note("people", "exact_lookalike_near", None, {document.id for document in found}, started)
        return found

    def _note(
        self,
        leg: Leg,
        plan: str,
        expected_rows: int | None,
        found: Collection[str],
        started: float,
    ) -> None:
        took_ms = round((time.perf_counter() - started) * 1000, 3)
        self._found.append((leg, found))
        self.debug.append(
            LegDebug(leg=leg, plan=plan, expected_rows=expected_rows, found=len(found), milliseconds=took_ms)
        )


def _score(document: KnowledgeDocument) -> float:
    return document.score or 0.0


def _with_scores(scores: Mapping[str, float], documents: Mapping[str, KnowledgeDocument]) -> list[KnowledgeDocument]:
    return [documents[id_].model_copy(update={"score": s}) for id_, s in scores.items() if id_ in documents]
