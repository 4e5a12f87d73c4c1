"""Starts a provider as a service on this machine."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable

import uvicorn

from examples.providers.service import Provider
from examples.providers.settings import SettingsError

SHUTDOWN_PATIENCE_S = 5
"""With FAREWELL_S of the service, less than the ten seconds that supervisors usually wait before they kill."""


def serve(name: str, make: Callable[[], Provider], port: int) -> None:
    """Serve until SIGTERM or SIGINT; the line "Uvicorn running on http://..." says where, once the service is there.

    A sync that is running at the end has some seconds to finish, and is a failed run otherwise.
    """
    arguments = argparse.ArgumentParser(prog=f"python -m examples.providers.{name}")
    arguments.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: %(default)s)")
    arguments.add_argument(
        "--port", type=int, default=port, help="the port to listen on, 0 for any free one (default: %(default)s)"
    )
    chosen = arguments.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    try:
        provider = make()
    except SettingsError as error:
        sys.exit(f"{name}: {error}")
    uvicorn.run(
        provider.app(),
        host=chosen.host,
        port=chosen.port,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=SHUTDOWN_PATIENCE_S,
    )
