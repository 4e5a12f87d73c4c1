"""``make eval``: measure retrieval on collections, and compare with the last run.

    python -m eval.run                              # the example company
    python -m eval.run COLLECTION [COLLECTION ...]  # folders (eval/collection.py says of which kinds)

Results go to ``eval/results/latest.json`` (collection -> strategy -> measure -> value) and ``latest.md``; collections
that are not asked for stay in them. Exits with 1 when a figure is below its floor (``eval/floors.json``).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from eval.collection import Collection, load
from eval.measure import MEASURES, Scores, Store
from eval.vectors import CachedEmbedder
from knowledge.db.connection import Database
from knowledge.db.migrate import migrate
from knowledge.embedding.base import Embedder
from knowledge.embedding.factory import make_embedder
from knowledge.embedding.settings_model import EmbeddingSettings
from knowledge.telemetry import logger
from local.postgres import EmbeddedPostgres

HERE = Path(__file__).parent
COMPANY = HERE.parent / "examples" / "company"
COMPANY_QUESTIONS = HERE / "company_questions.jsonl"

Figures = dict[str, dict[str, dict[str, float]]]
"""Collection -> strategy -> measure -> value."""


@contextmanager
def empty_database(embedder: Embedder) -> Generator[Database]:
    """A database of its own server, which goes with it."""
    with (
        tempfile.TemporaryDirectory(prefix="eval-") as folder,
        EmbeddedPostgres(Path(folder) / "data", durable=False) as server,
    ):
        migrate(server.dsn, embedder.model)
        with closing(Database(lambda: server.dsn)) as database:
            yield database


def load_any(folder: Path, chunk_chars: int) -> Collection:
    """The collection in a folder; the example company is asked our own questions."""
    questions = COMPANY_QUESTIONS if folder.resolve() == COMPANY else None
    return load(folder, chunk_chars, questions)


def evaluate(collection: Collection, embedder: Embedder) -> Scores:
    with empty_database(embedder) as database:
        return Store(database, embedder, collection).measure()


def means(scores: Scores) -> dict[str, dict[str, float]]:
    return {strategy: {name: e.mean for name, e in by_name.items()} for strategy, by_name in scores.items()}


def as_markdown(name: str, scores: Scores, before: dict[str, dict[str, float]]) -> str:
    """A table with 95 % intervals and, where it is known, the difference to the last run."""
    lines = [f"## {name}", "", f"| strategy | {' | '.join(MEASURES)} |", f"|---|{'---|' * len(MEASURES)}"]
    for strategy, by_name in scores.items():
        cells: list[str] = []
        for measure, estimate in by_name.items():
            last = before.get(strategy, {}).get(measure)
            change = "" if last is None or last == estimate.mean else f" ({estimate.mean - last:+.3f})"
            cells.append(f"{estimate.mean:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]{change}")
        lines.append(f"| {strategy} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def below_floors(figures: Figures, floors: Figures) -> list[str]:
    """What each figure that is below its floor is, and should be."""
    return [
        f"{collection}, {strategy}: {measure} is {value:.3f}, below {floor}"
        for collection, strategies in floors.items()
        for strategy, measures in strategies.items()
        for measure, floor in measures.items()
        if (value := figures.get(collection, {}).get(strategy, {}).get(measure)) is not None and value < floor
    ]


def read_figures(path: Path) -> Figures:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("collections", nargs="*", type=Path, metavar="COLLECTION", default=[COMPANY])
    parser.add_argument("--backend", choices=("minilm", "hash"), default="minilm", help="the model (%(default)s)")
    parser.add_argument("--cache", type=Path, default=Path(".cache/eval-vectors.sqlite"), help="vectors (%(default)s)")
    parser.add_argument("--results", type=Path, default=HERE / "results", help="where results go (%(default)s)")
    options = parser.parse_args(arguments)

    logger.setLevel("WARNING")
    embedder = CachedEmbedder(make_embedder(EmbeddingSettings(backend=options.backend)), options.cache)
    suffix = "" if options.backend == "minilm" else f" ({options.backend})"
    before = read_figures(options.results / "latest.json")
    figures: Figures = {}
    tables: list[str] = []
    for folder in options.collections:
        collection = load_any(folder, embedder.model.chunk_chars)
        name = collection.name + suffix
        counts = f"{len(collection.documents)} documents, {len(collection.questions)} questions"
        print(f"{name}: {counts}", file=sys.stderr, flush=True)
        scores = evaluate(collection, embedder)
        figures[name] = means(scores)
        tables.append(f"{as_markdown(name, scores, before.get(name, {}))}\n{counts}.\n")
        print(tables[-1], flush=True)

    options.results.mkdir(parents=True, exist_ok=True)
    text = json.dumps(before | figures, indent=2, sort_keys=True) + "\n"
    (options.results / "latest.json").write_text(text, encoding="utf-8")
    (options.results / "latest.md").write_text("# Retrieval, last run\n\n" + "\n".join(tables), encoding="utf-8")
    failures = below_floors(figures, read_figures(HERE / "floors.json"))
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
