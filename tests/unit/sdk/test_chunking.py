"""Chunks: what they promise for every text, and where they cut the texts that people write."""

from __future__ import annotations

import time
import unicodedata
from itertools import pairwise

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from spot_sdk.chunking import chunk_markdown, chunk_spans, chunk_text

PIECES = [
    *("a", "word ", "two words. ", "Dr. Who ", "e.g. this", "\n", "\n\n", "\r\n", "   ", "\t", "\u00a0", "x" * 25),
    *("# H\n", "## Deep *title*\n\n", "Title\n=====\n", "```\n", "~~~py\n", "- item\n", "1. first\n", "    code()\n"),
    *("| a | b |\n", "|---|---|\n", "a\tb\tc\n", "é\u0301", "\u0301", "👩‍💻", "🇩🇪🇫", "\r", "क्षि", "。", "漢字。", "각"),
]
texts = st.one_of(
    st.text(max_size=200),
    st.lists(st.sampled_from(PIECES), max_size=60).map("".join),
    st.lists(st.sampled_from(PIECES), max_size=6).map("".join).map(lambda text: text * 20),
)
sizes = st.one_of(st.integers(1, 12), st.integers(13, 200)).flatmap(
    lambda max_chars: st.tuples(st.just(max_chars), st.integers(0, max_chars - 1))
)


def true_borders(text: str) -> set[int]:
    return {0} | {match.end() for match in regex.finditer(r"\X", text)}


def assert_covers(text: str, spans: list[tuple[int, int]], max_chars: int, overlap: int) -> None:
    assert (spans[0][0], spans[-1][1]) == (0, len(text))
    for (start, end), (next_start, next_end) in pairwise(spans):
        assert start < next_start <= end < next_end
        assert end - next_start <= overlap
    borders = true_borders(text)
    for start, end in spans:
        assert start in borders
        assert end in borders
        if end - start > max_chars:
            assert len(regex.findall(r"\X", text[start:end])) <= 1 or is_odd_cluster(text[start:end])


def is_odd_cluster(text: str) -> bool:
    """Sequences that we keep together and the standard may not: a joiner or a virama in a strange place, marks that
    take up room, signs that join only letters of their scripts, and characters that are newer than this Python."""
    return any(c in "\u200d\u094d\u1cf5\u1cf6\U00011a3a" or unicodedata.category(c) in ("Mc", "Cn") for c in text)


@given(texts, sizes)
@settings(max_examples=150)
def test_spans_cover_the_text_once_apart_from_the_overlap(text: str, size: tuple[int, int]):
    spans = chunk_spans(text, *size)
    if not text:
        assert spans == []
        return
    assert_covers(text, spans, *size)
    rejoined, done = "", 0
    for start, end in spans:
        rejoined += text[start:end][done - start :]
        done = end
    assert rejoined == text


@given(texts, sizes)
@settings(max_examples=150)
def test_chunks_are_the_spans_that_add_more_than_blanks(text: str, size: tuple[int, int]):
    chunks = iter(chunk_text(text, *size))
    done = 0
    for start, end in chunk_spans(text, *size):
        if text[done:end].strip():
            assert next(chunks) == text[start:end]
        done = end
    assert next(chunks, None) is None


@given(texts, sizes)
@settings(max_examples=150)
def test_markdown_chunks_miss_nothing_but_blanks(text: str, size: tuple[int, int]):
    done = 0
    for chunk in chunk_markdown(text, *size):
        assert chunk.text == text[chunk.start : chunk.end]
        assert not text[done : chunk.start].strip()
        assert chunk.end > done
        done = chunk.end
    assert not text[done:].strip()


@given(st.text(st.sampled_from("ab .\n"), min_size=1, max_size=400), st.integers(8, 60))
def test_no_chunk_adds_only_a_crumb(text: str, max_chars: int):
    """Two characters at least, even where a greedy cut would leave one."""
    text = text.strip() or "a"
    spans = chunk_spans(text, max_chars, max_chars // 4)
    if len(spans) > 1:
        assert spans[-1][1] - spans[-2][1] >= 2


@pytest.mark.parametrize(
    ("max_chars", "overlap"), [(0, 0), (-1, 0), (10, 10), (10, 11), (10, -1)], ids=lambda size: str(size)
)
@pytest.mark.parametrize("cut", [chunk_text, chunk_spans, chunk_markdown])
def test_sizes_that_cannot_work_are_refused(cut, max_chars: int, overlap: int):
    with pytest.raises(ValueError, match=r"max_chars|overlap"):
        cut("text", max_chars, overlap)


def test_blank_text_has_no_chunks_and_short_text_is_its_own():
    assert chunk_text("") == chunk_text(" \n\t ") == chunk_text("\n" * 10_000) == []
    assert chunk_text(" short\n") == [" short\n"]
    assert chunk_text("a" * 2000) == ["a" * 2000]


def test_blanks_longer_than_a_chunk_make_no_chunk_of_their_own():
    chunks = chunk_text("before." + "\n" * 5_000 + "after.", 100, 20)
    assert [chunk.strip() for chunk in chunks] == ["before.", "after."]


def test_overlap_repeats_the_end_of_the_chunk_before():
    text = "".join(f"Sentence number {n} says something. " for n in range(100))
    chunks = chunk_text(text, 500, 100)
    for before, after in pairwise(chunks):
        shared = max(n for n in range(101) if before.endswith(after[:n]))
        assert 30 <= shared <= 100
        assert after.startswith("Sentence")
    assert [len(chunk) for chunk in chunk_text("x" * 1300, 500, 100)] == [500, 500, 500]


def cut_in_two(first: str, second: str, max_chars: int = 100) -> None:
    assert chunk_text(first + second, max_chars, 0) == [first, second]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        # the better border wins over the later one
        (
            "Alpha is here. Beta is\nthere.\n\nGamma goes on.\n\n",
            "## Heading\n\nDelta. Epsilon.\n\nZeta follows, and so on until the end.",
        ),
        (
            "One paragraph ends here, after two lines.\nIt does.\n\n",
            "Another begins. It has sentences. They go on until here.",
        ),
        (
            "A list:\n- one item that is long enough\n- two items that are\n",
            "- three items. They have sentences too, and more of them.",
        ),
        (
            "This sentence is of some length, with commas, and it ends. ",
            "This one begins\nin another way and reaches the end of it.",
        ),
        (
            "Call Dr. Miller, e.g. about the budget of next year, now. ",
            "The next sentence is about Mr. Smith and so on and so on.",
        ),
        (
            "no punctuation here just words in a line that is long enough\n",
            "and another line of such words that has no punctuation",
        ),
        (
            "nothing but words one after another without any punctuation at all, and ",
            "uninterruptedly on and on until the end",
        ),
        ("漢字の文章がここにあります。" * 6, "漢字の文章がここにあります。" * 2),
    ],
    ids=["heading", "paragraph", "item", "sentence", "abbreviation", "line", "word", "cjk"],
)
def test_the_best_border_is_taken(first: str, second: str):
    cut_in_two(first, second)


def test_a_heading_is_never_parted_from_its_text():
    chunks = chunk_text("Intro words. " * 6 + "\n\n## Heading\n\n" + "Body words here. " * 6, 100, 0)
    assert not any(chunk.rstrip().endswith("Heading") for chunk in chunks)
    heading = "# A heading that takes up more than the first half of a chunk"
    assert len(chunk_text(f"{heading}\n\n" + "word " * 40, 100, 0)[0]) > 90


def test_a_blank_line_in_code_is_no_border_of_paragraphs():
    text = "A paragraph that is longer than half of what a chunk may take up.\n\n"
    cut_in_two(text, "```\nfirst = 1\n\n- second\n\nthird = 3\n\nfourth = 4\n```\n")


@pytest.mark.parametrize(
    "row",
    [
        "| Alice Example | Head. Of finance | +00 555 0100 |",
        "Alice Example | Head. Of finance | +00 555 0100",
        "Alice Example\tHead. Of finance\t+00 555 0100",
        "    raise ValueError('no. such thing') from None",
    ],
    ids=["bars", "inner bars", "tabs", "indented code"],
)
@pytest.mark.parametrize("overlap", [0, 30])
def test_a_row_or_line_of_code_that_fits_is_kept_whole(row: str, overlap: int):
    text = "Some words before.\n\n" + f"{row}\n" * 10 + "\nSome words. After it."
    chunks = chunk_text(text, 120, overlap)
    lines = [line for chunk in chunks for line in chunk.splitlines()]
    assert {line for line in lines if "words" not in line and line.strip()} == {row}


def test_a_line_of_fenced_code_is_kept_whole_and_its_comments_are_no_headings():
    line = "value = compute(value. here, and there) # a. remark"
    text = "Before the code.\n\n```python\n# not a heading\n" + f"{line}\n" * 8 + "```\n\nAfter it."
    chunks = chunk_text(text, 120, 0)
    assert all(line in chunk for chunk in chunks[1:-1])
    assert sum(chunk.count(line) for chunk in chunks) == 8


def test_a_row_that_just_fits_is_kept_whole_whatever_ends_its_line():
    row = "| Alice. Example | Finance. And more |"
    for line_end in ("\n", "\r\n"):
        chunks = chunk_text(f"{row}{line_end}" * 3, len(row), 0)
        assert [chunk.strip() for chunk in chunks] == [row] * 3


def test_a_row_longer_than_a_chunk_is_cut_like_any_text():
    chunks = chunk_text("| " + "cell words " * 30 + "|", 100, 0)
    assert all(len(chunk) <= 100 for chunk in chunks)
    assert all(chunk.endswith(" ") for chunk in chunks[:-1])


def test_a_row_that_would_not_fit_beside_the_overlap_goes_without_it():
    row = "| " + "x. y " * 18 + "|"
    chunks = chunk_text(f"Words. Before the table come some words.\n\n{row}\n{row}\n", 100, 40)
    assert [row in chunk for chunk in chunks] == [False, True, True]


def test_a_cluster_longer_than_a_chunk_is_the_only_thing_that_may_be_longer():
    family = "👩‍👩‍👧‍👦"
    assert chunk_text(f"{family}ab{family}", 3, 0) == [family, "ab", family]


@pytest.mark.parametrize(
    "text",
    [
        "a" * 1_000_000,
        "\n" * 1_000_000,
        "a" + "\u0301" * 1_000_000,
        " " * 1_000_000,
        ". " * 500_000,
        "a\n" * 500_000,
        "🇩" * 1_000_000,
        "|a|\n" * 250_000,
        "# a\n" * 250_000,
        "```\n" * 250_000,
        "=" * 1_000_000,
        "." + ")" * 1_000_000,
        ("\n" + " " * 999) * 1_000,
        "# " + "[](" * 300_000,
    ],
    ids=lambda text: ascii(text[:4]),
)
@pytest.mark.parametrize("cut", [chunk_spans, chunk_markdown])
def test_a_million_characters_of_anything_take_linear_time(cut, text: str):
    """Most take 0.1 to 0.5 s of CPU; a quadratic step would take minutes."""
    started = time.process_time()
    cut(text)
    assert time.process_time() - started < 10


def test_overlap_close_to_the_size_still_ends():
    assert len(chunk_spans("word " * 200, 10, 9)) < 1_000
