"""How a long list travels: in batches that neither the store nor a payload limit on the way refuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spot_sdk.documents import MAX_BATCH, SET_BY_QUERIES, KnowledgeDocument, SyncRunRef
from spot_sdk.errors import PayloadTooLarge, Problem

MAX_IDS_PER_REQUEST = 500

_ENVELOPE_BYTES = 200


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """How large one request of a bulk upsert may be, and how many travel at once.

    ``bytes`` counts the body as a Lambda event holds it. Lambda takes 6 MB for a synchronous invocation and an HTTP API
    10 MB; the default leaves room for what a gateway adds. ``documents`` is bounded by time: an HTTP API waits 30 s for
    a function, and a model on a busy machine may need a second for each.
    """

    documents: int = 16
    bytes: int = 4_000_000
    concurrency: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.documents <= MAX_BATCH:
            raise ValueError(f"documents must be from 1 to {MAX_BATCH}, not {self.documents}")
        if self.bytes <= _ENVELOPE_BYTES or self.concurrency < 1:
            raise ValueError(f"bytes must be more than {_ENVELOPE_BYTES} and concurrency at least 1")


def split(documents: Sequence[KnowledgeDocument], limits: BatchLimits) -> list[list[KnowledgeDocument]]:
    """The documents in batches within the limits, in their order.

    Raises PayloadTooLarge, which names them, for documents that do not fit into a request of their own.
    """
    batches: list[list[KnowledgeDocument]] = []
    room = 0
    too_large: list[Problem] = []
    for document in documents:
        size = _size_in_event(to_json(document))
        if size > limits.bytes - _ENVELOPE_BYTES:
            message = f"takes {size} bytes of the {limits.bytes} of a request; cut it into chunks"
            too_large.append(Problem(document=document.id, field="content", message=message))
        if not batches or size > room or len(batches[-1]) >= limits.documents:
            batches.append([])
            room = limits.bytes - _ENVELOPE_BYTES
        batches[-1].append(document)
        room -= size
    if too_large:
        first = too_large[0]
        more = f" (and {len(too_large) - 1} more)" if len(too_large) > 1 else ""
        raise PayloadTooLarge(f"{first.document} {first.message}{more}", problems=too_large)
    return batches


def to_json(document: KnowledgeDocument) -> str:
    """What is sent of a document: all but the score that a query gave it."""
    return document.model_dump_json(exclude=SET_BY_QUERIES)


def bulk_body(documents: Sequence[KnowledgeDocument], run: SyncRunRef | None = None) -> bytes:
    """The body of ``POST /bulk-upsert``."""
    in_run = f',"run":{run.model_dump_json()}' if run else ""
    return f'{{"documents":[{",".join(map(to_json, documents))}]{in_run}}}'.encode()


def _size_in_event(json: str) -> int:
    """Bytes of a piece of JSON, with its comma, inside the JSON string that an event's ``body`` is."""
    return len(json.encode()) + json.count('"') + json.count("\\") + 1
