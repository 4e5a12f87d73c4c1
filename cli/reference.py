"""Makes docs/reference/cli.md from what `--help` says: ``python -m cli.reference > docs/reference/cli.md``."""

from __future__ import annotations

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
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    root = typer.Context(group, info_name="knowledge", terminal_width=_WIDTH, max_content_width=_WIDTH)
    commands = [typer.Context(command, parent=root, info_name=name) for name, command in group.commands.items()]
    return "\n".join([_INTRODUCTION, *map(_section, [root, *commands])])


def _section(context: typer.Context) -> str:
    return f"## {context.command_path}\n\n```text\n{context.get_help()}\n```\n"


if __name__ == "__main__":
    print(reference(), end="")
