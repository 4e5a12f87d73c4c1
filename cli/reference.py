"""Makes docs/reference/cli.md from what `--help` says: ``python -m cli.reference > docs/reference/cli.md``."""

from __future__ import annotations

from collections.abc import Iterator

import typer
from typer.core import TyperGroup
from typer.main import get_command

from cli.main import app

_WIDTH = 100
_INTRODUCTION = """# Command line

<!-- Made by `python -m cli.reference > docs/reference/cli.md`; a test holds the two equal. -->

The command is `.venv/bin/knowledge`, or `knowledge` once `.venv` is activated. Results go to stdout; progress, notes
and errors go to stderr, so that `--json` output can be piped as it is.
"""


def reference() -> str:
    """The page, in Markdown."""
    root = typer.Context(get_command(app), info_name="knowledge", terminal_width=_WIDTH, max_content_width=_WIDTH)
    return "\n".join([_INTRODUCTION, *_sections(root)])


def _sections(context: typer.Context) -> Iterator[str]:
    """A section for the command, and then for each that it has."""
    yield _section(context)
    if isinstance(context.command, TyperGroup):
        for name, command in context.command.commands.items():
            yield from _sections(typer.Context(command, parent=context, info_name=name))


def _section(context: typer.Context) -> str:
    return f"## {context.command_path}\n\n```text\n{context.get_help()}\n```\n"


if __name__ == "__main__":
    print(reference(), end="")
