from __future__ import annotations

import base64
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.embedding.estimate import estimate_pieces, estimated_tokens, estimated_windows
from knowledge.embedding.minilm import MiniLMEmbedder

PROSE = "The chief financial officer approves every transfer above the limit, and calls back to a known number. " * 8
RUSSIAN = "Финансовый директор утверждает каждый перевод свыше установленного лимита. " * 8


@pytest.mark.parametrize(
    "text",
    [
        PROSE,
        RUSSIAN,
        "従業員は毎月二日間の有給休暇を取得できます。送金には最高財務責任者の承認が必要です。" * 8,
        "Der Finanzvorstand genehmigt jede Überweisung oberhalb der festgelegten Höchstgrenze. " * 8,
        "|---|---|---|\n| a | 1 | x |\n" * 30,
        "def window(costs: list[int], *, budget=4) -> dict[str, int]:\n    return {'a': costs[0] ** 2}\n" * 8,
        base64.b64encode(random.Random(1).randbytes(900)).decode(),
        "2026-10-10T09:00:00Z 192.168.001.017 +49 (0)89 1234-5678 " * 8,
    ],
)
def test_the_estimate_is_on_the_safe_side_of_a_real_tokenizer(minilm: MiniLMEmbedder, text: str) -> None:
    assert estimated_tokens(text) >= len(minilm._load().tokenizer.encode(text).ids) - 2


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("transfer", 3), ("q" * 60, 60), ("a1b2", 4), ("é", 1), ("語", 2), ("😀", 3), ("a" + " " * 9, 4)],
)
def test_what_each_kind_of_text_counts(text: str, tokens: int) -> None:
    assert estimated_tokens(text) == tokens


def test_the_estimate_of_prose_is_no_more_than_twice_the_truth(minilm: MiniLMEmbedder) -> None:
    assert estimated_tokens(PROSE) < 2 * len(minilm._load().tokenizer.encode(PROSE).ids)


@given(st.text(max_size=300))
def test_the_pieces_are_the_whole_text(text: str) -> None:
    ends = [piece.end for piece in estimate_pieces(text)]
    assert ends == sorted(set(ends))
    assert (ends or [0])[-1] == len(text)
    assert all(piece.tokens >= 0 for piece in estimate_pieces(text))


@given(st.text(max_size=300), st.integers(64, 120))
def test_windows_hold_the_whole_text_and_fit(text: str, max_tokens: int) -> None:
    windows = estimated_windows(text, max_tokens)
    assert text.startswith(windows[0])
    assert text.endswith(windows[-1])
    assert len("".join(windows)) >= len(text)
    assert all(estimated_tokens(window) <= max_tokens - 2 for window in windows)


def test_a_word_is_not_cut_in_two() -> None:
    words = set(PROSE.split())
    assert all(set(window.split()) <= words for window in estimated_windows(PROSE, 64))
