from __future__ import annotations

import hashlib
import math
import struct
import subprocess
import sys
from operator import mul
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.embedding.hashing import DIMENSIONS, HashEmbedder, hash_features
from spot_sdk.errors import EmbeddingFailed

embedder = HashEmbedder()

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)


def similarity(one: str, other: str) -> float:
    return math.fsum(map(mul, embedder.embed(one), embedder.embed(other)))


def test_the_construction_is_pinned_feature_by_feature() -> None:
    """Change this only together with the version of the model: stored vectors were made like this."""
    buckets = hash_features("Aé aé")
    assert {index: value for index, value in enumerate(buckets) if value} == {
        65: -math.sqrt(2),
        80: -math.sqrt(2) / 2,
        119: math.sqrt(2) / 2,
    }


def test_a_vector_is_pinned() -> None:
    vector = embedder.embed("Who approves wire transfers above 10 000 €?")
    assert vector[19:24] == pytest.approx([-0.127, 0.127, 0.254, 0, -0.127], abs=1e-4)
    assert hashlib.sha256(struct.pack("<384f", *vector)).hexdigest() == (
        "711673e6a4c2c0d14011ed5e189cc4e0653c7203c156e1dd2ecbc422a7bfb05e"
    )


def test_another_process_with_another_hash_seed_makes_the_same_vector(tmp_path: Path) -> None:
    program = "from knowledge.embedding.hashing import *; print(HashEmbedder().embed('wire transfers'))"
    seeds = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, cwd=tmp_path, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert seeds == {f"{embedder.embed('wire transfers')}\n".encode()}


def test_words_of_one_stem_are_near_and_strangers_are_not() -> None:
    assert similarity("photosynthetic plants", "photosynthesis in plants") > 0.4
    assert similarity("reset your password", "How to reset a forgotten password") > 0.4
    assert abs(similarity("automobile", "car")) < 0.1
    assert abs(similarity("password reset", "annual leave carries over")) < 0.1


def test_case_and_compatibility_forms_do_not_matter() -> None:
    assert similarity("ﬁnance ＳＴＲＡＳＳＥ", "FINANCE straße") == pytest.approx(1, abs=1e-6)


@given(texts.filter(str.strip))
def test_every_text_has_a_unit_vector(text: str) -> None:
    vector = embedder.embed(text)
    assert len(vector) == DIMENSIONS
    assert math.hypot(*vector) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_blanks_have_no_direction(text: str) -> None:
    with pytest.raises(EmbeddingFailed, match="zero in every dimension"):
        embedder.embed(text)


def test_one_bad_text_costs_only_itself() -> None:
    first, blank, surrogate, last = embedder.embed_batch(["one", " ", "\ud800", "two"])
    assert isinstance(blank, EmbeddingFailed)
    assert isinstance(surrogate, EmbeddingFailed)
    assert [first, last] == [embedder.embed("one"), embedder.embed("two")]


def test_no_text_is_over_the_window() -> None:
    assert not embedder.over_window("word " * 200_000)
