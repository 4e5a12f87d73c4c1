"""The outline of a Markdown text: its headings, and where fenced code is, in which nothing is a heading.

Of CommonMark this knows ATX headings (``## Title``), setext headings of one line (underlined with ``===`` or ``---``)
and fences of backticks or tildes, indented ones in lists included. Plain text has an outline too: an empty one.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple

_MAX_TITLE_LENGTH = 200

_LINE = re.compile(
    r"""^ (?: [ \t]*+ ( `{3,}+ | ~{3,}+ ) ( [^\n]* )
          |   [ ]{0,3} ( \#{1,6}+ ) (?= \s | \Z ) ( [^\n]* )
          |   [ ]{0,3} ( =++ | -++ ) [ \t\r]*+ $ )""",
    re.MULTILINE | re.VERBOSE,
)
"""Groups: the marks and the info string of a fence, the hashes and the title of a heading, an underline."""
_UNDERLINED = re.compile(r" {0,3}(?![-*+>|#=\s]|\d{1,9}[.)]\s)")
_CLOSING_HASHES = re.compile(r"(?:^|(?<=\s))#+$")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)")


class Heading(NamedTuple):
    """A heading, from the start of its line to the start of the line after it. ``content`` is what was written."""

    start: int
    end: int
    level: int
    content: str

    @property
    def title(self) -> str:
        """The content without marks (closing hashes, links, emphasis, code); may be empty."""
        title = _CLOSING_HASHES.sub("", self.content.strip())
        title = _LINK.sub(r"\1", title).replace("*", "").replace("`", "")
        title = " ".join(title.split())
        return title if len(title) <= _MAX_TITLE_LENGTH else title[: _MAX_TITLE_LENGTH - 1].rstrip() + "…"


class Region(NamedTuple):
    """A fenced code block with its fences, from the start of a line to the start of another."""

    start: int
    end: int


class Outline(NamedTuple):
    """Headings and fenced code, each in order of appearance."""

    headings: list[Heading]
    code: list[Region]

    def in_code(self, at: int) -> bool:
        """True when the line that begins at ``at`` is fenced code, or the fence that ends it."""
        before = bisect_right(self.code, at, key=lambda region: region.start) - 1
        return before >= 0 and self.code[before].start < at < self.code[before].end


def outline(text: str) -> Outline:
    """Read the outline of ``text``, in linear time."""
    headings: list[Heading] = []
    code: list[Region] = []
    opening: str | None = None  # the fence that waits for its like
    opened_at = 0
    for line in _LINE.finditer(text):
        mark, info, hashes, title, underline = line.groups()
        start, end = line.start(), min(line.end() + 1, len(text))
        if opening is not None:
            if mark and mark.startswith(opening) and not info.strip():
                code.append(Region(opened_at, end))
                opening = None
        elif mark:
            if mark[0] == "~" or "`" not in info:
                opening, opened_at = mark, start
        elif hashes:
            headings.append(Heading(start, end, len(hashes), title))
        elif (title_start := _start_of_underlined(text, start, headings, code)) is not None:
            level = 1 if underline[0] == "=" else 2
            headings.append(Heading(title_start, end, level, text[title_start:start]))
    if opening is not None:
        code.append(Region(opened_at, len(text)))
    return Outline(headings, code)


def _start_of_underlined(text: str, underline: int, headings: list[Heading], code: list[Region]) -> int | None:
    """Where the one-line paragraph above an underline begins, or None when there is none above it."""
    if underline == 0:
        return None
    start = text.rfind("\n", 0, underline - 1) + 1
    if not _UNDERLINED.match(text, start, underline):
        return None
    taken_up_to = max(headings[-1].end if headings else 0, code[-1].end if code else 0)
    if start <= taken_up_to:  # the line begins the text or follows a heading or a fence, or is part of one
        return start if start == taken_up_to else None
    return start if not text[text.rfind("\n", 0, start - 1) + 1 : start].strip() else None
