"""Borders of grapheme clusters, held against the ``regex`` package's \\X."""

from __future__ import annotations

import sys
import time
import unicodedata

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from spot_sdk.graphemes import is_border, next_border, previous_border

NASTY = (
    "a1 \t.é\u0301\u0308\u20e3\u200c\u200d\ufe0f\u200b\u00ad\r\n\u2028"  # marks, joiners, controls
    "👩💻❤👍🏽🇩🇪🇫\u2764\u00a9\u203c\U0001f3fb\U000e0067\U000e007f"  # pictographs, skin tones, flags, tags
    "\u1100\u1161\u11a8각가\u0600\u06dd\u0e33\u0903\u093e\u0915\u094d\u0937\u09cd\u0995\uff9e"  # Hangul, Indic
)

nasty_text = st.text(st.sampled_from(NASTY), max_size=30)


def clusters(text: str) -> list[str]:
    found: list[str] = []
    at = 0
    while at < len(text):
        end = next_border(text, at)
        found.append(text[at:end])
        at = end
    return found


def true_borders(text: str) -> set[int]:
    return {0} | {match.end() for match in regex.finditer(r"\X", text)}


@pytest.mark.parametrize(
    "expected",
    [
        ["a", "b"],
        ["e\u0301", "x"],
        ["\r\n", "\n", "\u0301"],
        ["👩‍💻", "👩🏽‍❤️‍💋‍👩🏻", "!"],
        ["🇩🇪", "🇫🇷", "🇺"],
        ["👍🏽", "1️⃣", "🏴󠁧󠁢󠁥󠁮󠁧󠁿"],
        ["각", "한", "가"],
        ["क्षि", "क", "नि"],
        ["\u0600a", "b"],
        ["กำ", "า"],
    ],
    ids=lambda expected: ascii("|".join(expected)),
)
def test_what_people_see_as_one_character(expected: list[str]):
    assert clusters("".join(expected)) == expected


@given(nasty_text)
def test_no_border_splits_a_cluster(text: str):
    truth = true_borders(text)
    assert {at for at in range(len(text) + 1) if is_border(text, at)} <= truth


@given(st.text(max_size=30))
def test_no_border_splits_a_cluster_of_any_text(text: str):
    assert {at for at in range(len(text) + 1) if is_border(text, at)} <= true_borders(text)


@given(st.lists(st.sampled_from([*"ab é1\n", "e\u0301", "\r\n", "👍🏽", "🇩🇪", "각", "क्ष", "कि", "❤️"])).map("".join))
def test_in_ordinary_text_every_border_is_found(text: str):
    assert {at for at in range(len(text) + 1) if is_border(text, at)} == true_borders(text)


@given(nasty_text, st.data())
def test_looking_forward_and_back_agrees_with_is_border(text: str, data: st.DataObject):
    borders = [at for at in range(len(text) + 1) if is_border(text, at)]
    since = data.draw(st.sampled_from(borders))
    at = data.draw(st.integers(since, len(text)))
    assert previous_border(text, at, since) == max(border for border in borders if border <= at)
    if since < len(text):
        assert next_border(text, since) == min(border for border in borders if border > since)


def test_every_character_of_unicode_beside_marks_joiners_and_letters():
    """Not a sample: what a property table lacks shows only at the one character it lacks."""
    for plane in range(0, sys.maxunicode + 1, 0x1000):
        characters = [chr(point) for point in range(plane, plane + 0x1000)]
        known = [c for c in characters if unicodedata.category(c) not in ("Co", "Cn")]
        text = "\n".join(f"a{c}\u0301{c}\u0915" for c in known)
        wrong = {at for at in range(len(text) + 1) if is_border(text, at)} - true_borders(text)
        assert not wrong, [ascii(text[at - 2 : at + 2]) for at in sorted(wrong)][:5]


@pytest.mark.parametrize("unit", ["\u0301", "a\u0301", "\u200d", "🇩", "\u094d"], ids=ascii)
def test_long_runs_take_linear_time(unit: str):
    text = "a" + unit * 300_000
    started = time.process_time()
    assert "".join(clusters(text)) == text
    assert previous_border(text, len(text) - 1, 0) <= len(text) - 1
    assert time.process_time() - started < 10
