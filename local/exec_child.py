"""Become another program, under the terms that ``local.processes`` sets: the last step before ``exec``.

    python -I -S exec_child.py TERMS PROGRAM ARGUMENT...

TERMS is a JSON object with the fields of ``local.processes.Terms``. A program of its own, and not a ``preexec_fn``,
because code between fork and exec can deadlock in a process that has threads. Runs alone: the standard library only.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys

_PR_SET_PDEATHSIG = 1
_CLONE_NEWUSER = 0x10000000
_CANNOT_EXECUTE = 126


def main() -> None:
    terms = json.loads(sys.argv[1])
    program = sys.argv[2:]
    try:
        if terms["uid"] is not None:
            os.setgroups([])
            os.setgid(terms["gid"])
            os.setuid(terms["uid"])
        if sys.platform == "linux":
            libc = ctypes.CDLL(None, use_errno=True)
            if terms["nameless"]:
                libc.unshare(_CLONE_NEWUSER)  # where this is not allowed, the program says itself what it misses
            # After the change of user, which clears it.
            if terms["death_signal"] is not None:
                _check(libc.prctl(_PR_SET_PDEATHSIG, terms["death_signal"], 0, 0, 0))
                if os.getppid() != terms["parent"]:
                    sys.exit("the parent died before its child began")
        os.execv(program[0], program)  # noqa: S606 - becoming that program is the purpose
    except OSError as error:
        print(f"cannot run {program[0]}: {error.strerror}", file=sys.stderr)  # noqa: T201 - its parent reads it
        sys.exit(_CANNOT_EXECUTE)


def _check(result: int) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


if __name__ == "__main__":
    main()
