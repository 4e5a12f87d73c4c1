"""Hot reload: functions run new code as soon as a file of theirs is saved, routes and settings follow the template."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable
from pathlib import Path

from watchfiles import Change, DefaultFilter, awatch

from local.lambda_service.cloudformation import TemplateError
from local.lambda_service.logs import LogSink
from local.lambda_service.service import LambdaService
from local.lambda_service.template import Template

_SETTLE_MS = 50  # an editor or a checkout writes several files at once


class _CodeFilter(DefaultFilter):
    """Whatever a function may load: Python and the data beside it, but no caches, editor files or tool folders."""

    def __call__(self, change: Change, path: str) -> bool:
        return super().__call__(change, path) and not path.endswith((".pyc", ".md"))


class Reloader:
    """Watches the template and the folders that its functions come from; `load` reads the template anew.

    A template that cannot be used is reported, and the one before stays in force.
    """

    def __init__(
        self, service: LambdaService, sink: LogSink, template_path: Path, load: Callable[[], Template]
    ) -> None:
        self._service = service
        self._sink = sink
        self._template_path = template_path.resolve()
        self._load = load

    async def run(self) -> None:
        """Watches until it is cancelled."""
        await asyncio.gather(self._watch_template(), self._watch_code())

    async def _watch_template(self) -> None:
        # The folder, not the file: editors replace files, and a watch on the old one would see nothing more.
        async for changes in awatch(
            self._template_path.parent,
            watch_filter=lambda _, path: Path(path) == self._template_path,
            step=_SETTLE_MS,
            recursive=False,
        ):
            if any(change is not Change.deleted for change, _ in changes):
                self._reload_template()

    def _reload_template(self) -> None:
        try:
            template = self._load()
        except (TemplateError, OSError) as error:
            self._sink.note(f"{self._template_path.name} is not taken up: {error}")
            return
        self._service.apply(template)
        for note in template.notes:
            self._sink.note(note)
        self._sink.note(f"{self._template_path.name} changed: taken up")

    async def _watch_code(self) -> None:
        while True:
            roots = self._roots()
            stop = asyncio.Event()
            async for changes in awatch(*roots, watch_filter=_CodeFilter(), step=_SETTLE_MS, stop_event=stop):
                self._reload_code({Path(path) for _, path in changes})
                if self._roots() != roots:
                    break

    def _roots(self) -> set[Path]:
        roots = {root for function in self._service.functions for root in function.import_roots if root.is_dir()}
        return {root for root in roots if not any(other in root.parents for other in roots)}

    def _reload_code(self, changed: set[Path]) -> None:
        for path in changed:
            _forget_bytecode(path)
        names = self._service.reload(
            lambda function: any(path.is_relative_to(root) for path in changed for root in function.import_roots)
        )
        if names:
            files = ", ".join(sorted(path.name for path in changed))
            self._sink.note(f"{files} changed: new code for {', '.join(names)}")


def _forget_bytecode(path: Path) -> None:
    """Removes the cached bytecode of a source file: Python would take it for current after two edits in one second."""
    if path.suffix == ".py":
        Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)
