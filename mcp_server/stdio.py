"""A stdout that carries the protocol only, whatever a library prints."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TextIO

_STDOUT, _STDERR = 1, 2


@contextmanager
def reserved_stdout() -> Generator[TextIO]:
    """The real stdout, as UTF-8 text; all else that is written to file descriptor 1 meanwhile goes to stderr.

    That holds for ``print``, for C libraries and for child processes, since it is the descriptor that is changed.
    """
    sys.stdout.flush()
    with os.fdopen(os.dup(_STDOUT), "w", encoding="utf-8", newline="\n") as real:
        os.dup2(_STDERR, _STDOUT)
        try:
            yield real
        finally:
            sys.stdout.flush()
            real.flush()
            os.dup2(real.fileno(), _STDOUT)
