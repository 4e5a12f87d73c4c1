"""Which treatment of texts longer than the model's window finds best, and which length to chunk to.

A collection is a folder with Markdown under ``pages/``. Its questions are the texts of its internal links: a link says
in a few words what the page that it leads to is about. ``anchor_queries.jsonl`` holds them where somebody has gathered
them ({"query", "gold": [page], "linked_from": [page]} a line); otherwise they are gathered here. Pages that carry the
link are no candidates for its question. A page is as good as its best chunk.

Its table stands in docs/adr/0005-text-longer-than-the-model-window.md. A handbook of 250 pages takes about half an
hour on two cores; vectors are kept in the cache, so the next run takes a minute.

    python eval/window_rule.py COLLECTION [COLLECTION ...]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from knowledge.documents.fingerprint import searchable_text
from knowledge.embedding.minilm import MiniLMEmbedder
from knowledge.embedding.windows import MAX_WINDOWS, EmbeddedWindows, combined, spread
from spot_sdk.chunking import chunk_markdown
from spot_sdk.documents import KnowledgeDocument
from spot_sdk.errors import EmbeddingFailed
from spot_sdk.markdown_tree import MarkdownTree

WHOLE_PAGE = 1_000_000
ALL_WINDOWS = 1_000_000
SHORTEST_FITTED = 200

_LINK = re.compile(r"(?<!!)\[([^\[\]]+)\]\(([^()\s]+)\)")


class Question(NamedTuple):
    """A query, the pages that answer it, and those that may not."""

    text: str
    gold: frozenset[str]
    excluded: frozenset[str]


class Collection(NamedTuple):
    """``sample`` are the pages that take part, and the questions those that they answer."""

    name: str
    pages: Path
    sample: frozenset[str]
    questions: list[Question]


# Rules: from the windows of one text to the vectors that are kept of it, ``(n, dimensions)``, unit length


Matrix = NDArray[np.float32]


def first_window(windows: EmbeddedWindows) -> Matrix:
    return np.array(windows.vectors[:1], dtype=np.float32)


def every_window(windows: EmbeddedWindows) -> Matrix:
    return np.array(windows.vectors, dtype=np.float32)


def mean_by_length(windows: EmbeddedWindows) -> Matrix:
    return _mean(windows, windows.lengths)


def halving(windows: EmbeddedWindows) -> Matrix:
    """Each window counts half as much as the one before, by its length."""
    return _mean(windows, [length * 0.5**number for number, length in enumerate(windows.lengths)])


def falling(windows: EmbeddedWindows) -> Matrix:
    """The n-th window counts by its length over the square root of n."""
    return _mean(windows, [length / number**0.5 for number, length in enumerate(windows.lengths, start=1)])


def first_as_much_as_the_rest(windows: EmbeddedWindows) -> Matrix:
    return np.array([combined(windows)], dtype=np.float32)


def as_stored(windows: EmbeddedWindows) -> Matrix:
    """What an embedder returns: the same over a limited number of windows."""
    taken = EmbeddedWindows(spread(windows.vectors, MAX_WINDOWS), spread(windows.lengths, MAX_WINDOWS))
    return first_as_much_as_the_rest(taken)


def _mean(windows: EmbeddedWindows, weights: Sequence[float]) -> Matrix:
    mean = np.average(windows.vectors, axis=0, weights=weights)
    return (mean / np.linalg.norm(mean))[np.newaxis].astype(np.float32)


RULES: dict[str, Callable[[EmbeddedWindows], Matrix]] = {
    "first window only": first_window,
    "mean by length": mean_by_length,
    "weights 1/2^n": halving,
    "weights 1/√n": falling,
    "first as much as the rest": first_as_much_as_the_rest,
    "the same, 32 windows": as_stored,
    "a vector per window": every_window,
}


# Collections


def load_collection(folder: Path, every: int) -> Collection:
    """The collection in a folder, or every n-th of its pages."""
    pages = folder / "pages"
    sample = frozenset(MarkdownTree(pages, source="eval").survey().pages[::every])
    gathered = folder / "anchor_queries.jsonl"
    if gathered.exists():
        lines = [json.loads(line) for line in gathered.read_text().splitlines()]
        questions = [Question(q["query"], frozenset(q["gold"]), frozenset(q["linked_from"])) for q in lines]
    else:
        questions = gather_questions(pages)
    return Collection(folder.name, pages, sample, [question for question in questions if question.gold <= sample])


def gather_questions(pages: Path) -> list[Question]:
    """Texts of two words or more that link to one page only, with that page and those that carry the link."""
    targets: dict[str, set[str]] = defaultdict(set)
    carriers: dict[str, set[str]] = defaultdict(set)
    for file in sorted(pages.rglob("*.md")):
        page = file.relative_to(pages)
        for label, href in _LINK.findall(file.read_text()):
            text = re.sub(r"[*_`]|\s+", " ", label).strip().lower()
            target = _linked_page(pages, page, href)
            if target and len(text.split()) >= 2:
                targets[text].add(target)
                carriers[text].add(page.as_posix())
    return [
        Question(text, frozenset(pages_linked), frozenset(carriers[text]))
        for text, pages_linked in targets.items()
        if len(pages_linked) == 1 and not pages_linked & carriers[text]
    ]


def _linked_page(pages: Path, page: Path, href: str) -> str | None:
    """The page of the collection that a link leads to, if any."""
    if ":" in href or href.startswith("#"):
        return None
    path = PurePosixPath(href.split("#")[0].split("?")[0])
    base = pages if path.is_absolute() else pages / page.parent
    goal = (base / str(path).lstrip("/")).resolve()
    for candidate in (goal, goal.with_name(f"{goal.name}.md"), goal / "index.md"):
        if candidate.is_file() and candidate.suffix == ".md" and candidate.is_relative_to(pages.resolve()):
            return candidate.relative_to(pages.resolve()).as_posix()
    return None


def chunks(collection: Collection, chunk_chars: int) -> Iterator[tuple[str, KnowledgeDocument]]:
    """Each page's path with its chunks, as ``knowledge ingest`` makes them."""
    overlap = 0 if chunk_chars == WHOLE_PAGE else None
    tree = MarkdownTree(collection.pages, source="eval", chunk_chars=chunk_chars, overlap=overlap)
    for path in sorted(collection.sample):
        for document in tree.read(path).documents:
            yield path, document


def fitted(document: KnowledgeDocument, embedder: MiniLMEmbedder) -> Iterator[KnowledgeDocument]:
    """The document, or its content in as many pieces as it takes for each to fit the model's window."""
    half = len(document.content) // 2 + 1
    if half < SHORTEST_FITTED or not embedder.over_window(searchable_text(document)):
        yield document
        return
    for piece in chunk_markdown(document.content, half + half // 10, half // 10):
        yield from fitted(document.model_copy(update={"content": piece.text}), embedder)


# Vectors, kept on disk between runs


class WindowCache:
    """Windows of texts by one model, in an SQLite file."""

    def __init__(self, embedder: MiniLMEmbedder, path: Path) -> None:
        self._embedder = embedder
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = sqlite3.connect(path)
        self._file.execute(
            "CREATE TABLE IF NOT EXISTS windows"
            " (model text, text blob, lengths text, vectors blob, PRIMARY KEY (model, text))"
        )
        self._model = embedder.model.version

    def windows(self, texts: Sequence[str]) -> list[EmbeddedWindows]:
        found = {text: windows for text in set(texts) if (windows := self._find(text))}
        missing = [text for text in dict.fromkeys(texts) if text not in found]
        for start in range(0, len(missing), 64):
            batch = missing[start : start + 64]
            for text, windows in zip(batch, self._embedder.embed_windows(batch, at_most=ALL_WINDOWS), strict=True):
                if isinstance(windows, EmbeddingFailed):
                    raise windows
                found[text] = windows
                self._keep(text, windows)
            self._file.commit()
        return [found[text] for text in texts]

    def _find(self, text: str) -> EmbeddedWindows | None:
        row = self._file.execute(
            "SELECT lengths, vectors FROM windows WHERE model = ? AND text = ?", (self._model, _digest(text))
        ).fetchone()
        if row is None:
            return None
        lengths = json.loads(row[0])
        return EmbeddedWindows(np.frombuffer(row[1], dtype="<f4").reshape(len(lengths), -1).tolist(), lengths)

    def _keep(self, text: str, windows: EmbeddedWindows) -> None:
        vectors = np.array(windows.vectors, dtype="<f4").tobytes()
        self._file.execute(
            "INSERT OR REPLACE INTO windows VALUES (?, ?, ?, ?)",
            (self._model, _digest(text), json.dumps(windows.lengths), vectors),
        )


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


# Measuring


@dataclass(frozen=True)
class Score:
    """Over all questions: how often a right page came first, was among five, and the mean of 1/rank to rank ten."""

    hit_at_1: float
    hit_at_5: float
    mrr_at_10: float
    vectors: int


def ranks(questions: Matrix, pages: Sequence[str], vectors: Sequence[Matrix], asked: Sequence[Question]) -> list[int]:
    """The rank, from 1, of the best right page for each question."""
    names = sorted(set(pages))
    column = {name: number for number, name in enumerate(names)}
    best = np.full((len(asked), len(names)), -np.inf, dtype=np.float32)
    for page, matrix in zip(pages, vectors, strict=True):
        best[:, column[page]] = np.maximum(best[:, column[page]], (questions @ matrix.T).max(axis=1))
    result: list[int] = []
    for row, question in zip(best, asked, strict=True):
        row[[column[page] for page in question.excluded if page in column]] = -np.inf
        gold = max((row[column[page]] for page in question.gold if page in column), default=-np.inf)
        result.append(1 + int((row > gold).sum()) if gold > -np.inf else len(names) + 1)
    return result


def score(all_ranks: Sequence[int], vectors: int) -> Score:
    places = np.array(all_ranks)
    reciprocal = np.where(places <= 10, 1 / places, 0)
    return Score(float((places == 1).mean()), float((places <= 5).mean()), float(reciprocal.mean()), vectors)


def evaluate(collection: Collection, chunking: str, cache: WindowCache, embedder: MiniLMEmbedder) -> dict[str, Score]:
    """The score of each rule on one collection cut one way."""
    if chunking == "fit":
        documents = [
            (page, piece) for page, document in chunks(collection, 2000) for piece in fitted(document, embedder)
        ]
    else:
        documents = list(chunks(collection, WHOLE_PAGE if chunking == "page" else int(chunking)))
    windows = cache.windows([searchable_text(document) for _, document in documents])
    questions = np.concatenate([first_window(w) for w in cache.windows([q.text for q in collection.questions])])
    over = sum(len(w.vectors) > 1 for w in windows) / len(windows)
    print(
        f"{collection.name}, {chunking}: {len(windows)} chunks, {over:.0%} of them longer than the window", flush=True
    )
    pages = [page for page, _ in documents]
    scores: dict[str, Score] = {}
    for name, rule in RULES.items():
        kept = [rule(w) for w in windows]
        places = ranks(questions, pages, kept, collection.questions)
        scores[name] = score(places, sum(map(len, kept)))
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("collections", nargs="+", type=Path, metavar="COLLECTION", help="folder with pages/")
    parser.add_argument(
        "--cache", type=Path, default=Path(".cache/window-rule.sqlite"), help="file for vectors (%(default)s)"
    )
    parser.add_argument("--threads", type=int, default=2, help="threads of the model (%(default)s)")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="take every N-th page only (%(default)s)")
    parser.add_argument(
        "--chunkings",
        nargs="+",
        default=["700", "900", "2000", "fit", "page"],
        metavar="CHARS",
        help="lengths to chunk to, 'fit' for pieces that just fit the window, 'page' for whole pages (%(default)s)",
    )
    options = parser.parse_args()
    embedder = MiniLMEmbedder(threads=options.threads)
    cache = WindowCache(embedder, options.cache)
    for folder in options.collections:
        collection = load_collection(folder, options.every)
        print(f"\n{collection.name}: {len(collection.sample)} pages, {len(collection.questions)} questions", flush=True)
        started = time.monotonic()
        rows = [
            f"| {chunking} | {rule} | {s.vectors} | {s.hit_at_1:.3f} | {s.hit_at_5:.3f} | {s.mrr_at_10:.3f} |"
            for chunking in options.chunkings
            for rule, s in evaluate(collection, chunking, cache, embedder).items()
        ]
        print("\n| chunk | rule | vectors | hit@1 | hit@5 | MRR@10 |\n|---|---|---|---|---|---|", *rows, sep="\n")
        print(f"{time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
