"""What a worker process runs: AWS's runtime interface client, tied to the life of the service that started it.

Started as a script with the handler's name and the service's process id, in the function's code folder. It imports
nothing of ours, since it shares its process with the function.
"""

from __future__ import annotations

import os
import sys


def end_with_parent(parent_pid: int) -> None:
    """Lets Linux kill this process when the service dies, even by kill -9.

    Elsewhere the runtime client ends by itself: its next request to the Runtime API fails.
    """
    if not sys.platform.startswith("linux"):
        return
    import ctypes
    import signal

    pr_set_pdeathsig = 1  # <linux/prctl.h>
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    if os.getppid() != parent_pid:  # the service died before the call above
        os._exit(1)


def explain_import_failure(handler: str) -> None:
    """Prints the traceback of a handler module that fails to load: the runtime client reports only its last line."""
    import importlib
    import traceback

    module = handler.rpartition(".")[0].replace("/", ".")
    if module in sys.modules:
        return
    try:
        importlib.import_module(module)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if "importlib" not in frame.filename and frame.filename != __file__]
        sys.stderr.write("".join(traceback.format_list(own)))
        sys.stderr.write("".join(traceback.format_exception_only(error)))


def run(handler: str) -> None:
    """Runs the runtime client until it ends; never returns."""
    from awslambdaric.__main__ import main as run_runtime_client

    try:
        run_runtime_client(["awslambdaric", handler])
    except SystemExit as ending:
        status = ending.code
    else:
        status = 0
    explain_import_failure(handler)
    sys.exit(status)


if __name__ == "__main__":
    sys.path[0] = os.getcwd()  # noqa: PTH109 - pathlib is a heavy import. Python put this script's folder there; Lambda puts the function's
    end_with_parent(int(sys.argv[2]))
    run(sys.argv[1])
