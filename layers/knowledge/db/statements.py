"""SQL as static text in ``.sql`` files beside their one caller.

A file holds named blocks, each with a line of purpose::

    -- count_by_source --
    -- Live documents of each source.
    SELECT ...

``{tags}`` and the like mark places for constant fragments (``knowledge.tags.sql``); values travel as ``%(name)s``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import LiteralString, cast

_HEADING = re.compile(r"^-- (?P<name>[a-z_]+) --$", re.MULTILINE)


def load_statements(path: Path) -> dict[str, LiteralString]:
    """The statements of one file by name. The text is ours and static, hence LiteralString."""
    text = path.read_text(encoding="utf-8")
    headings = list(_HEADING.finditer(text))
    ends = [heading.start() for heading in headings[1:]] + [len(text)]
    return {
        heading["name"]: cast("LiteralString", text[heading.end() : end].strip())
        for heading, end in zip(headings, ends, strict=True)
    }
