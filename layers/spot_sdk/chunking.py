"""Cutting long text into chunks that a model can read and a person would have cut in the same places.

A chunk ends, in this order of preference, before a heading, between paragraphs, before a list item or a block of code,
after a sentence, after a line, after a word; a grapheme cluster is never split, nor is a table row, a line of code or a
heading that would fit into a chunk. The preferred border is looked for in the second half of what a chunk may take, so
chunks are neither longer than allowed nor needlessly short.

All functions take time linear in the text for a given ``max_chars`` and ``overlap``, whatever the text.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter

from spot_sdk.graphemes import is_border, next_border, previous_border
from spot_sdk.markdown import Heading, outline

_CLOSERS = r"""["'”’»)\]」』）]"""
_PARAGRAPH = re.compile(r"\n(?:[^\S\n]*+\n)++")
_ITEM = re.compile(r"^[ \t]*+(?:[-*+•‣]|\d{1,9}[.)])[ \t]++\S", re.MULTILINE)
_SENTENCE = re.compile(rf"(?<=[.!?…]){_CLOSERS}*+(?:[^\S\n]*+\n|[^\S\n]++)|(?<=[。！？｡]){_CLOSERS}*+(?![。！？｡])")
_WORD = re.compile(r"[^\S\u00a0\u2007\u202f](?=\S)")  # no-break spaces are there to be kept
_KEPT_WHOLE = re.compile(
    r"""[ \t]*+\|                                  # a table row with its leading bar,
      | [^\n]*?\S[ ]\|[ ]                          # or without it,
      | [^\n\t]*+(?<=\S)\t++\S                     # or with tabs for bars,
      | (?:[ ]{4}|\t)(?!\s*(?:[-*+]|\d+[.)])\s)    # or code by indentation
    """,
    re.VERBOSE,
)
_ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:\w|\w\.\w|Mr|Mrs|Ms|Dr|Prof|Sr|Jr|St|vs|cf|No|Nr|Fig|approx|ca|bzw|vgl)\.$", re.IGNORECASE
)
_LONGEST_ABBREVIATION = 8
_LONGEST_MARKER = 16
_BLANK_LINES = re.compile(r"(?:[^\S\n]*+\n)*+")
_NEWLINE = re.compile(r"\n")


@dataclass(frozen=True, slots=True)
class MarkdownChunk:
    """A chunk of a Markdown text, and where it stands.

    ``heading_path`` are the titles, outermost first, of the sections that hold everything this chunk adds. ``start``
    and ``end`` are its place in the text.
    """

    text: str
    heading_path: tuple[str, ...]
    start: int
    end: int


def chunk_text(text: str, max_chars: int = 2000, overlap: int = 200) -> list[str]:
    """Cut ``text`` into chunks of at most ``max_chars`` characters, each repeating up to ``overlap`` of the one before.

    The chunks are exact slices (``chunk_spans`` says which), without those that would add nothing but blanks: blank
    text has no chunks. Only a single grapheme cluster longer than ``max_chars`` makes a longer chunk.

    Raises ValueError unless ``0 <= overlap < max_chars``.
    """
    return [text[start:end] for start, end, _ in _visible(text, chunk_spans(text, max_chars, overlap))]


def chunk_spans(text: str, max_chars: int = 2000, overlap: int = 200) -> list[tuple[int, int]]:
    """Where ``chunk_text`` cuts, as ``(start, end)`` pairs, those of blank chunks included.

    The spans cover the text: the first starts at 0, each next one starts after the start and at or before the end of
    the one before, and the last ends at ``len(text)``. Empty text has none.
    """
    return list(_Cutter(text, max_chars, overlap).spans())


def chunk_markdown(text: str, max_chars: int = 2000, overlap: int = 200) -> list[MarkdownChunk]:
    """Cut a Markdown text as ``chunk_text`` does, and say of each chunk under which headings it stands.

    A chunk repeats nothing of the section before its own, so what it says stands under its headings. Short sections
    that follow one another share a chunk, under the headings that they have in common. Front matter is text like any
    other: take it off first.
    """
    cutter = _Cutter(text, max_chars, overlap, overlap_over_headings=False)
    paths = _HeadingPaths(text, cutter.headings)
    return [
        MarkdownChunk(text[start:end], paths.common(fresh, end), start, end)
        for start, end, fresh in _visible(text, list(cutter.spans()))
    ]


def _visible(text: str, spans: list[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """``(start, end, fresh)`` of the spans that add more than blanks; what they add begins at ``fresh``."""
    fresh = 0
    for start, end in spans:
        if not text[fresh:end].isspace():
            yield start, end, fresh
        fresh = end


class _HeadingPaths:
    """Which headings hold for a stretch of text."""

    def __init__(self, text: str, headings: list[Heading]) -> None:
        self._text = text
        self._starts = [0]
        self._paths: list[tuple[str, ...]] = [()]
        open_sections: list[Heading] = []
        for heading in headings:
            while open_sections and open_sections[-1].level >= heading.level:
                open_sections.pop()
            open_sections.append(heading)
            self._starts.append(heading.start)
            self._paths.append(tuple(section.title for section in open_sections if section.title))

    def common(self, start: int, end: int) -> tuple[str, ...]:
        """The titles that all of ``text[start:end]`` stands under, its blank parts apart."""
        first = bisect_right(self._starts, start) - 1
        last = bisect_left(self._starts, end)
        borders = [start, *self._starts[first + 1 : last], end]
        paths = [
            path
            for path, (begin, stop) in zip(self._paths[first:last], pairwise(borders), strict=True)
            if not self._text[begin:stop].isspace()
        ]
        return _common_prefix(paths)


def _common_prefix(paths: list[tuple[str, ...]]) -> tuple[str, ...]:
    first, last = min(paths), max(paths)  # in order, so what these two share all between them share
    depth = 0
    while depth < min(len(first), len(last)) and first[depth] == last[depth]:
        depth += 1
    return first[:depth]


class _Cutter:
    """Finds the spans of the chunks of one text.

    A *border* is a place where the text may be cut: between two grapheme clusters, and not inside a line that is kept
    whole. Every start and end of a chunk is one.
    """

    def __init__(self, text: str, max_chars: int, overlap: int, *, overlap_over_headings: bool = True) -> None:
        if max_chars < 1:
            raise ValueError(f"max_chars must be at least 1, not {max_chars}")
        if not 0 <= overlap < max_chars:
            raise ValueError(f"overlap must be at least 0 and less than max_chars ({max_chars}), not {overlap}")
        self._text = text
        self._max_chars = max_chars
        self._overlap = overlap
        self._overlap_over_headings = overlap_over_headings
        step = max_chars - overlap
        self._shortest_tail = max(step // 4, min(2, step - 1))
        self._visible_end = len(text.rstrip())
        self._outline = outline(text)
        self._heading_starts = [heading.start for heading in self.headings]
        self._below_headings = [self._skip_blank_lines(heading.end) for heading in self.headings]
        self._code_borders = sorted({border for region in self._outline.code for border in region})

    @property
    def headings(self) -> list[Heading]:
        return self._outline.headings

    def spans(self) -> Iterator[tuple[int, int]]:
        start = fresh = 0  # what no chunk holds yet begins at `fresh`
        end = 0
        while end < len(self._text):
            end = self._end_of_chunk(start, fresh)
            yield start, end
            start, fresh = self._start_of_next(start, end), end

    def _end_of_chunk(self, start: int, fresh: int) -> int:
        limit = start + self._max_chars
        if limit >= len(self._text):
            return len(self._text)
        least = self._end_of_unit(fresh)
        if least >= limit:
            return least
        last = limit
        if self._visible_end > limit:  # leave the next chunk, if it is the last, something to say
            last = max(least, min(limit, self._visible_end - self._shortest_tail))
        half, quarter = fresh + (limit - fresh) // 2, fresh + (limit - fresh) // 4
        end = (
            self._heading_between(max(quarter, least), last)
            or self._block_or_sentence_between(max(half, least), last, fresh)
            or self._block_or_sentence_between(max(quarter, least), last, fresh)
        )
        return end or self._last_border(least, last, fresh)

    def _heading_between(self, first: int, last: int) -> int | None:
        """The start of the heading of highest rank, of several the last."""
        place = slice(bisect_left(self._heading_starts, first), bisect_right(self._heading_starts, last))
        candidates = self.headings[place]
        return min(reversed(candidates), key=attrgetter("level")).start if candidates else None

    def _block_or_sentence_between(self, first: int, last: int, since: int) -> int | None:
        """The last border of the best kind there is; ``since`` is a border before ``first``."""
        if first > last:
            return None
        return (
            self._best(first, last, since, self._paragraphs(since, last), in_code=False)
            or self._best(first, last, since, self._items(first, last), in_code=False)
            or self._best(first, last, since, self._sentences_backwards(max(since, first - 16), last))
            or self._best(first, last, since, self._lines(max(since, first - 1), last))
            or self._best(first, last, since, self._words(max(since, first - 1), last), below_heading=True)
        )

    def _best(
        self,
        first: int,
        last: int,
        since: int,
        candidates: Iterable[int],
        *,
        in_code: bool = True,
        below_heading: bool = False,
    ) -> int | None:
        """Of the candidates, given from last to first, the first that is a border in the range.

        By default it must not part a heading from its text.
        """
        for at in candidates:
            if not first <= at <= last or (not in_code and self._outline.in_code(at)):
                continue
            if not below_heading and self._parts_heading(at):
                continue
            line = self._whole_line_around(at)
            if line is not None:
                last = line[0]
            elif is_border(self._text, at, since):
                return at
        return None

    def _last_border(self, first: int, last: int, since: int) -> int:
        """The last border in the range; ``first`` is one."""
        at = last
        while at > first:
            line = self._whole_line_around(at)
            at = previous_border(self._text, at, since) if line is None else line[0]
            if line is None and self._whole_line_around(at) is None:
                return max(at, first)
        return first

    def _start_of_next(self, start: int, end: int) -> int:
        """Where the chunk after ``text[start:end]`` starts: as far back as ``overlap`` allows, at a border that reads
        well, and so that what comes next still fits."""
        first = max(end - self._overlap, start + 1, self._end_of_unit(end) - self._max_chars)
        if not self._overlap_over_headings:
            first = max(first, self._start_of_section(end))
        if first >= end or self._text[first:end].isspace():
            return end
        return (
            self._first(first, (first + end) // 2, start, self._sentences(max(start, first - 16), end))
            or self._first(first, end, start, reversed(self._words(max(start, first - 1), end)))
            or self._first(first, end, start, range(first, end))
            or end
        )

    def _first(self, first: int, last: int, since: int, candidates: Iterable[int]) -> int | None:
        """Of the candidates, given in order, the first that is a border in the range."""
        for at in candidates:
            if at > last:
                return None
            if at < first:
                continue
            line = self._whole_line_around(at)
            if line is not None:
                first = line[1]
            elif is_border(self._text, at, since):
                return at
        return None

    def _start_of_section(self, at: int) -> int:
        before = bisect_right(self._heading_starts, at) - 1
        return self._heading_starts[before] if before >= 0 else 0

    def _end_of_unit(self, at: int) -> int:
        """The first border after ``at``, which is one itself."""
        line = self._whole_line_around(at + 1)
        if line is not None and line[0] == at:
            return line[1]
        return next_border(self._text, at)

    def _whole_line_around(self, at: int) -> tuple[int, int] | None:
        """The line that a cut at ``at`` would split though it fits into a chunk and should be kept whole."""
        heading = self._heading_around(at)
        start, end = (heading.start, heading.end) if heading else self._line_around(at)
        end -= self._text[start:end].endswith("\n")
        end -= self._text[start:end].endswith("\r")
        if not start < at < end or end - start > self._max_chars:
            return None
        if heading or self._outline.in_code(start) or _KEPT_WHOLE.match(self._text, start, end):
            return start, end
        return None

    def _heading_around(self, at: int) -> Heading | None:
        before = bisect_left(self._heading_starts, at) - 1
        return self.headings[before] if before >= 0 and at < self.headings[before].end else None

    def _parts_heading(self, at: int) -> bool:
        """True when a cut at ``at`` would leave a heading without the text below it."""
        before = bisect_left(self._heading_starts, at) - 1
        return before >= 0 and at <= self._below_headings[before]

    def _skip_blank_lines(self, at: int) -> int:
        blank = _BLANK_LINES.match(self._text, at)
        return blank.end() if blank else at

    def _line_around(self, at: int) -> tuple[int, int]:
        """The line that holds ``at``; of one too long for a chunk, a piece that is too long as well."""
        reach = self._max_chars + 2
        start = self._text.rfind("\n", max(0, at - reach), at) + 1 or max(0, at - reach)
        end = self._text.find("\n", at, start + reach)
        return start, end if end >= 0 else min(len(self._text), start + reach)

    def _paragraphs(self, first: int, last: int) -> list[int]:
        return self._ends_backwards(_PARAGRAPH, first, last)

    def _items(self, first: int, last: int) -> list[int]:
        code = self._code_borders[bisect_left(self._code_borders, first) : bisect_right(self._code_borders, last)]
        items = [match.start() for match in _ITEM.finditer(self._text, first, last + _LONGEST_MARKER)]
        return sorted([*items, *code], reverse=True)

    def _lines(self, first: int, last: int) -> list[int]:
        return self._ends_backwards(_NEWLINE, first, last)

    def _words(self, first: int, last: int) -> list[int]:
        return self._ends_backwards(_WORD, first, last + 1)

    def _ends_backwards(self, pattern: re.Pattern[str], first: int, last: int) -> list[int]:
        return [match.end() for match in pattern.finditer(self._text, first, last)][::-1]

    def _sentences(self, first: int, last: int) -> Iterator[int]:
        stops = _SENTENCE.finditer(self._text, first, last)
        return (stop.end() for stop in stops if self._ends_sentence(stop))

    def _sentences_backwards(self, first: int, last: int) -> Iterator[int]:
        stops = reversed(list(_SENTENCE.finditer(self._text, first, last)))
        return (stop.end() for stop in stops if self._ends_sentence(stop))

    def _ends_sentence(self, stop: re.Match[str]) -> bool:
        before = self._text[max(0, stop.start() - _LONGEST_ABBREVIATION) : stop.start()]
        return not _ABBREVIATION.search(before) and not self._text[stop.end() : stop.end() + 1].islower()
