"""BM25's choice of words and candidates, without a database."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Set

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.search import bm25

DOCUMENTS = 10_000

words = st.lists(st.integers(1, DOCUMENTS), min_size=1, max_size=6).map(
    lambda counts: bm25.weigh(
        bm25.Statistics(
            documents=DOCUMENTS,
            mean_length=80,
            holding={f"w{n}": count for n, count in enumerate(counts)},
            asked={f"w{n}": 1 for n in range(len(counts))},
            matching=DOCUMENTS,
        )
    )
)


def holds(tsquery: str, present: Set[str]) -> bool:
    """A tsquery of ours over a document's words; its operators bind as Python's do."""
    text = re.sub(r"'(\w+)'", lambda word: str(word[1] in present), tsquery)
    return eval(text.replace("&", " and ").replace("|", " or "))


@given(words, st.integers(1, 3 * DOCUMENTS))
def test_candidates_are_the_heaviest_and_about_as_many_as_wanted(found, wanted):
    condition = bm25.candidates(found, DOCUMENTS, wanted)
    chosen, others, expected = [], [], 0.0
    for size in range(len(found) + 1):
        for present in itertools.combinations(found, size):
            weight = sum(word.weight for word in present)
            share = math.prod(word.share if word in present else 1 - word.share for word in found)
            if holds(condition, {word.text for word in present}):
                chosen.append(weight)
                expected += share * DOCUMENTS
            else:
                others.append(weight)
    assert max(others) <= min(chosen) + 1e-6, "nothing left out weighs more than something taken"
    full = sum(word.weight for word in found)
    assert expected <= wanted * (1 + 1e-6) + 1e-6 or min(chosen) >= full - 1e-6, "all words together are always taken"


def test_few_documents_are_all_candidates():
    found = [bm25.Word("a", 0.01, 4.0), bm25.Word("b", 0.02, 3.0)]
    assert bm25.candidates(found, DOCUMENTS, 2_000) == "'a' | 'b'"
    assert bm25.candidates(found, DOCUMENTS, 250) == "'a'"
    assert bm25.candidates(found, DOCUMENTS, 50) == "'a' & ('b')"


@given(st.integers(0, 10**7), st.integers(0, 10**7))
def test_idf_is_above_zero_and_rare_words_tell_more(holding, documents):
    assert bm25.idf(holding, documents) > 0
    assert bm25.idf(holding, documents) >= bm25.idf(holding + 1, documents)


def test_a_long_question_asks_with_its_most_telling_words():
    counts = {f"w{n}": n + 1 for n in range(100)}
    statistics = bm25.Statistics(1000, 80, counts, dict.fromkeys(counts, 1) | {"w99": 50}, 1000)
    found = bm25.weigh(statistics)
    assert len(found) == bm25.MAX_WORDS
    assert found[0].text == "w0"
    assert found[-1].text == "w99", "said fifty times"


@pytest.mark.parametrize(("lexeme", "quoted"), [("it's", "'it''s'"), ("a\\b", "'a\\\\b'"), ("& | !", "'& | !'")])
def test_lexemes_are_quoted(lexeme, quoted):
    assert bm25.quoted(lexeme) == quoted


def test_parameters_carry_all_that_comes_from_outside():
    score = bm25.score_expression([bm25.Word("');DROP", 0.1, 2.5)])
    assert "DROP" not in score.expression
    assert score.parameters == {"weight_0": 2.5, "word_0": "''');DROP'"}
    assert bm25.score_expression([]) == ("0", {})
