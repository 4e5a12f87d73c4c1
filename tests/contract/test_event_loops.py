"""One client in one event loop after another, over real sockets: a Lambda function that calls asyncio.run per event."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from spot_sdk.client import KnowledgeClient
from spot_sdk.retrying import RetryPolicy


class Store(BaseHTTPRequestHandler):
    """Finds nothing, and keeps connections open."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = b'{"documents": []}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Store)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/api/v1/knowledge"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # the first loop's connection died with its loop
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_client_outlives_its_event_loop(url: str):
    kb = KnowledgeClient(url, retry=RetryPolicy(attempts=1))
    for _ in range(3):
        assert asyncio.run(kb.fetch(text="x")) == []
    asyncio.run(kb.close())
    gc.collect()  # so that what the first loops left is reported here and not in another test


def test_a_client_that_is_closed_leaves_no_connection_behind(url: str):
    async def session() -> None:
        async with KnowledgeClient(url) as kb:
            await asyncio.gather(*(kb.fetch(text=f"question {n}") for n in range(20)))

    asyncio.run(session())
