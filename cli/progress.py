"""Progress bars on stderr, with rate and remaining time; silent where stderr is no terminal."""

from __future__ import annotations

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from cli.output import notes


class _RateColumn(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f}/s" if speed else "", style="progress.data.speed")


def progress_bar(unit: str) -> Progress:
    """A bar that counts ``unit``s, to be used as a context manager; it leaves nothing behind."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        _RateColumn(),
        TimeRemainingColumn(),
        console=notes,
        transient=True,
        disable=not notes.is_terminal,
    )
