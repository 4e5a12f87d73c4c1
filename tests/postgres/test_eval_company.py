"""Retrieval on the example company: what `make eval` measures there stays above its floors."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval.measure import Store
from eval.run import COMPANY, HERE, below_floors, load_any, means, read_figures
from eval.vectors import CachedEmbedder
from knowledge.db.connection import Database
from knowledge.db.migrate import migrate
from knowledge.embedding.minilm import MiniLMEmbedder


@pytest.mark.timeout(240)
def test_the_company_is_searched_as_well_as_ever(bare_database_url: str, tmp_path: Path) -> None:
    embedder = CachedEmbedder(MiniLMEmbedder(threads=2), tmp_path / "vectors.sqlite")
    migrate(bare_database_url, embedder.model)
    database = Database(lambda: bare_database_url)
    collection = load_any(COMPANY, embedder.model.chunk_chars)
    figures = {collection.name: means(Store(database, embedder, collection).measure())}
    database.close()
    assert below_floors(figures, read_figures(HERE / "floors.json")) == []
    assert figures["company"]["hybrid"]["nDCG@10"] > figures["company"]["dense"]["nDCG@10"]


def test_a_figure_below_its_floor_is_named() -> None:
    figures = {"company": {"hybrid": {"hit@1": 0.5}}}
    floors = {"company": {"hybrid": {"hit@1": 0.6, "hit@5": 0.9}}, "another": {"hybrid": {"hit@1": 1.0}}}
    assert below_floors(figures, floors) == ["company, hybrid: hit@1 is 0.500, below 0.6"]
