"""Search and ask: two legs over one index of items, merged by sum (``search.sql``, beside it).

The lexical leg is full-text search ranked by ``ts_rank``, for items with any word of the question; the semantic leg is
cosine similarity to the item's closest passage, by the current model's vectors alone, and zero below that model's
floor. The tier never enters the ranking, and nothing here is an access.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any, NamedTuple, Self

from pgvector import Vector as PgVector
from psycopg import sql

from knowledge.db.connection import Transaction, set_local
from knowledge.db.statements import load_statements
from knowledge.items.embeddings import ItemEmbeddings
from knowledge.items.model import ITEM_TYPES, TIERS, ItemType, Tier
from knowledge.items.models import ItemModel, embedder_of
from knowledge.items.passages import passages, shown
from knowledge.items.session import Session
from knowledge.items.transactions import ItemTransactions
from spot_sdk.errors import InvalidRequest, Problem

MAX_LIMIT = 50
MAX_QUESTION_CHARS = 4000

_REACH = 400
"""So many of each leg are merged."""

_SQL = load_statements(Path(__file__).with_name("search.sql"))

_WEIGHTS = sql.SQL("'{1,1,1,1}'::real[]")
"""The text has no labels; weighed as 1, a word counts up to 0.6 beside a cosine similarity of up to 1."""

_NARROWED = sql.SQL(
    "item.compartment = ANY (%(scope)s) "
    "AND (%(types)s::text[] IS NULL OR item.type = ANY (%(types)s)) "
    "AND (%(tiers)s::text[] IS NULL OR item.tier = ANY (%(tiers)s)) "
    "AND (%(domain_from)s::timestamptz IS NULL OR item.domain_at >= %(domain_from)s) "
    "AND (%(domain_to)s::timestamptz IS NULL OR item.domain_at < %(domain_to)s)"
)

_EVERY_VECTOR_IN_SCOPE: dict[str, Any] = {
    "hnsw__ef_search": _REACH,
    "hnsw__iterative_scan": "strict_order",
    "hnsw__max_scan_tuples": 2**31 - 1,
}
"""The index goes on until the leg is full of what is in scope, however rare that is."""


class Hit(NamedTuple):
    """An item as evidence: what it is, where it lies, the passage that is closest, and what each leg gives it.

    ``passage`` is at most 500 characters of the item; the item itself is for ``ItemStore.get``, which is an access.
    """

    id: str
    type: ItemType
    title: str
    summary: str
    passage: str
    compartment: str
    tier: Tier
    tags: list[str]
    domain_at: datetime | None
    updated_at: datetime
    version: int
    lexical_score: float
    semantic_score: float
    score: float


@dataclass(frozen=True, slots=True)
class Narrowing:
    """What ``ask`` looks among: these types and tiers (None: all), and domain times from ``start`` up to ``end``.

    With ``whole`` all that is among them is evidence, and a question only orders it. Raises InvalidRequest for what
    cannot be.
    """

    types: Sequence[ItemType] | None = None
    tiers: Sequence[Tier] | None = None
    start: datetime | None = None
    end: datetime | None = None
    whole: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        _require_among("types", self.types, ITEM_TYPES)
        _require_among("tiers", self.tiers, TIERS)
        for name, moment in (("start", self.start), ("end", self.end)):
            if moment is not None and moment.utcoffset() is None:
                raise _wrong(name, "needs a time zone")
        if self.start is not None and self.end is not None and self.start >= self.end:
            raise _wrong("end", "must be after the start")

    @classmethod
    def completed_in_range(cls, start: datetime, end: datetime) -> Self:
        """Projects and episodes whose domain time is in a range."""
        return cls(("project", "episode"), None, start, end, whole=True)

    @classmethod
    def due_this_week(cls, day: date) -> Self:
        """Commitments and episodes of the working set in the week, Monday to Sunday in UTC, that ``day`` is in."""
        monday = datetime.combine(day - timedelta(days=day.weekday()), time(), UTC)
        return cls(("commitment", "episode"), ("working",), monday, monday + timedelta(weeks=1), whole=True)


class ItemSearch:
    """Finds items for a session.

    ``scope`` says in which compartments to look: a list that is not empty (else InvalidRequest). What of it the
    session does not see is left out before anything is ranked, and whether there is such a compartment is not told.
    Both methods embed first what in that scope has no vectors yet (``ItemEmbeddings.index``).
    """

    def __init__(self, transactions: ItemTransactions, embeddings: ItemEmbeddings) -> None:
        self._transactions = transactions
        self._embeddings = embeddings

    def search(self, question: str, scope: Sequence[str], session: Session, *, limit: int = 10) -> list[Hit]:
        """Up to ``limit`` items (50 at most) that either leg finds for ``question``, best first; equal ones by id."""
        return self._find(_require_question(question), Narrowing(), scope, session, limit)

    def ask(
        self, question: str | None, narrowing: Narrowing, scope: Sequence[str], session: Session, *, limit: int = 10
    ) -> list[Hit]:
        """Evidence for ``question`` from among what ``narrowing`` leaves. It gives evidence, no answer.

        Without a question the narrowing says all, and evidence is in the order of domain times.
        """
        if question is None and not narrowing.whole:
            raise _wrong("question", "is needed")
        return self._find(None if question is None else _require_question(question), narrowing, scope, session, limit)

    def _find(
        self, question: str | None, narrowing: Narrowing, scope: Sequence[str], session: Session, limit: int
    ) -> list[Hit]:
        if not 1 <= limit <= MAX_LIMIT:
            raise _wrong("limit", f"must be from 1 to {MAX_LIMIT}")
        seen = visible(scope, session)
        if not seen:
            return []
        self._embeddings.index(seen, session)
        model = self._embeddings.current(session)
        vector = None if question is None else embedder_of(model).embed(question)
        parameters = {
            "question": question or "",
            "vector": None if vector is None else PgVector(vector),
            "floor": model.floor,
            "scope": seen,
            "types": None if narrowing.types is None else list(narrowing.types),
            "tiers": None if narrowing.tiers is None else list(narrowing.tiers),
            "domain_from": narrowing.start,
            "domain_to": narrowing.end,
            "with_all": narrowing.whole,
            "reach": _REACH,
            "limit": limit,
        }

        def work(transaction: Transaction) -> list[Hit]:
            set_local(transaction, **_EVERY_VECTOR_IN_SCOPE)
            rows = transaction.execute(_statement(model), parameters).fetchall()
            return [_as_hit(row, model) for row in rows]

        return self._transactions.read(session, work)


def visible(scope: Sequence[str], session: Session) -> list[str]:
    """The compartments of a scope that the session sees. Raises InvalidRequest for an empty scope."""
    if isinstance(scope, str) or not scope:
        raise _wrong("scope", "must be a list of compartments that is not empty")
    return sorted(set(scope) if session.scope is None else session.scope.intersection(scope))


def _statement(model: ItemModel) -> sql.Composed:
    return sql.SQL(_SQL["search"]).format(
        narrowed=_NARROWED,
        weights=_WEIGHTS,
        model=sql.Literal(model.model),
        version=sql.Literal(model.version),
        dimensions=sql.Literal(model.dimensions),
    )


def _as_hit(row: dict[str, Any], model: ItemModel) -> Hit:
    parts = passages(row["title"], row["summary"], row.pop("body"), model.chunk_chars)
    chunk = row.pop("chunk") or 0
    return Hit(passage=shown(parts[chunk]), **row)


def _require_question(question: object) -> str:
    if not isinstance(question, str) or not question.strip():
        raise _wrong("question", "must not be blank")
    if len(question) > MAX_QUESTION_CHARS:
        raise _wrong("question", f"must not be longer than {MAX_QUESTION_CHARS:,} characters")
    if "\0" in question or any("\ud800" <= character <= "\udfff" for character in question):
        raise _wrong("question", "must not contain U+0000 or half a surrogate pair")
    return question


def _require_among(name: str, values: Sequence[str] | None, known: Sequence[str]) -> None:
    if values is not None and (not values or any(value not in known for value in values)):
        raise _wrong(name, f"must be one or more of {', '.join(known)}")


def _wrong(field: str, message: str) -> InvalidRequest:
    return InvalidRequest(f"{field}: {message}", problems=[Problem(field=field, message=message)])
