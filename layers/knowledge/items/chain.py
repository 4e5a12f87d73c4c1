"""The hash chain of the provenance log: what each hash is over, and where a log is not what was written.

    digest  SHA-256 of what happened, when, by whom, the detail and the nonce
    hash    SHA-256 of the hash before (of nothing: SHA-256 of no bytes), the place and the item, and the digest

An event that was deleted with its item leaves place, item and digest in the event that tells of the deletion, so the
hashes of all that was ever written can be computed again. There is no key in this: whoever may do everything in the
database can write a whole new chain, and only a head that was noted elsewhere tells (``Head``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple, Self
from uuid import UUID

from spot_sdk.errors import InvalidRequest

_BEGINNING = hashlib.sha256(b"").digest()


class Event(NamedTuple):
    """A row of the log; ``detail`` is the text of its JSON, as PostgreSQL writes it."""

    seq: int
    recorded_at: datetime
    event: str
    item_id: str | None
    actor: str
    actor_class: str
    db_user: str
    detail: str
    nonce: UUID
    digest: bytes
    hash: bytes


class Removed(NamedTuple):
    """What is left of an event that went with its item, and the place of the event that says so."""

    item_id: str | None
    digest: bytes
    told_at: int


class Head(NamedTuple):
    """The end of the chain at some time, to be noted where the database's superuser cannot reach it."""

    seq: int
    hash: bytes

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash.hex()}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """From what ``str`` gives. Raises InvalidRequest for anything else."""
        seq, _, digest = text.partition(":")
        try:
            head = cls(int(seq), bytes.fromhex(digest))
        except ValueError:
            head = cls(0, b"")
        if head.seq < 0 or len(head.hash) != hashlib.sha256().digest_size:
            raise InvalidRequest("a head is a number, a colon and 64 hexadecimal digits, as `verify` prints it")
        return head


class ChainReport(NamedTuple):
    """How many events there are and how many went with their items, the end, and what is wrong."""

    events: int
    removed: int
    head: Head
    findings: list[str]


def digest_of(event: Event) -> bytes:
    """What ``event.digest`` has to be."""
    moment = event.recorded_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")
    return hashlib.sha256(
        _joined(
            moment, event.event, event.actor, event.actor_class, event.db_user, event.detail, str(event.nonce)
        ).encode()
    ).digest()


def hash_of(before: bytes, seq: int, item_id: str | None, digest: bytes) -> bytes:
    """What the hash at a place has to be after the hash ``before``."""
    return hashlib.sha256(before + _joined(str(seq), item_id).encode() + digest).digest()


def check_chain(events: Iterable[Event], removed: Mapping[int, Removed], heads: Sequence[Head] = ()) -> ChainReport:
    """Walk the log in the order of places and tell every place that is not as it was written.

    ``heads`` are ends of the chain that were noted earlier.
    """
    noted = {head.seq: head.hash for head in heads}
    findings: list[str] = []
    count, end = 0, Head(0, _BEGINNING)

    def compare(head: Head) -> None:
        if noted.get(head.seq, head.hash) != head.hash:
            findings.append(f"event {head.seq} is not the one whose hash was noted")

    compare(end)
    for event in events:
        count += 1
        before = _over_gap(end, event.seq, removed, findings, compare)
        if event.seq in removed:
            findings.append(f"event {event.seq} is there, but event {removed[event.seq].told_at} says it was removed")
        if digest_of(event) != event.digest:
            findings.append(f"event {event.seq} was edited")
        if before is not None and hash_of(before, event.seq, event.item_id, event.digest) != event.hash:
            findings.append(f"event {event.seq} does not follow from what is before it")
        end = Head(event.seq, event.hash)
        compare(end)
    findings += [f"the log ends at {end.seq}, but once it reached {seq}" for seq in sorted(noted) if seq > end.seq]
    findings += [
        f"event {left.told_at} says that event {seq} was removed, which was not there yet"
        for seq, left in removed.items()
        if seq >= left.told_at
    ]
    return ChainReport(count, len(removed), end, findings)


def _over_gap(
    end: Head, seq: int, removed: Mapping[int, Removed], findings: list[str], compare: Callable[[Head], None]
) -> bytes | None:
    """The hash just before ``seq``, computed over the events that were removed there; None where that cannot be."""
    for place in range(end.seq + 1, seq):
        left = removed.get(place)
        if left is None:
            last = min((other for other in removed if place < other < seq), default=seq) - 1
            findings.append(f"from event {place} to event {last} something is missing that no deletion accounts for")
            return None
        end = Head(place, hash_of(end.hash, place, left.item_id, left.digest))
        compare(end)
    return end.hash


def _joined(*texts: str | None) -> str:
    return ",".join("-" if text is None else f"{len(text.encode())}:{text}" for text in texts)
