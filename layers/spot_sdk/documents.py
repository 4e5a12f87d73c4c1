"""What travels between providers, the store and analyzers: documents, queries and their answers."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    FailFast,
    Field,
    computed_field,
    field_validator,
    model_validator,
)

from spot_sdk.errors import Problem
from spot_sdk.knowledge_tags import TAG_RULE, is_tag, to_tag

MAX_ID_LENGTH = 512
MAX_SOURCE_LENGTH = 128
MAX_TAGS = 64
MAX_CONTENT_LENGTH = 1_000_000
MAX_METADATA_BYTES = 65_536
MAX_METADATA_DEPTH = 32
MAX_BATCH = 1_000
MAX_QUERY_LENGTH = 100_000
MAX_TOP_K = 100
MAX_LISTED = 200
MAX_MEMBERS = 100

_FIRST_YEAR, _LAST_YEAR = 1900, 9998

Strategy = Literal["similarity", "diverse", "hybrid", "people"]
SET_BY_QUERIES = {"score", "evidence"}
"""Fields of a document that a query sets and that are never stored."""
UpsertStatus = Literal["created", "updated", "unchanged", "failed"]


class BuiltWhenUsed(BaseModel):
    """A model whose validator is built with its first use: a function that only answers queries starts sooner so."""

    model_config = ConfigDict(defer_build=True)


def _storable(text: str) -> str:
    """PostgreSQL stores no NUL, and UTF-8 has no lone surrogates."""
    if "\0" in text:
        raise ValueError("a NUL character cannot be stored")
    if any("\ud800" <= c <= "\udfff" for c in text):
        raise ValueError("a lone surrogate is not text")
    return text


def _one_line(text: str) -> str:
    if any(unicodedata.category(c) == "Cc" for c in text):
        raise ValueError("control characters are not allowed")
    if text != text.strip():
        raise ValueError("blanks at the ends are not allowed")
    return text


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must hold more than blanks")
    return text


def _tag(text: str) -> str:
    if is_tag(text):
        return text
    try:
        advice = f"; to_tag() makes {to_tag(text)!r} of it"
    except ValueError:
        advice = ""
    raise ValueError(f"{text[:80]!r} is not a tag ({TAG_RULE}){advice}")


def _in_utc(moment: datetime) -> datetime:
    """The same moment in UTC, which a moment without a zone is taken for; refused where calendars end."""
    try:
        in_utc = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except OverflowError:
        in_utc = None
    if in_utc is None or not _FIRST_YEAR <= in_utc.year <= _LAST_YEAR:
        raise ValueError(f"the year must be from {_FIRST_YEAR} to {_LAST_YEAR}; leave it out for never")
    return in_utc


Text = Annotated[str, AfterValidator(_storable)]
Line = Annotated[Text, AfterValidator(_one_line)]
DocumentId = Annotated[Line, Field(min_length=1, max_length=MAX_ID_LENGTH)]
Tag = Annotated[Text, AfterValidator(_tag)]
Moment = Annotated[datetime, AfterValidator(_in_utc)]


def _check_json(value: Any, depth: int = 0) -> None:
    """Refuse what JSON or PostgreSQL's jsonb cannot hold; raises ValueError."""
    if depth > MAX_METADATA_DEPTH:
        raise ValueError(f"nested deeper than {MAX_METADATA_DEPTH}")
    match value:
        case None | bool():
            pass
        case str():
            _storable(value)
        case int():
            if not -(2**63) <= value < 2**63:
                raise ValueError("an integer beyond 64 bits")
        case float():
            if not math.isfinite(value):
                raise ValueError(f"{value} is not a JSON number")
            if value.is_integer() and not -(2**63) <= value < 2**63:  # the database gives it back as an integer
                raise ValueError(f"{value} is a whole number beyond 64 bits")
        case dict():
            for key, item in value.items():
                if not isinstance(key, str):
                    raise ValueError(f"key {key!r} is not a string")
                _storable(key)
                _check_json(item, depth + 1)
        case list() | tuple():
            for item in value:
                _check_json(item, depth + 1)
        case _:
            raise ValueError(f"{type(value).__name__} is not a JSON value")


class Evidence(BaseModel):
    """Why a person was found: which of the document's names or addresses answers which words of the question.

    ``match``: ``exact`` when they are equal but for case, ``lookalike`` when they are equal once characters that look
    alike are taken for one another (``examp1e`` for ``example``), ``near`` when they are merely similar.
    """

    field: Literal["address", "local_part", "domain", "name"]
    stored: str
    asked: str
    match: Literal["exact", "lookalike", "near"]
    similarity: Annotated[float, Field(ge=0, le=1)]


class KnowledgeDocument(BaseModel):
    """One retrievable piece of knowledge, chunk-sized.

    ``id`` is stable and chosen by the provider (``employee:alice@co.com``, ``wiki:page-123#chunk-4``); storing the same
    id again replaces. ``tags`` is the only categorisation. ``metadata["parent_id"]`` ties a chunk to its whole,
    ``metadata["title"]`` and ``metadata["heading_path"]`` say where it stands and are searched with the content.
    A moment without a time zone is UTC. ``score`` (0 to 1) is set on documents that a query returns, ``evidence`` on
    those that it found by a name or an address.
    """

    model_config = ConfigDict(extra="forbid", validate_assignment=True)

    id: DocumentId
    content: Annotated[Text, Field(max_length=MAX_CONTENT_LENGTH), AfterValidator(_not_blank)]
    tags: Annotated[list[Tag], Field(max_length=MAX_TAGS), FailFast()] = []
    metadata: dict[str, Any] = {}
    source: Annotated[Line, Field(max_length=MAX_SOURCE_LENGTH)] = ""
    updated_at: Moment | None = None
    expires_at: Moment | None = None
    score: float | None = None
    evidence: Evidence | None = None

    @model_validator(mode="before")
    @classmethod
    def _few_members(cls, values: Any) -> Any:
        """Thousands of unknown members would be thousands of errors."""
        if isinstance(values, dict) and len(values) > MAX_MEMBERS:
            raise ValueError(f"has {len(values)} members; a document has {len(cls.model_fields)}")
        return values

    @field_validator("tags")
    @classmethod
    def _each_tag_once(cls, tags: list[str]) -> list[str]:
        return list(dict.fromkeys(tags))

    @field_validator("metadata")
    @classmethod
    def _metadata_is_json(cls, metadata: dict[str, Any]) -> dict[str, Any]:
        _check_json(metadata)
        size = len(json.dumps(metadata, ensure_ascii=False).encode())
        if size > MAX_METADATA_BYTES:
            raise ValueError(f"{size} bytes as JSON; at most {MAX_METADATA_BYTES} are allowed")
        parent = metadata.get("parent_id")
        if parent is not None and not (isinstance(parent, str) and 0 < len(parent) <= MAX_ID_LENGTH):
            raise ValueError(f"parent_id must be a string of 1 to {MAX_ID_LENGTH} characters")
        if parent is not None:
            _one_line(parent)
        return metadata


class RetrievalLimits(BuiltWhenUsed):
    """An operator's caps on what an analyzer may ask for; they shrink a request and never widen it.

    A name that is not one of these, or a value of another type, is refused: it would be no cap, or another one.
    """

    model_config = ConfigDict(extra="forbid")

    max_top_k: Annotated[int, Field(ge=1, strict=True)] | None = None
    min_score_floor: Annotated[float, Field(ge=0, le=1, strict=True)] | None = None

    def cap_top_k(self, top_k: int) -> int:
        return top_k if self.max_top_k is None else min(top_k, self.max_top_k)

    def floor_min_score(self, min_score: float) -> float:
        return min_score if self.min_score_floor is None else max(min_score, self.min_score_floor)


class Query(BaseModel):
    """A question to the store: the ``top_k`` documents that answer ``text`` best, of those that ``tags`` admits.

    ``strategy``: by meaning (``similarity``), by meaning without near-repeats (``diverse``), by meaning and words
    together (``hybrid``), or by the names and addresses in the text (``people``). ``debug`` asks how it was answered.
    """

    model_config = ConfigDict(extra="forbid")

    text: Annotated[Text, Field(max_length=MAX_QUERY_LENGTH), AfterValidator(_not_blank)]
    tags: Text | None = None
    top_k: Annotated[int, Field(ge=1, le=MAX_TOP_K, strict=True)] = 5
    min_score: Annotated[float, Field(ge=0, le=1, strict=True)] = 0.0
    strategy: Strategy = "similarity"
    debug: bool = False


Leg = Literal["dense", "lexical", "people"]


class LegDebug(BaseModel):
    """How one leg of a search went: its plan, the matching rows that the planner expected, and what it found."""

    leg: Leg
    plan: str
    expected_rows: int | None = None
    found: int
    milliseconds: float


class QueryDebug(BaseModel):
    """How a question was answered; for people who tune or doubt it, not for programs to branch on.

    An answer from the cache (``hit``) went no legs. ``embedding_cache`` tells of the question's vector, ``found_by``
    which legs found each document, by its id.
    """

    strategy: Strategy
    cache: Literal["hit", "miss", "off"] = "off"
    embedding_cache: Literal["hit", "miss", "unused"] = "unused"
    legs: list[LegDebug] = []
    found_by: dict[str, list[Leg]] = {}


class QueryResult(BaseModel):
    """Documents, best first, ties by id. ``text_over_window``: the text was longer than the model reads at once."""

    documents: list[KnowledgeDocument]
    text_over_window: bool = False
    debug: QueryDebug | None = None


class UpsertOutcome(BuiltWhenUsed):
    """What became of one document; ``problem`` says why it failed."""

    id: str
    status: UpsertStatus
    problem: Problem | None = None


class UpsertResult(BuiltWhenUsed):
    """What became of a batch, in its order.

    ``embedded`` counts texts that went through the model; ``over_window`` those among them that are longer than the
    model reads at once, and would be found better as smaller chunks.
    """

    results: list[UpsertOutcome]
    embedded: int = 0
    over_window: int = 0

    def _count(self, status: UpsertStatus) -> int:
        return sum(outcome.status == status for outcome in self.results)

    @computed_field
    @property
    def created(self) -> int:
        return self._count("created")

    @computed_field
    @property
    def updated(self) -> int:
        return self._count("updated")

    @computed_field
    @property
    def unchanged(self) -> int:
        return self._count("unchanged")

    @computed_field
    @property
    def failed(self) -> int:
        return self._count("failed")

    @classmethod
    def merged(cls, parts: Iterable[UpsertResult]) -> UpsertResult:
        """One result for a batch that travelled in several requests."""
        merged = cls(results=[])
        for part in parts:
            merged.results.extend(part.results)
            merged.embedded += part.embedded
            merged.over_window += part.over_window
        return merged


class SyncRunRef(BuiltWhenUsed):
    """A sync run and the token that proves the right to write in it."""

    model_config = ConfigDict(extra="forbid")

    id: int
    fence: int


class BulkUpsert(BuiltWhenUsed):
    """Body of ``POST /bulk-upsert``; with ``run``, part of a sync run (``spot_sdk.sync``)."""

    model_config = ConfigDict(extra="forbid")

    documents: Annotated[list[KnowledgeDocument], Field(min_length=1, max_length=MAX_BATCH)]
    run: SyncRunRef | None = None


class Delete(BuiltWhenUsed):
    """Body of ``POST /delete``."""

    model_config = ConfigDict(extra="forbid")

    ids: Annotated[list[DocumentId], Field(min_length=1, max_length=MAX_BATCH)]


class DeleteResult(BuiltWhenUsed):
    """How many of the documents named were there, and are gone."""

    deleted: int


class Expire(Delete):
    """Body of ``POST /expire``."""


class ExpireResult(BuiltWhenUsed):
    """How many of the documents named were live, and are no longer."""

    expired: int


class ListDocuments(BuiltWhenUsed):
    """Which documents ``GET /documents`` lists: those after an id, whose ids begin so, of a source, with these tags."""

    after: Text = ""
    prefix: Text = ""
    source: Text | None = None
    tags: Text | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_LISTED)] = 50


class DocumentSummary(BuiltWhenUsed):
    """A stored document at a glance: its ``title`` is ``metadata["name"]`` or ``["title"]``, its ``excerpt`` how the
    content of so many ``characters`` begins.
    """

    id: str
    title: str | None = None
    source: str
    tags: list[str]
    updated_at: datetime
    expires_at: datetime | None = None
    characters: int
    excerpt: str


class DocumentPage(BuiltWhenUsed):
    """Documents in id order. ``after`` asks for the next page, and is null on the last."""

    documents: list[DocumentSummary]
    after: str | None = None


class EmbeddingModel(BuiltWhenUsed):
    """The model behind the store's vectors.

    ``max_input_tokens`` is its window; ``chunk_chars`` the length of text that fits the window with room to spare, and
    so the length to chunk to.
    """

    backend: str
    model: str
    version: str
    dimensions: int
    max_input_tokens: int
    chunk_chars: int


class Version(BuiltWhenUsed):
    """Answer of ``GET /version``. ``next_embedding``: the model that the documents may be moved to without a pause."""

    version: str
    embedding: EmbeddingModel
    next_embedding: EmbeddingModel | None = None


class Health(BuiltWhenUsed):
    """Answer of ``GET /health`` when all is well; anything else is a problem with status 503."""

    status: Literal["ok"]


class TagCount(BuiltWhenUsed):
    tag: str
    documents: int


class SourceCount(BuiltWhenUsed):
    source: str
    documents: int
    oldest: datetime | None = None
    newest: datetime | None = None


class Stats(BuiltWhenUsed):
    """Answer of ``GET /api/v1/knowledge/stats``: live documents, and those expired that cleanup has not removed yet."""

    documents: int
    expired: int
    tags: list[TagCount]
    sources: list[SourceCount]
    oldest: datetime | None = None
    newest: datetime | None = None
