"""The text of HTML, as far as it is said and not only drawn. Nothing is fetched."""

from __future__ import annotations

import re
from html import unescape

_ATTRIBUTES = r"""(?:[^<>"']++|"[^"]*+"|'[^']*+')*+"""
# In one pass, for a tag may stand in a comment and what looks like a comment in a tag. The library's parser takes time
# with the square of the length where tags do not end; here whatever has no end is text, and is not tried in other ways.
_MARKUP = re.compile(
    rf"""<!--(?:-?>|.*?(?:--!?>|\Z))
    | <(?P<silent>script|style|template)(?=[\s/>]){_ATTRIBUTES}> .*? (?:</(?P=silent)[^<>]*+>?|\Z)
    | </?(?P<tag>[a-z][a-z0-9]*+){_ATTRIBUTES}>
    | <[!?][^<>]*+>
    """,
    re.DOTALL | re.IGNORECASE | re.VERBOSE,
)
_BREAKS = {
    **dict.fromkeys(("td", "th"), " "),
    **dict.fromkeys(("p", "div", "br", "tr", "li", "ul", "ol", "table", "blockquote", "pre", "hr"), "\n"),
    **dict.fromkeys(("h1", "h2", "h3", "h4", "h5", "h6"), "\n"),
}


def html_as_text(html: str) -> str:
    """The text of HTML, a line for each block; scripts, styles and comments say nothing. Time is linear."""
    lines = unescape(_MARKUP.sub(_break, html)).split("\n")
    tidy = (" ".join(line.split()) for line in lines)
    return "\n".join(line for line in tidy if line)


def _break(markup: re.Match[str]) -> str:
    return _BREAKS.get((markup["tag"] or "").lower(), "")
