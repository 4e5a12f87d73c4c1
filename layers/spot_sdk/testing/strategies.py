"""The store's strategies in memory: simple, and alike in what they promise.

Similarity is that of words and their parts (``similarity.py``); ``diverse`` and ``hybrid`` reckon as the store does
with it, ``people`` knows addresses in metadata and content, and whole names in metadata.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from spot_sdk.documents import Evidence, KnowledgeDocument, Query, Strategy
from spot_sdk.testing.similarity import searchable_text, similarity

_LAMBDA = 0.6
_DENSE_WEIGHT = 0.3
_NEAR = 0.8
_WORTH = {"exact": 1.0, "lookalike": 0.97, "near": 0.95}
_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_LOOKALIKES = str.maketrans({"0": "o", "1": "l", "5": "s", "і": "i", "а": "a", "е": "e", "о": "o", "р": "p", "с": "c"})

Ranking = Callable[[Query, Sequence[KnowledgeDocument]], list[KnowledgeDocument]]


def similar(query: Query, documents: Sequence[KnowledgeDocument]) -> list[KnowledgeDocument]:
    """By likeness to the text."""
    return _best(query, [_scored(d, similarity(query.text, searchable_text(d))) for d in documents])[: query.top_k]


def diverse(query: Query, documents: Sequence[KnowledgeDocument]) -> list[KnowledgeDocument]:
    """By likeness to the text, without near-repeats: maximal marginal relevance."""
    left = similar(query.model_copy(update={"top_k": len(documents) or 1}), documents)
    taken: list[KnowledgeDocument] = []

    def gain(document: KnowledgeDocument) -> float:
        repeated = max((similarity(searchable_text(document), searchable_text(other)) for other in taken), default=0.0)
        return _LAMBDA * (document.score or 0.0) - (1 - _LAMBDA) * repeated

    while left and len(taken) < query.top_k:
        taken.append(left.pop(max(range(len(left)), key=lambda number: (gain(left[number]), -number))))
    return _best(query, taken)


def hybrid(query: Query, documents: Sequence[KnowledgeDocument]) -> list[KnowledgeDocument]:
    """By likeness and by shared words; whoever is named to the letter, or by what looks it, first."""
    asked = _words(query.text)

    def score(document: KnowledgeDocument) -> float:
        text = searchable_text(document)
        shared = len(asked & _words(text)) / len(asked) if asked else 0.0
        return _DENSE_WEIGHT * similarity(query.text, text) + (1 - _DENSE_WEIGHT) * shared

    named = {
        document.id: document
        for document in people(query.model_copy(update={"min_score": 0.0}), documents)
        if document.evidence and document.evidence.match != "near"
    }
    others = [_scored(document, score(document)) for document in documents if document.id not in named]
    highest = max((document.score or 0.0 for document in others), default=0.0)
    lifted = [_scored(document, max(document.score or 0.0, highest)) for document in named.values()]
    return (_best(query, lifted) + _best(query, others))[: query.top_k]


def people(query: Query, documents: Sequence[KnowledgeDocument]) -> list[KnowledgeDocument]:
    """Documents with an address or a name of the text: the same, looking the same, or nearly the same."""
    found: list[KnowledgeDocument] = []
    for document in documents:
        evidence = max(_evidence(query.text, document), key=_worth, default=None)
        if evidence is not None:
            found.append(_scored(document, _worth(evidence)).model_copy(update={"evidence": evidence}))
    return _best(query, found)[: query.top_k]


RANKINGS: dict[Strategy, Ranking] = {"similarity": similar, "diverse": diverse, "hybrid": hybrid, "people": people}


def _scored(document: KnowledgeDocument, score: float) -> KnowledgeDocument:
    return document.model_copy(deep=True, update={"score": score})


def _best(query: Query, documents: Sequence[KnowledgeDocument]) -> list[KnowledgeDocument]:
    enough = [document for document in documents if (document.score or 0.0) >= query.min_score]
    return sorted(enough, key=lambda document: (-(document.score or 0.0), document.id))


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))


def _evidence(text: str, document: KnowledgeDocument) -> Iterator[Evidence]:
    own = [value for value in document.metadata.values() if isinstance(value, str)]
    known = {address for part in [*own, document.content] for address in _ADDRESS.findall(part)}
    for asked in _ADDRESS.findall(text):
        for stored in sorted(known):
            match, likeness = _compare(asked.casefold(), stored.casefold())
            if match is not None:
                yield Evidence(field="address", stored=stored, asked=asked, match=match, similarity=likeness)
    for name in own:
        if " " in name and name.casefold() in text.casefold():
            yield Evidence(field="name", stored=name, asked=name, match="exact", similarity=1.0)


def _compare(asked: str, stored: str) -> tuple[Literal["exact", "lookalike", "near"] | None, float]:
    if asked == stored:
        return "exact", 1.0
    if _folded(asked) == _folded(stored):
        return "lookalike", 1.0
    likeness = difflib.SequenceMatcher(None, asked, stored).ratio()
    return ("near", likeness) if likeness >= _NEAR else (None, likeness)


def _folded(text: str) -> str:
    return text.translate(_LOOKALIKES).replace("rn", "m")


def _worth(evidence: Evidence) -> float:
    return _WORTH[evidence.match] * evidence.similarity * (0.9 if evidence.field == "name" else 1.0)
