"""The write side of the client: checks, batches, and requests that may be repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from spot_sdk.batching import MAX_IDS_PER_REQUEST, BatchLimits, bulk_body, split, to_json
from spot_sdk.cache import KnowledgeCache
from spot_sdk.checks import build, check_documents, check_ids
from spot_sdk.connection import StoreConnection
from spot_sdk.documents import (
    MAX_BATCH,
    SET_BY_QUERIES,
    Delete,
    DeleteResult,
    KnowledgeDocument,
    SyncRunRef,
    UpsertResult,
)
from spot_sdk.errors import EmbeddingFailed, InternalError, KnowledgeError, PayloadTooLarge
from spot_sdk.sync import ReplaceChildren

Progress = Callable[[int, int], None]
"""Told after each request how many documents are done, of how many."""


class DocumentWriter:
    """Writes over one connection; ``KnowledgeClient`` says what its methods promise.

    All of it is repeatable, so a lost answer costs nothing: a document under its id leaves the same row however often
    it is sent, and what is deleted stays deleted. (The second answer then says ``unchanged`` for what was ``created``,
    and counts fewer deleted.)
    """

    def __init__(self, connection: StoreConnection, limits: BatchLimits, cache: KnowledgeCache | None) -> None:
        self._connection = connection
        self._limits = limits
        self._cache = cache

    async def upsert(self, document: KnowledgeDocument) -> UpsertResult:
        checked = check_documents([document])
        split(checked, self._limits)
        with self.writing():
            return await self._send("/upsert", to_json(checked[0]).encode(), checked)

    async def bulk_upsert(
        self, documents: Iterable[KnowledgeDocument], progress: Progress | None, run: SyncRunRef | None = None
    ) -> UpsertResult:
        """Send everything; what the model refused is in the result, and not an error here."""
        batches = split(check_documents(documents), self._limits)
        total = sum(map(len, batches))
        waiting = iter(enumerate(batches))
        answers: dict[int, UpsertResult] = {}
        failures: list[KnowledgeError] = []

        async def send_waiting() -> None:
            for number, batch in waiting:
                try:
                    answers[number] = await self._send("/bulk-upsert", bulk_body(batch, run), batch)
                except KnowledgeError as error:
                    failures.append(error)
                if failures:
                    return
                if progress:
                    progress(sum(len(answer.results) for answer in answers.values()), total)

        with self.writing():
            await _all(send_waiting() for _ in range(min(self._limits.concurrency, len(batches))))
        result = UpsertResult.merged(answers[number] for number in sorted(answers))
        if failures:
            failures[0].result = result
            raise failures[0]
        return result

    async def replace_children(
        self, parent_id: str, documents: Iterable[KnowledgeDocument], source: str | None
    ) -> UpsertResult:
        request = replacement(parent_id, documents, source, self._limits)
        body = request.model_dump_json(exclude={"documents": {"__all__": SET_BY_QUERIES}}).encode()
        with self.writing():
            return await self._send("/replace-children", body, request.documents)

    async def delete(self, ids: Iterable[str]) -> int:
        """By the route with the ids in its body: in a path, gateways change ids that hold "/", "?" or ".."."""
        unique = check_ids(ids)
        deleted = 0
        with self.writing():
            for start in range(0, len(unique), MAX_IDS_PER_REQUEST):
                body = Delete(ids=unique[start : start + MAX_IDS_PER_REQUEST]).model_dump_json().encode()
                deleted += (await self._connection.call(DeleteResult, "POST", "/delete", body=body)).deleted
        return deleted

    async def _send(self, path: str, body: bytes, documents: Sequence[KnowledgeDocument]) -> UpsertResult:
        """Send documents. Raises InternalError when the answer is not about them, one by one: nobody can tell then
        what is stored."""
        result = await self._connection.call(UpsertResult, "POST", path, body=body)
        if [outcome.id for outcome in result.results] != [document.id for document in documents]:
            raise InternalError(
                f"{self._connection.url}{path} was sent {len(documents)} documents and answered of "
                f"{len(result.results)}, or of others"
            )
        return result

    @contextmanager
    def writing(self) -> Generator[None]:
        """Whether it succeeds or not, afterwards no answer from before is good any more."""
        try:
            yield
        finally:
            if self._cache is not None:
                self._cache.clear()


def replacement(
    parent_id: str, documents: Iterable[KnowledgeDocument], source: str | None, limits: BatchLimits
) -> ReplaceChildren:
    """The request that replaces a parent's children, checked.

    Raises InvalidDocument, DuplicateDocument, InvalidRequest, and PayloadTooLarge when it is too large for ``limits``.
    """
    checked = check_documents(documents)
    request = build(ReplaceChildren, {"parent_id": parent_id, "source": source, "documents": checked})
    if len(split(checked, replace(limits, documents=MAX_BATCH))) > 1:
        raise PayloadTooLarge(f"the children of {parent_id} do not fit into one request of {limits.bytes} bytes")
    return request


def refuse_failures(result: UpsertResult) -> None:
    """Raise EmbeddingFailed, with the whole result, when the model refused a text."""
    problems = [outcome.problem for outcome in result.results if outcome.problem is not None]
    if not result.failed:
        return
    message = f"{result.failed} of {len(result.results)} documents could not be embedded; all others are stored"
    error = EmbeddingFailed(message, problems=problems)
    error.result = result
    raise error


async def _all(coroutines: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run them at the same time; when one raises, or the caller is cancelled, the others end before this does."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
