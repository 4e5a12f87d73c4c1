"""Hot reload: functions run new code as soon as a file of theirs is saved, routes and settings follow the template."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

from watchfiles import Change, DefaultFilter, awatch
from watchfiles.main import FileChange

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
        self._template_changed = asyncio.Event()
        self._watches_code = asyncio.Event()
        self._watches_template = asyncio.Event()

    async def run(self) -> None:
        """Watches until it is cancelled."""
        await asyncio.gather(self._watch_template(), self._watch_code())

    async def watching(self) -> None:
        """Waits until no change can be missed any more."""
        await self._watches_code.wait()
        await self._watches_template.wait()

    async def _watch_template(self) -> None:
        # The folder, not the file: editors replace files, and a watch on the old one would see nothing more.
        folder = self._template_path.parent
        async for changes in _batches(awatch(folder, watch_filter=self._is_template, step=_SETTLE_MS, recursive=False)):
            self._watches_template.set()
            if any(change is not Change.deleted for change, _ in changes):
                self._reload_template()

    async def _watch_code(self) -> None:
        watched = self._roots()
        while True:
            self._template_changed.clear()
            roots = self._roots()
            new = awatch(*roots, watch_filter=_CodeFilter(), step=_SETTLE_MS, stop_event=self._template_changed)
            async for changes in _batches(new):
                # The first batch is empty: what changed in new folders before they were watched is taken up by it.
                self._reload_code({Path(path) for _, path in changes} or roots - watched)
                self._watches_code.set()
            watched = roots

    def _is_template(self, _: Change, path: str) -> bool:
        return Path(path) == self._template_path

    def _roots(self) -> set[Path]:
        """The folders to watch, none of them within another."""
        roots = {root for function in self._service.functions for root in function.import_roots}
        return {root for root in roots if not any(other in root.parents for other in roots)}

    def _reload_template(self) -> None:
        try:
            template = self._load()
        except (TemplateError, OSError) as error:
            self._sink.note(f"{self._template_path.name} is not taken up: {error}")
            return
        self._service.apply(template)
        self._template_changed.set()
        for note in template.notes:
            self._sink.note(note)
        self._sink.note(f"{self._template_path.name} changed: taken up")

    def _reload_code(self, changed: set[Path]) -> None:
        for path in changed:
            _forget_bytecode(path)
        names = self._service.reload(
            lambda function: any(path.is_relative_to(root) for path in changed for root in function.import_roots)
        )
        if names:
            files = ", ".join(sorted(path.name for path in changed))
            self._sink.note(f"{files} changed: new code for {', '.join(names)}")


async def _batches(watch: AsyncGenerator[set[FileChange]]) -> AsyncGenerator[set[FileChange]]:
    """The batches of `watch`, and before them an empty one as soon as it watches."""
    first = asyncio.ensure_future(anext(watch, set[FileChange]()))
    await asyncio.sleep(0)  # awatch begins to watch before it waits for the first time
    try:
        yield set()
        if changes := await first:
            yield changes
            async for changes in watch:
                yield changes
    finally:
        first.cancel()


def _forget_bytecode(path: Path) -> None:
    """Removes the cached bytecode of a source file: Python would take it for current after two edits in one second."""
    if path.suffix == ".py":
        Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)
