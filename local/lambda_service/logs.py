"""What functions print: from the worker's pipe, line by line, to one stream and to whoever observes it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO

_MAX_EVENT_BYTES = 256 * 1024  # CloudWatch Logs' limit for one event
_READ_BYTES = 64 * 1024
_MAX_READS_AT_ONCE = 64  # a function that prints without end must not keep the event loop


@dataclass(frozen=True)
class LogLine:
    """One line of a function's log; `request_id` is empty outside an invocation."""

    function: str
    request_id: str
    text: str


LogObserver = Callable[[LogLine], None]


class LogSink:
    """Writes log lines to `stream` and hands each one to the observers (metrics read EMF lines this way)."""

    def __init__(self, stream: TextIO, observers: tuple[LogObserver, ...] = ()) -> None:
        self._stream = stream
        self._observers = observers

    def write(self, line: LogLine) -> None:
        # awslambdaric puts a traceback on one line: \r for its line ends, no-break spaces for its indents.
        shown = line.text.replace("\u00a0", " ").replace("\r", "\n    ")
        self._stream.write(f"{line.function} {line.request_id or '-'} {shown}\n")
        self._stream.flush()
        for observer in self._observers:
            observer(line)

    def note(self, text: str) -> None:
        """A line of the service itself."""
        self.write(LogLine("lambda-service", "", text))


class LogPipe:
    """The read end of the pipe that is a worker's stdout and stderr; calls `on_line` for each line."""

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self._on_line = on_line
        self._rest = b""
        self._read_fd, self.write_fd = os.pipe()
        os.set_blocking(self._read_fd, False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._read_fd, self.drain)
        self._open = True

    def close_write_end(self) -> None:
        """To be called once the worker holds its copy, so that its exit ends the pipe."""
        os.close(self.write_fd)

    def drain(self) -> None:
        """Reads what is in the pipe now, so that lines written before an answer are logged before it."""
        for _ in range(_MAX_READS_AT_ONCE):
            if not self._open:
                return
            try:
                chunk = os.read(self._read_fd, _READ_BYTES)
            except BlockingIOError:
                return
            if not chunk:
                self.close()
                return
            self._feed(chunk)

    def close(self) -> None:
        """Stops reading; an unfinished last line is logged as it is. Safe to call twice."""
        if not self._open:
            return
        self._open = False
        self._loop.remove_reader(self._read_fd)
        os.close(self._read_fd)
        if self._rest:
            self._emit(self._rest)

    def _feed(self, chunk: bytes) -> None:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._emit(line)
        while len(self._rest) > _MAX_EVENT_BYTES:
            self._emit(self._rest[:_MAX_EVENT_BYTES])
            self._rest = self._rest[_MAX_EVENT_BYTES:]

    def _emit(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip("\r")
        if text:
            self._on_line(text)
