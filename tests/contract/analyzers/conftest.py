from __future__ import annotations

from collections.abc import Iterator

import pytest
from chat_server import ChatServer


@pytest.fixture
def chat() -> Iterator[ChatServer]:
    running = ChatServer()
    yield running
    running.stop()
