"""Outlines of Markdown texts, and chunks that know under which headings they stand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spot_sdk.chunking import chunk_markdown, chunk_text
from spot_sdk.markdown import outline

BODY = "Words of this section, and some more of them. "


def headings(text: str) -> list[tuple[int, str]]:
    return [(heading.level, heading.title) for heading in outline(text).headings]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# One\n## Two\n###### Six\n####### seven", [(1, "One"), (2, "Two"), (6, "Six")]),
        ("#hashtag\n\\# no\n    # code\n   # yes", [(1, "yes")]),
        ("# Closed ##\n## C#\n# #\n#", [(1, "Closed"), (2, "C#"), (1, ""), (1, "")]),
        ("Title\n=====\n\nSub\n---\n", [(1, "Title"), (2, "Sub")]),
        ("# A\nSub\n---\nText", [(1, "A"), (2, "Sub")]),
        ("Title\r\n=====\r\n\r\n## Two\r\n", [(1, "Title"), (2, "Two")]),
        ("a paragraph\nof two lines\n---\n", []),
        ("text\n\n---\n\n- item\n---\n> quote\n---\n| a |\n---\n---\n---\n", []),
        ("| a | b |\n--- | ---\n", []),
        ("---\n", []),
        ("## A [link](http://x/y) and **bold** `code` ![image](i.png)", [(2, "A link and bold code image")]),
        ("##   much   space\t\n", [(2, "much space")]),
        ("# " + "x" * 500, [(1, "x" * 199 + "…")]),
    ],
)
def test_headings(text: str, expected: list[tuple[int, str]]):
    assert headings(text) == expected


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("```\n# no\n```\n# yes\n", ["```\n# no\n```\n"]),
        ("~~~ py\n# no\n```\n# no\n~~~~\n# yes", ["~~~ py\n# no\n```\n# no\n~~~~\n"]),
        ("````\n```\n# no\n````\n# yes", ["````\n```\n# no\n````\n"]),
        ("- item\n      ```\n      # no\n      ```\n# yes", ["      ```\n      # no\n      ```\n"]),
        ("``` not `a` fence\n# yes", []),
        ("```\n``` no end\n# no", ["```\n``` no end\n# no"]),
        ("```\n# never closed", ["```\n# never closed"]),
        ("```\nTitle\n=====\n```\n# yes", ["```\nTitle\n=====\n```\n"]),
    ],
)
def test_fenced_code_holds_no_heading(text: str, code: list[str]):
    assert [text[region.start : region.end] for region in outline(text).code] == code
    assert headings(text) == ([(1, "yes")] if text.endswith(("# yes", "# yes\n")) else [])


def test_where_headings_are():
    text = "Intro\n\nTitle\n=====\n## Two ##\nText"
    assert [text[heading.start : heading.end] for heading in outline(text).headings] == [
        "Title\n=====\n",
        "## Two ##\n",
    ]


@given(
    st.lists(st.sampled_from(["# a\n", "a\n", "===\n", "```\n", "~~~\n", "\n", "---\n", " "]), max_size=30).map("".join)
)
def test_an_outline_is_in_order_and_headings_are_outside_code(text: str):
    found = outline(text)
    places = [(entry.start, entry.end) for entry in found.headings]
    assert places == sorted(places)
    for start, end in places:
        assert 0 <= start < end <= len(text)
        assert not any(region.start < end and start < region.end for region in found.code)


def paths(text: str, max_chars: int = 200, overlap: int = 40) -> list[tuple[tuple[str, ...], str]]:
    return [(chunk.heading_path, chunk.text) for chunk in chunk_markdown(text, max_chars, overlap)]


def test_each_chunk_says_under_which_headings_it_stands():
    text = f"# Handbook\n\n{BODY * 3}\n\n## Leave\n\n{BODY * 3}\n\n### Parents\n\n{BODY * 6}\n\n## Travel\n\n{BODY * 3}"
    found = paths(text)
    assert [path for path, _ in found] == [
        ("Handbook",),
        ("Handbook", "Leave"),
        ("Handbook", "Leave", "Parents"),
        ("Handbook", "Leave", "Parents"),
        ("Handbook", "Travel"),
    ]
    assert found[1][1].startswith("## Leave")
    assert found[4][1].startswith("## Travel"), "nothing of the section before is repeated"


def test_the_overlap_stays_within_its_section():
    [_, first, second, *_] = chunk_markdown(f"# A\n\n{BODY * 4}\n\n# B\n\n{BODY * 6}", 200, 40)
    assert first.text.startswith("# B")
    assert (second.heading_path, second.start < first.end) == (("B",), True)


def test_short_sections_share_a_chunk_under_what_they_have_in_common():
    text = "# Handbook\n## Leave\n### Parents\nSix months.\n### Carers\nTen days.\n## Travel\nBy train.\n"
    assert [path for path, _ in paths(text)] == [("Handbook",)]
    section = f"### Parents\nSix months.\n### Carers\nTen days.\n\n{BODY * 2}\n"
    found = paths(f"# Handbook\n\n{BODY * 4}\n## Leave\n{section}## Travel\n{BODY * 4}")
    assert ("Handbook", "Leave") in [path for path, _ in found]


def test_levels_may_be_left_out_and_empty_headings_end_sections():
    text = f"# One\n{BODY * 4}\n### Three\n{BODY * 4}\n## Two\n{BODY * 4}\n##\n{BODY * 4}"
    assert [path for path, _ in paths(text)] == [("One",), ("One", "Three"), ("One", "Two"), ("One",)]


def test_text_before_the_first_heading_stands_under_none():
    assert [path for path, _ in paths(f"{BODY * 4}\n\n# One\n\n{BODY * 4}")] == [(), ("One",)]
    assert [path for path, _ in paths("\n\n# One\nText")] == [("One",)]


def test_a_heading_of_higher_rank_is_the_better_border():
    text = f"# One\n{BODY}\n## Early\n{BODY}\n# Two\nShort.\n## Below\n{BODY * 3}"
    assert [chunk.split("\n")[0] for _, chunk in paths(text)] == ["# One", "# Two"]


def test_blank_text_has_no_chunks():
    assert chunk_markdown("") == chunk_markdown(" \n\n") == []


@given(st.lists(st.sampled_from(["plain words ", "more of them. ", "\n", "\n\n"]), max_size=60).map("".join))
def test_without_headings_it_is_chunk_text(text: str):
    assert [chunk.text for chunk in chunk_markdown(text, 60, 10)] == chunk_text(text, 60, 10)
