"""A small part of `make eval-mail`: the rules find impersonations in the example company, and nothing in other mail."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from eval.mail import as_markdown, beyond_floors, figures, judge, read_results, tabulate
from eval.mail_cases import Maker
from eval.mail_directories import company
from eval.run import COMPANY, HERE
from eval.store_client import StoreInProcess
from eval.vectors import CachedEmbedder
from examples.analyzers.rules.analysis import RulesAnalyzer
from examples.analyzers.rules.settings import rules
from knowledge.db.connection import Database
from knowledge.db.migrate import migrate
from knowledge.embedding.minilm import MiniLMEmbedder
from spot_sdk.documents import RetrievalLimits
from spot_sdk.email import Email

SEED = 7
EACH = 5
TRIAGE = RetrievalLimits(max_top_k=3, min_score_floor=0.5)  # the stage of infra/spot.yaml that allows least


@pytest.mark.timeout(300)
def test_the_rules_tell_friend_from_foe(bare_database_url: str, tmp_path: Path) -> None:
    embedder = CachedEmbedder(MiniLMEmbedder(threads=2), tmp_path / "vectors.sqlite")
    migrate(bare_database_url, embedder.model)
    database = Database(lambda: bare_database_url)
    documents = company(embedder.model.chunk_chars)
    store = StoreInProcess(database, embedder, documents)

    classes = figures([tabulate(asyncio.run(judge(Maker(documents, "held-out", SEED).cases(EACH), store)))])
    assert beyond_floors(classes, read_results(HERE / "mail_floors.json")) == []

    labels = json.loads((COMPANY / "mails" / "LABELS.json").read_text(encoding="utf-8"))
    for limits in (None, TRIAGE):
        for name, told in labels.items():
            email = Email.from_bytes((COMPANY / "mails" / name).read_bytes(), retrieval_limits=limits)
            verdict = asyncio.run(RulesAnalyzer(rules({})).judge(email, store.for_analysis(email)))
            assert verdict.label == {"genuine": "clean", "phishing": "phishing"}[told["label"]], (name, limits)
            assert bool(verdict.findings) == (told["label"] == "phishing"), "genuine mails raise nothing"
            assert all(finding.documents for finding in verdict.findings), "each finding cites what shows it"
    database.close()


def test_figures_of_several_directories_are_pooled_and_held_to_floors() -> None:
    table = {
        "homoglyphs": {"kind": "impersonation", "phishing": 9, "suspicious": 1, "clean": 0},
        "strangers": {"kind": "stranger", "phishing": 1, "suspicious": 0, "clean": 9},
    }
    classes = figures([table, table])
    assert classes["homoglyphs"] == {"n": 20, "recall": 0.9, "false_alarm": None, "precision": 0.9}
    assert classes["strangers"] == {"n": 20, "recall": None, "false_alarm": 0.1, "precision": None}
    floors = {"homoglyphs": {"recall": 0.97}, "strangers": {"false_alarm": 0.01}, "nobody": {"recall": 1.0}}
    assert beyond_floors(classes, floors) == [
        "homoglyphs: recall is 0.900, below 0.97",
        "strangers: false alarms are 0.100, above 0.01",
    ]
    assert "| homoglyphs | 9 | 1 | 0 | 0.900 (-0.050) |  |" in as_markdown(table, {"homoglyphs": {"recall": 0.95}})


def test_nobody_is_in_both_halves() -> None:
    documents = company(900)
    halves = [
        {Email.from_bytes(case.eml).headers.from_[0].display_name for case in Maker(documents, split, 1).cases(60)
         if case.name == "namesakes of employees"}
        for split in ("development", "held-out")
    ]  # fmt: skip
    assert halves[0]
    assert not halves[0] & halves[1]
