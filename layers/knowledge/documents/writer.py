"""Who may write what: a provider's key is bound to its source, and takes over nobody else's documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spot_sdk.documents import KnowledgeDocument
from spot_sdk.errors import Forbidden, Problem


@dataclass(frozen=True, slots=True)
class Writer:
    """A caller that writes. ``source``: the only one it may write. ``respects_sources``: it may not change whose a
    stored document is."""

    source: str | None = None
    respects_sources: bool = False

    def refuse_foreign(self, documents: Sequence[KnowledgeDocument]) -> None:
        """Raise Forbidden unless every document names the writer's own source."""
        if self.source is None:
            return
        foreign = [document for document in documents if document.source != self.source]
        if foreign:
            raise Forbidden(
                f"this key writes source {self.source!r} only",
                problems=[
                    Problem(document=document.id, field="source", message=f"is {document.source!r}")
                    for document in foreign
                ],
            )

    def refuse_source(self, source: str) -> None:
        """Raise Forbidden unless the writer may speak for this source."""
        if self.source not in (None, source):
            raise Forbidden(f"this key writes source {self.source!r} only, not {source!r}")


ANY_WRITER = Writer()
