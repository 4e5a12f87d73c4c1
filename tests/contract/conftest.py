"""Two stores with one contract: the one in memory, and the real one behind its HTTP handlers on a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from lambda_transport import LambdaTransport

from knowledge import wiring
from spot_sdk.batching import BatchLimits
from spot_sdk.client import KnowledgeClient
from spot_sdk.documents import RetrievalLimits
from spot_sdk.testing import FakeKnowledgeClient

KEY = "key-of-the-contract"
URL = "http://store.test/api/v1/knowledge"

AnyClient = KnowledgeClient | FakeKnowledgeClient
MakeClient = Callable[..., AnyClient]
"""Makes a client of the test's own store; takes the options that both kinds of client have."""


@pytest.fixture
def store_client(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., KnowledgeClient]]:
    """Makes real clients of the real store, its database empty at first."""
    for name, value in {
        "DATABASE_URL": database_url,
        "EMBEDDING_BACKEND": "hash",
        "SPOT_INTERNAL_API_KEY": KEY,
        "SPOT_KNOWLEDGE_URL": URL,
    }.items():
        monkeypatch.setenv(name, value)
    wiring.reset()

    def make(*, api_key: str | None = KEY, email: Any = None, **options: Any) -> KnowledgeClient:
        if email is not None:
            return KnowledgeClient.for_analysis(email, transport=LambdaTransport(), **options)
        return KnowledgeClient(URL, api_key, transport=LambdaTransport(), **options)

    yield make
    wiring.reset()


@pytest.fixture
def fake_client() -> MakeClient:
    """Makes fakes that share one store, those with batch limits of their own apart."""
    first = FakeKnowledgeClient()

    def make(
        *, email: Any = None, retrieval_limits: RetrievalLimits | None = None, batch_limits: BatchLimits | None = None
    ) -> FakeKnowledgeClient:
        if batch_limits is not None:
            return FakeKnowledgeClient(batch_limits=batch_limits)
        return first.from_environment(retrieval_limits) if email is None else first.for_analysis(email)

    return make


@pytest.fixture(params=["fake", "real"])
def make_client(request: pytest.FixtureRequest) -> MakeClient:
    return request.getfixturevalue("fake_client" if request.param == "fake" else "store_client")


@pytest.fixture
def kb(make_client: MakeClient) -> AnyClient:
    return make_client()
