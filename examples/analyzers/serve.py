"""Starts an analyzer as a service on this machine."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable

import uvicorn

from examples.analyzers.service import AnalyzerService
from examples.analyzers.settings import SettingsError


def serve(name: str, make: Callable[[], AnalyzerService], port: int) -> None:
    """Serve until SIGTERM or SIGINT; the line "Uvicorn running on http://..." says where, once the service is there."""
    arguments = argparse.ArgumentParser(prog=f"python -m examples.analyzers.{name}")
    arguments.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: %(default)s)")
    arguments.add_argument(
        "--port", type=int, default=port, help="the port to listen on, 0 for any free one (default: %(default)s)"
    )
    arguments.add_argument("--fd", type=int, help="a socket that listens already, instead of an address and a port")
    chosen = arguments.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        service = make()
    except SettingsError as error:
        sys.exit(f"{name}: {error}")
    uvicorn.run(service.app(), host=chosen.host, port=chosen.port, fd=chosen.fd, log_config=None, access_log=False)
