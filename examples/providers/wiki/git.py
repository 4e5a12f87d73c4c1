"""A git checkout as a source: brought up to date if wanted, and read only when it is what was committed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

from examples.providers.listing import Deadline, SourceFailed

_CREDENTIALS = re.compile(r"//[^/@\s]+@")


class Checkout:
    """The work tree of a git repository at ``folder``; no command may take longer than ``timeout_s``."""

    def __init__(self, folder: Path, timeout_s: float) -> None:
        self._folder = folder
        self._timeout_s = timeout_s

    @staticmethod
    def is_one(folder: Path) -> bool:
        return (folder / ".git").exists()

    def pull(self, deadline: Deadline) -> None:
        """Fetch and fast-forward; a history that was rewritten or diverged is for a person to look at."""
        self._git(deadline, "pull", "--ff-only", "--quiet")

    def head(self, deadline: Deadline) -> str:
        """The commit that is checked out."""
        return self._git(deadline, "rev-parse", "--verify", "HEAD").strip()

    def committed_files(self, deadline: Deadline) -> set[str]:
        """The files of HEAD, relative to the folder.

        Raises SourceFailed when the work tree is not HEAD, as in the middle of a checkout: a page that is missing
        only here must not be taken for gone.
        """
        changes = [
            line[3:]
            for line in self._git(deadline, "status", "--porcelain", "-z", "--untracked-files=no").split("\0")
            if line
        ]
        if changes:
            raise SourceFailed(
                f"{self._folder}: {len(changes)} files differ from what was committed ({', '.join(changes[:3])}); "
                "restore them or wait until the checkout is complete"
            )
        return {path for path in self._git(deadline, "ls-files", "-z").split("\0") if path}

    def _git(self, deadline: Deadline, *arguments: str) -> str:
        """What a git command prints. Raises SourceFailed with its complaint, without credentials in addresses."""
        deadline.check()
        with subprocess.Popen(  # noqa: S603 - our own words alone
            ["git", "-C", str(self._folder), *arguments],  # noqa: S607 - git is where PATH says
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # no terminal to ask for a password on, and a group that can be ended as a whole
        ) as process:
            patience_s = min(self._timeout_s, deadline.remaining_s)
            try:
                output, complaint = process.communicate(timeout=patience_s)
            except subprocess.TimeoutExpired as error:
                os.killpg(process.pid, signal.SIGKILL)
                deadline.check()
                raise SourceFailed(f"{self._folder}: git {arguments[0]} took longer than {patience_s:g} s") from error
        if process.returncode:
            told = _CREDENTIALS.sub("//", complaint.decode("utf-8", "replace")).strip()
            raise SourceFailed(f"{self._folder}: git {arguments[0]} failed: {' '.join(told.split())[:500]}")
        return output.decode("utf-8", "surrogateescape")
