"""``make eval-mail``: how many impersonations the rules find, and how often they cry wolf.

    python -m eval.mail                                   # the example company
    python -m eval.mail --directory FOLDER                # besides, the people of FOLDER/people.ldif
    python -m eval.mail --split development --show 5      # while rules are made: never report these

Mails are made by rule (``eval/mail_cases.py``), each class as many. ``recall`` is the share of impersonations that are
labelled phishing, ``false_alarm`` the share of other mails that are, ``precision`` that of a class beside all genuine
mails and those of strangers. Results go to ``eval/results/mail.json``, next to those of collections that were not asked
for. Exits with 1 when a figure is on the wrong side of its floor (``eval/mail_floors.json``).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from eval.mail_cases import Case, Kind, Maker, Split
from eval.mail_directories import company
from eval.run import HERE, empty_database
from eval.store_client import StoreInProcess
from eval.vectors import CachedEmbedder
from examples.analyzers.rules.analysis import RulesAnalyzer
from examples.analyzers.rules.settings import rules
from examples.analyzers.rules.weights import Label
from knowledge.embedding.base import Embedder
from knowledge.embedding.factory import make_embedder
from knowledge.embedding.settings_model import EmbeddingSettings
from knowledge.telemetry import logger
from spot_sdk.documents import KnowledgeDocument
from spot_sdk.email import Email

SEED = 20260406
LABELS: tuple[Label, ...] = ("phishing", "suspicious", "clean")

Table = dict[str, dict[str, Any]]
"""Class -> its kind, and how many of its mails got each label."""


class Judged(NamedTuple):
    """A mail, its label, and the codes of its indicators."""

    case: Case
    label: Label
    codes: list[str]


async def judge(cases: Iterable[Case], store: StoreInProcess) -> list[Judged]:
    """Have the rules judge each mail."""
    analyzer = RulesAnalyzer(rules({}))
    judged: list[Judged] = []
    for case in cases:
        email = Email.from_bytes(case.eml)
        verdict = await analyzer.judge(email, store.for_analysis(email))
        judged.append(Judged(case, verdict.label, [finding.code for finding in verdict.findings]))
    return judged


def tabulate(judged: Iterable[Judged]) -> Table:
    """The confusion table."""
    counts: dict[str, Counter[str]] = {}
    kinds: dict[str, Kind] = {}
    for one in judged:
        counts.setdefault(one.case.name, Counter())[one.label] += 1
        kinds[one.case.name] = one.case.kind
    return {name: {"kind": kinds[name], **{label: counts[name][label] for label in LABELS}} for name in counts}


def figures(tables: Iterable[Table]) -> dict[str, dict[str, float | int | None]]:
    """``n``, ``recall``, ``false_alarm`` and ``precision`` of each class, over all tables together."""
    pooled: Table = {}
    for table in tables:
        for name, row in table.items():
            sums = pooled.setdefault(name, {"kind": row["kind"], **dict.fromkeys(LABELS, 0)})
            for label in LABELS:
                sums[label] += row[label]
    wolves = sum(row["phishing"] for row in pooled.values() if row["kind"] in ("genuine", "stranger"))
    classes: dict[str, dict[str, float | int | None]] = {}
    for name, row in pooled.items():
        count, alarms = sum(row[label] for label in LABELS), row["phishing"]
        is_attack = row["kind"] == "impersonation"
        classes[name] = {
            "n": count,
            "recall": round(alarms / count, 4) if is_attack else None,
            "false_alarm": None if is_attack else round(alarms / count, 4),
            "precision": round(alarms / (alarms + wolves), 4) if is_attack and alarms else None,
        }
    return classes


def beyond_floors(classes: dict[str, dict[str, Any]], floors: dict[str, dict[str, float]]) -> list[str]:
    """What each figure that is on the wrong side is, and should be: recall at least, false alarms at most."""
    wrong: list[str] = []
    for name, limits in floors.items():
        found = classes.get(name, {})
        recall, false_alarm = found.get("recall"), found.get("false_alarm")
        if recall is not None and recall < limits.get("recall", 0):
            wrong.append(f"{name}: recall is {recall:.3f}, below {limits['recall']}")
        if false_alarm is not None and false_alarm > limits.get("false_alarm", 1):
            wrong.append(f"{name}: false alarms are {false_alarm:.3f}, above {limits['false_alarm']}")
    return wrong


def as_markdown(table: Table, before: dict[str, dict[str, Any]]) -> str:
    """The confusion table with the figures, and the difference to the last run."""
    lines = [f"| class | {' | '.join(LABELS)} | recall | false alarms |", f"|---|{'---|' * (len(LABELS) + 2)}"]
    for name, found in figures([table]).items():
        cells = [str(table[name][label]) for label in LABELS]
        for measure in ("recall", "false_alarm"):
            value, last = found[measure], before.get(name, {}).get(measure)
            change = f" ({value - last:+.3f})" if value is not None and last not in (None, value) else ""
            cells.append("" if value is None else f"{value:.3f}{change}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def measure(documents: Sequence[KnowledgeDocument], embedder: Embedder, split: Split, count: int) -> list[Judged]:
    """Judge ``count`` mails of each class, on a store with these documents."""
    with empty_database(embedder) as database:
        store = StoreInProcess(database, embedder, documents)
        return asyncio.run(judge(Maker(documents, split, SEED).cases(count), store))


def read_results(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--directory", type=Path, action="append", default=[], help="a folder with people.ldif, besides"
    )
    parser.add_argument("--split", choices=("held-out", "development"), default="held-out", help="(%(default)s)")
    parser.add_argument("--count", type=int, default=150, help="mails of each class (%(default)s)")
    parser.add_argument("--backend", choices=("minilm", "hash"), default="minilm", help="the model (%(default)s)")
    parser.add_argument("--cache", type=Path, default=Path(".cache/eval-vectors.sqlite"), help="vectors (%(default)s)")
    parser.add_argument("--results", type=Path, default=HERE / "results", help="where results go (%(default)s)")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="show so many wrong mails of each class")
    options = parser.parse_args(arguments)

    logger.setLevel("WARNING")
    embedder = CachedEmbedder(make_embedder(EmbeddingSettings(backend=options.backend)), options.cache)
    sources = {"company": company(embedder.model.chunk_chars)}
    sources |= {
        folder.name: company(embedder.model.chunk_chars, folder / "people.ldif") for folder in options.directory
    }
    path = options.results / ("mail.json" if options.split == "held-out" else "mail-development.json")
    before = read_results(path)
    collections: dict[str, Table] = dict(before.get("collections", {}))
    for name, documents in sources.items():
        judged = measure(documents, embedder, options.split, options.count)
        table = tabulate(judged)
        last = figures([collections[name]]) if name in collections else {}
        print(f"## {name}, {options.split}\n\n{as_markdown(table, last)}\n", flush=True)
        show(judged, options.show)
        collections[name] = table
    classes = figures(collections.values())
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"classes": classes, "collections": collections, "seed": SEED}, indent=2) + "\n"
    path.write_text(text, encoding="utf-8")
    failures = beyond_floors(classes, read_results(HERE / "mail_floors.json"))
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


def show(judged: Iterable[Judged], at_most: int) -> None:
    """Some mails of each class that got the wrong label, on stderr."""
    shown: Counter[str] = Counter()
    for one in judged:
        is_wrong = (one.case.kind == "impersonation") != (one.label == "phishing")
        if is_wrong and shown[one.case.name] < at_most:
            shown[one.case.name] += 1
            print(f"--- {one.case.name}: {one.label} {one.codes}\n{one.case.eml.decode()}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
