"""The Knowledge Store's behaviour in memory, which the fake clients of one test share."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from spot_sdk.batching import to_json
from spot_sdk.documents import (
    EmbeddingModel,
    KnowledgeDocument,
    Query,
    SourceCount,
    Stats,
    SyncRunRef,
    TagCount,
    UpsertOutcome,
    UpsertResult,
    UpsertStatus,
    Version,
)
from spot_sdk.errors import EmbeddingFailed, InvalidDocument, KnowledgeError, Problem, StaleRun, SyncRunning
from spot_sdk.knowledge_tags import WELL_KNOWN_TAGS
from spot_sdk.sync import RemovalLimits, SyncRunRecord, SyncStatus
from spot_sdk.tag_expression import parse
from spot_sdk.testing.similarity import searchable_text
from spot_sdk.testing.strategies import RANKINGS

MODEL = EmbeddingModel(
    backend="fake", model="words-and-trigrams", version="1", dimensions=1, max_input_tokens=1_000_000, chunk_chars=2000
)


@dataclass(slots=True)
class _Row:
    document: KnowledgeDocument
    sent: str
    stored_at: int  # on the store's own count of writes


@dataclass(slots=True)
class _Run:
    record: SyncRunRecord
    source: str
    fence: int
    began_at: int
    seen: set[str] = field(default_factory=set)


class FakeStore:
    """Documents by id, and sync runs. Callers have checked what they pass, as the real client does.

    ``failure``, while set, is raised by every method. ``refused_ids`` are the documents that the "model" refuses.
    """

    def __init__(self, now: Callable[[], datetime]) -> None:
        self.failure: KnowledgeError | None = None
        self.refused_ids: set[str] = set()
        self.queries: list[Query] = []
        self._now = now
        self._rows: dict[str, _Row] = {}
        self._runs: dict[int, _Run] = {}
        self._writes = itertools.count(1)

    def upsert(self, documents: Sequence[KnowledgeDocument]) -> UpsertResult:
        """Outside a sync run: whatever is offered counts as written now, what is unchanged too."""
        self._fail_if_told()
        result = self._store_all(documents)
        for outcome in result.results:
            if outcome.status == "unchanged":
                self._rows[outcome.id].stored_at = next(self._writes)
        return result

    def _store_all(self, documents: Sequence[KnowledgeDocument]) -> UpsertResult:
        result = UpsertResult(results=[])
        for document in documents:
            is_embedded = self._needs_embedding(document)
            if is_embedded and document.id in self.refused_ids:
                problem = Problem(document=document.id, field="content", message="refused, as the test asked")
                result.results.append(UpsertOutcome(id=document.id, status="failed", problem=problem))
                continue
            result.results.append(UpsertOutcome(id=document.id, status=self._write(document)))
            result.embedded += is_embedded
        return result

    def replace_children(
        self, parent_id: str, documents: Sequence[KnowledgeDocument], source: str | None
    ) -> UpsertResult:
        """Of one source: that of the documents, or ``source`` ("" unless given) when there are none."""
        self._fail_if_told()
        strangers = [document.id for document in documents if document.metadata.get("parent_id") != parent_id]
        if strangers:
            raise InvalidDocument(
                f"{len(strangers)} documents are not children of {parent_id!r}; nothing was changed",
                problems=[
                    Problem(document=id_, field="metadata.parent_id", message=f"must be {parent_id!r}")
                    for id_ in strangers
                ],
            )
        sources = {document.source for document in documents} or {source or ""}
        if len(sources) > 1:
            raise InvalidDocument(
                f"a page's chunks have one source, and these have {len(sources)}; nothing was changed"
            )
        if any(document.id in self.refused_ids and self._needs_embedding(document) for document in documents):
            raise EmbeddingFailed("a text was refused, as the test asked; nothing was changed")
        result = self.upsert(documents)
        kept = {document.id for document in documents}
        for id_, row in list(self._rows.items()):
            is_child = row.document.metadata.get("parent_id") == parent_id and row.document.source in sources
            if is_child and id_ not in kept:
                del self._rows[id_]
        return result

    def delete(self, ids: Iterable[str]) -> int:
        self._fail_if_told()
        return sum(self._rows.pop(id_, None) is not None for id_ in ids)

    def answer(self, query: Query) -> list[KnowledgeDocument]:
        self._fail_if_told()
        self.queries.append(query)
        expression = parse(query.tags)
        admitted = [
            document for document in self.live_documents() if expression is None or expression.matches(document.tags)
        ]
        return RANKINGS[query.strategy](query, admitted)

    def live_documents(self) -> list[KnowledgeDocument]:
        """What has not expired, by id."""
        documents = sorted((row.document for row in self._rows.values()), key=lambda document: document.id)
        return [document for document in documents if document.expires_at is None or document.expires_at > self._now()]

    def version(self) -> Version:
        self._fail_if_told()
        return Version(version="fake", embedding=MODEL)

    def stats(self) -> Stats:
        self._fail_if_told()
        live = self.live_documents()
        by_tag = Counter(tag for document in live for tag in document.tags)
        return Stats(
            documents=len(live),
            expired=len(self._rows) - len(live),
            tags=[TagCount(tag=tag, documents=by_tag[tag]) for tag in WELL_KNOWN_TAGS],
            sources=[_count_source(source, live) for source in sorted({document.source for document in live})],
            oldest=min(_moments(live), default=None),
            newest=max(_moments(live), default=None),
        )

    def start_run(self, source: str) -> SyncRunRef:
        self._fail_if_told()
        if any(run.source == source and run.record.status == "running" for run in self._runs.values()):
            raise SyncRunning(f"another run of source {source!r} has not ended")
        run_id = len(self._runs) + 1
        record = SyncRunRecord(
            id=run_id, name=f"source:{source}", trigger="client", status="running", started_at=self._now()
        )
        self._runs[run_id] = _Run(record, source, fence=run_id, began_at=next(self._writes))
        return SyncRunRef(id=run_id, fence=run_id)

    def upsert_in_run(self, ref: SyncRunRef, documents: Sequence[KnowledgeDocument]) -> UpsertResult:
        self._fail_if_told()
        run = self._live_run(ref)
        strangers = [document for document in documents if document.source != run.source]
        if strangers:
            raise InvalidDocument(
                f"this run is about source {run.source!r}; nothing was stored",
                problems=[
                    Problem(document=document.id, field="source", message=f"is {document.source!r}")
                    for document in strangers
                ],
            )
        run.seen.update(document.id for document in documents)
        result = self._store_all(documents)
        run.record.created += result.created
        run.record.updated += result.updated
        run.record.unchanged += result.unchanged
        return result

    def heartbeat(self, ref: SyncRunRef) -> None:
        self._fail_if_told()
        self._live_run(ref)

    def complete_run(self, ref: SyncRunRef, limits: RemovalLimits) -> SyncRunRecord:
        self._fail_if_told()
        ended = self._runs.get(ref.id)
        if ended is not None and ended.fence == ref.fence and ended.record.status in ("succeeded", "partial"):
            return ended.record.model_copy()
        run = self._live_run(ref)
        own = {id_: row for id_, row in self._rows.items() if row.document.source == run.source}
        gone = [id_ for id_, row in own.items() if id_ not in run.seen and row.stored_at < run.began_at]
        run.record.error = limits.why_held(
            len(gone), total=len(own) - run.record.created, seen=len(run.seen.intersection(own)), run_id=ref.id
        )
        if run.record.error:
            run.record.held = len(gone)
            return self._end(run, "partial")
        run.record.removed = self.delete(gone)
        return self._end(run, "succeeded")

    def fail_run(self, ref: SyncRunRef, reason: str) -> SyncRunRecord:
        self._fail_if_told()
        run = self._live_run(ref)
        run.record.error = reason
        return self._end(run, "failed")

    def _needs_embedding(self, document: KnowledgeDocument) -> bool:
        known = self._rows.get(document.id)
        return known is None or searchable_text(known.document) != searchable_text(document)

    def _write(self, document: KnowledgeDocument) -> UpsertStatus:
        sent = json.dumps(json.loads(to_json(document)), sort_keys=True)
        known = self._rows.get(document.id)
        if known is not None and known.sent == sent:
            return "unchanged"
        stored = KnowledgeDocument.model_validate(json.loads(sent, parse_float=_as_jsonb_has_it))
        if stored.updated_at is None:
            stored.updated_at = self._now()
        self._rows[document.id] = _Row(stored, sent, next(self._writes))
        return "created" if known is None else "updated"

    def _live_run(self, ref: SyncRunRef) -> _Run:
        run = self._runs.get(ref.id)
        if run is None or run.fence != ref.fence or run.record.status != "running":
            raise StaleRun(f"sync run {ref.id} has ended, or was taken over; nothing was written")
        return run

    def _end(self, run: _Run, status: SyncStatus) -> SyncRunRecord:
        run.record.status = status
        run.record.finished_at = self._now()
        return run.record.model_copy()

    def _fail_if_told(self) -> None:
        if self.failure is not None:
            raise self.failure


def _as_jsonb_has_it(number: str) -> float | int:
    """A JSON number with a point or an exponent as the database gives it back: it keeps decimals as they are written.

    So it knows no minus before a zero, and gives a whole number whose exponent it has written out as an integer.
    """
    value = float(number)
    if "e" in number.lower() and value.is_integer():
        return int(Decimal(number))
    return value or 0.0


def _moments(documents: Iterable[KnowledgeDocument]) -> list[datetime]:
    return [document.updated_at for document in documents if document.updated_at]


def _count_source(source: str, live: Iterable[KnowledgeDocument]) -> SourceCount:
    own = [document for document in live if document.source == source]
    moments = _moments(own)
    return SourceCount(source=source, documents=len(own), oldest=min(moments), newest=max(moments))
