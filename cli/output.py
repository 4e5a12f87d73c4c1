"""What commands print: results on stdout, everything else on stderr, and nothing that a terminal would obey."""

from __future__ import annotations

import json
import sys
from typing import Any

import typer
from pydantic import BaseModel
from rich.console import Console
from rich.prompt import Confirm
from rich.table import Table

from spot_sdk.errors import InvalidInput

results = Console(highlight=False, markup=False, emoji=False)
"""stdout, for people; what scripts read goes through ``print_json``."""

notes = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)
"""stderr: progress, notes and errors."""


def print_json(value: BaseModel | dict[str, Any]) -> None:
    """Write one JSON value to stdout, in UTF-8 whatever the locale, and a newline."""
    plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
    sys.stdout.buffer.write(json.dumps(plain, ensure_ascii=False, indent=2).encode() + b"\n")
    sys.stdout.flush()


def note(text: str) -> None:
    """Tell the user something beside the result."""
    notes.print(text)


def confirm(question: str) -> None:
    """Ask on stderr. Raises typer.Abort unless the answer is yes, InvalidInput when nobody is there to give one."""
    try:
        is_wanted = Confirm.ask(question, console=notes, default=False)
    except EOFError:
        notes.print()
        raise InvalidInput("nothing was done, for nobody answered; --yes goes on without asking") from None
    if not is_wanted:
        raise typer.Abort


def printable(text: str) -> str:
    """``text`` on one line, without characters that are invisible or that steer a terminal.

    Documents come from anywhere, and an escape sequence in a title must not become one on the operator's screen.
    """
    return "".join(c for c in " ".join(text.split()) if c.isprintable())


def snippet(text: str, length: int) -> str:
    """The beginning of ``text`` on one line, at most ``length`` characters, cut between words where there are any."""
    line = printable(text)
    if len(line) <= length:
        return line
    cut = line[: length - 1]
    return (cut[: cut.rfind(" ")] if " " in cut[length // 2 :] else cut) + "…"


def counted(number: int, noun: str) -> str:
    """``1 page``, ``1,200 pages``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def table(*columns: str, title: str | None = None, right: tuple[str, ...] = (), whole: tuple[str, ...] = ()) -> Table:
    """A table with headings; the columns named in ``right`` hold numbers.

    In a narrow window the cells of ``whole`` keep their lines as they are, and the other columns give way.
    """
    made = Table(title=title, title_justify="left", title_style="bold", header_style="bold", box=None, pad_edge=False)
    for column in columns:
        made.add_column(
            column, justify="right" if column in right else "left", overflow="fold", no_wrap=column in whole
        )
    return made
