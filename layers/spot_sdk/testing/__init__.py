"""For the tests of plugins: a store in memory."""

from __future__ import annotations

from spot_sdk.testing.fake_knowledge_client import FakeKnowledgeClient

__all__ = ["FakeKnowledgeClient"]
