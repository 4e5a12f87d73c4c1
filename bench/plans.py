"""The ways to find filtered nearest neighbours, each alone, against our choice among them (`--plans`).

``chosen`` is what ``DocumentSearch`` does. The others have the signature of ``knn.nearest`` and take its place, so that
all share the transaction, the statements and the building of documents, and differ in the plan only. Each index is
asked with our effort and with less, for the best plan of a column may be one that we take too much care for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from unittest.mock import patch

from knowledge.documents import search as documents_search
from knowledge.documents.search import DocumentSearch
from knowledge.search.knn import FilteredVectors, Neighbours, Plan, effort_for, exact_up_to_rows, nearest, reach_for
from spot_sdk.documents import KnowledgeDocument
from spot_sdk.tag_expression import parse

Row = dict[str, Any]
Nearest = Callable[..., Neighbours[KnowledgeDocument]]

GATE = 0.99
WITHIN = 1.5
"""How many times the p50 of a column's best plan our choice may take."""
_MAX_REACH = 1000  # HNSW gives no more rows than hnsw.ef_search, which ends there
_RESORTED = 20  # rows beyond top_k from vectors of half precision, as in knn


def exact(vectors: FilteredVectors[KnowledgeDocument], top_k: int, **_: Any) -> Neighbours[KnowledgeDocument]:
    return Neighbours(vectors.scan(vectors.groups, top_k), Plan(("exact",), 0))


def hnsw(effort: float) -> Nearest:
    """The nearest of all rows, filtered afterwards, and whatever comes of it; ``effort`` times our ``ef_search``."""

    def plan(vectors: FilteredVectors[KnowledgeDocument], top_k: int, **_: Any) -> Neighbours[KnowledgeDocument]:
        share = vectors.estimate_matches(vectors.groups) / max(1, vectors.indexes().rows)
        reach = min(_MAX_REACH, reach_for(top_k, min(1.0, share)))
        ef = max(reach, math.ceil(effort * effort_for(reach)))
        return Neighbours(vectors.search_index(reach, ef, top_k), Plan(("index",), 0))

    return plan


def ivfflat(effort: float) -> Nearest:
    """The index of the one tag asked for, which must be there; ``effort`` times our number of cells."""

    def plan(vectors: FilteredVectors[KnowledgeDocument], top_k: int, **_: Any) -> Neighbours[KnowledgeDocument]:
        groups = vectors.groups or ()
        (index,) = vectors.indexes().by_tag.values()
        reach = top_k + _RESORTED
        probes = math.ceil(effort * index.probes(reach))
        rows = vectors.search_tag_index(index, groups, probes=probes, reach=reach, limit=top_k)
        return Neighbours(rows, Plan(("tag_indexes",), 0))

    return plan


PLANS: dict[str, Nearest] = {
    "chosen": nearest,
    "exact": exact,
    "hnsw": hnsw(1),
    "hnsw/3": hnsw(1 / 3),
    "ivfflat": ivfflat(1),
    "ivfflat*2/3": ivfflat(2 / 3),
}


def plan_searches(
    search: DocumentSearch, vectors: Sequence[list[float]], indexed_tags: Iterable[str]
) -> dict[str, Callable[[int, str | None, int], list[int] | None]]:
    """A search for each plan: the ids found for (question, tag, k), or None where the plan does not apply."""
    indexed = set(indexed_tags)

    def searching(name: str) -> Callable[[int, str | None, int], list[int] | None]:
        def ask(number: int, tag: str | None, k: int) -> list[int] | None:
            if name.startswith("ivfflat") and tag not in indexed:
                return None
            with patch.object(documents_search, "nearest", PLANS[name]):
                return [int(row.id) for row in search.nearest(vectors[number], parse(tag), k).rows]

        return ask

    return {name: searching(name) for name in PLANS}


def compared(rows: Sequence[Row]) -> list[Row]:
    """For each column and k: our figures, the fastest other plan that is right there, and our p50 as a multiple of its.

    A plan is right with a recall of .99 and no row missing.
    """
    verdicts: list[Row] = []
    for ours in (row for row in rows if row["system"] == "chosen"):
        same = [r for r in rows if (r["column"], r["k"]) == (ours["column"], ours["k"]) and r is not ours]
        best = min((r for r in same if is_right(r)), key=lambda r: r["p50_ms"])  # the exact scan always is
        ratio = ours["p50_ms"] / best["p50_ms"]
        passes = is_right(ours) and ratio <= WITHIN
        verdicts.append({**ours, "best": best["system"], "best_p50_ms": best["p50_ms"], "ratio": ratio, "ok": passes})
    return verdicts


def is_right(row: Row) -> bool:
    return row["recall"] >= GATE and row["missing"] == 0


def table(rows: Sequence[Row], dimensions: int) -> str:
    """All plans of each column and k in one line, with the verdict at its end."""
    others = [name for name in PLANS if name != "chosen"]
    by_plan = {(r["system"], r["column"], r["k"]): r for r in rows}
    lines = [
        f"p50 ms/recall/rows missing; read exactly: up to {exact_up_to_rows(dimensions):,} expected matches",
        f"| column | k | chosen | {' | '.join(others)} | best right plan | times its p50 | within {WITHIN} |",
        "|---" * (len(others) + 6) + "|",
    ]
    for verdict in compared(rows):
        place = verdict["column"], verdict["k"]
        cells = [_cell(by_plan.get((name, *place))) for name in ("chosen", *others)]
        said = "yes" if verdict["ok"] else "NO" if is_right(verdict) else "NO: recall"
        lines.append(
            f"| {place[0]} | {place[1]} | {' | '.join(cells)} | {verdict['best']} | {verdict['ratio']:.2f} | {said} |"
        )
    return "\n".join(lines)


def _cell(row: Row | None) -> str:
    return f"{row['p50_ms']:.1f}/{row['recall']:.3f}/{row['missing']:g}" if row else ""
