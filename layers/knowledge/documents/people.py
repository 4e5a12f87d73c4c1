"""Looking people up: which documents have the names and addresses of a text (``people.sql``, beside it)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, LiteralString

from psycopg import sql

from knowledge.db.connection import Transaction, set_local
from knowledge.db.statements import load_statements
from knowledge.search.people import MAX_NEAR_LOOKUPS, Compared, Field, Judged, best, judge, judge_domain, mentions
from knowledge.tags.sql import TagFilter
from spot_sdk.documents import MAX_TOP_K, KnowledgeDocument

_SQL = load_statements(Path(__file__).with_name("people.sql"))

_TRIGRAMS_SHARED = 0.3  # of all that two texts have together; what ``judge`` calls near shares as many
_NEAR_LIMIT = 50
_DOMAINS_NAMED = 3  # how many of the known domains that resemble one asked for are worth telling


class PeopleLookup:
    """One search for people, inside one transaction and under one tag filter."""

    def __init__(self, transaction: Transaction, tags: TagFilter) -> None:
        self._transaction = transaction
        self._tags = tags
        self._judged: defaultdict[str, list[Judged]] = defaultdict(list)

    def find(self, text: str, top_k: int) -> list[KnowledgeDocument]:
        """The ``top_k`` documents that best fit a name or an address in ``text``, best first, ties by id."""
        asked = mentions(text)
        set_local(
            self._transaction,
            pg_trgm__similarity_threshold=_TRIGRAMS_SHARED,
            plan_cache_mode="force_custom_plan",
        )
        if asked.addresses:
            addresses = self._compare("address", asked.addresses)
            self._look_up("address", addresses, MAX_NEAR_LOOKUPS)
            self._look_up_domains(addresses)
        if asked.names:
            names = self._compare("name", asked.names)
            self._look_up("name", names, max(MAX_NEAR_LOOKUPS // 2, MAX_NEAR_LOOKUPS - len(asked.addresses)))
        ranked = sorted(((best(judged), id) for id, judged in self._judged.items()), key=lambda r: (-r[0].score, r[1]))
        return self._documents(ranked[:top_k])

    def _compare(self, field: Field, texts: Sequence[str]) -> list[Compared]:
        rows = self._execute("compare", field, texts=list(texts))
        return [compared for row in rows if (compared := Compared(**row)).folded]

    def _look_up(self, field: Field, asked: Sequence[Compared], near_lookups: int) -> None:
        """First what is the same or looks it, then what is near, for those who are not known to the letter."""
        known = self._judge(field, asked, "same", MAX_TOP_K)
        unknown = [one for one in asked if one not in known]
        if unknown and near_lookups > 0:
            self._judge(field, unknown[:near_lookups], "near", _NEAR_LIMIT)

    def _judge(self, field: Field, asked: Sequence[Compared], statement: str, limit: int) -> set[Compared]:
        """Look up, keep what is worth something, and return those that a document has as its own, to the letter."""
        exact: set[Compared] = set()
        rows = self._execute(
            statement,
            field,
            folded=[one.folded for one in asked],
            folded_domains=[one.folded_domain for one in asked],
            limit=limit,
        )
        for row in rows.fetchall():
            one, document_id, own = asked[row.pop("place") - 1], row.pop("document_id"), row.pop("own")
            judged = judge(field, one, Compared(**row), own=own)
            if judged:
                self._judged[document_id].append(judged)
                if own and judged.evidence.match == "exact" and judged.evidence.field == field:
                    exact.add(one)
        return exact

    def _look_up_domains(self, asked: Sequence[Compared]) -> None:
        """What has an address in a domain that resembles, without being it, the domain of one asked for."""
        by_domain = {one.plain_domain: one for one in asked}
        ordered = list(by_domain.values())
        known = self._execute("domains", folded_domains=[one.folded_domain for one in ordered]).fetchall()
        for place, one in enumerate(ordered, 1):
            rows = [row for row in known if row["place"] == place]
            if any(row["plain_domain"] == one.plain_domain for row in rows):
                continue
            for row in rows[:_DOMAINS_NAMED]:
                judged = judge_domain(one, row["plain_domain"], row["folded_domain"])
                if judged:
                    for found in self._execute("of_domain", **row, limit=MAX_TOP_K).fetchall():
                        self._judged[found["document_id"]].append(judged)

    def _documents(self, ranked: Sequence[tuple[Judged, str]]) -> list[KnowledgeDocument]:
        rows = {row["id"]: row for row in self._execute("documents", ids=[id for _, id in ranked])} if ranked else {}
        # Validated when it was stored: building it again without a second look saves most of a millisecond a document.
        return [
            KnowledgeDocument.model_construct(**rows[id], score=judged.score, evidence=judged.evidence)
            for judged, id in ranked
            if id in rows  # it may have gone since it was found
        ]

    def _execute(self, statement: str, field: Field | None = None, **parameters: Any) -> Transaction:
        text: LiteralString = _SQL[statement]
        query = sql.SQL(text).format(tags=sql.SQL(self._tags.condition), field=sql.Literal(field))
        return self._transaction.execute(query, {**self._tags.parameters, **parameters})
