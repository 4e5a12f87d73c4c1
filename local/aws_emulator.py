"""AWS's APIs on this machine: a moto server as a child process.

It keeps everything in memory, and loads a service (EventBridge, SQS, Secrets Manager, SSM, CloudWatch) with the first
request for it. ``python -m local.aws_emulator DESCRIPTOR`` is that process.
"""

from __future__ import annotations

import logging
import socket
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from local.processes import Child
from spot_sdk.errors import Unavailable

_HOST = "127.0.0.1"
_READY = "the AWS emulator is ready"
_START_TIMEOUT_S = 60.0


class AwsEmulator:
    """One emulator on a free port of 127.0.0.1. It forgets all when it stops."""

    def __init__(self, log_path: Path) -> None:
        self._log_path = log_path
        self._child: Child | None = None
        self._endpoint_url: str | None = None

    @property
    def child(self) -> Child:
        """The running process."""
        if self._child is None:
            raise Unavailable("the AWS emulator was not started")
        return self._child

    @property
    def endpoint_url(self) -> str:
        """What boto3 takes as ``endpoint_url``. Good from ``launch`` on: earlier requests wait until it is ready."""
        if self._endpoint_url is None:
            raise Unavailable("the AWS emulator was not started")
        return self._endpoint_url

    def launch(self) -> None:
        """Start the process without waiting: it takes seconds to import what it needs."""
        with socket.create_server((_HOST, 0), backlog=128) as listener:
            self._child = Child.start(
                "AWS emulator",
                [sys.executable, "-P", "-m", "local.aws_emulator", str(listener.fileno())],
                log_path=self._log_path,
                ready_text=_READY,
                pass_fds=[listener.fileno()],
            )
            self._endpoint_url = f"http://{_HOST}:{listener.getsockname()[1]}"

    def wait_until_ready(self) -> None:
        """Return when it answers requests; Unavailable when it does not come up."""
        self.child.wait_until_ready(_START_TIMEOUT_S)

    def start(self) -> None:
        """Launch it and wait until it answers requests."""
        self.launch()
        self.wait_until_ready()

    def stop(self) -> None:
        """Stop it; nothing happens when it does not run."""
        if self._child is not None:
            self._child.stop()
        self._child = self._endpoint_url = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def main() -> None:
    """Serve until killed, on the listening socket whose descriptor is the one argument."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # else a line for each request
    application = DomainDispatcherApplication(create_backend_app)
    server = make_server(_HOST, 0, application, threaded=True, fd=int(sys.argv[1]))
    print(_READY, flush=True)  # noqa: T201 - the parent waits for this line
    server.serve_forever()


if __name__ == "__main__":
    main()
