"""The store as providers and analyzers see it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from types import TracebackType
from typing import Self
from weakref import WeakSet

import httpx

from spot_sdk.batching import BatchLimits
from spot_sdk.cache import KnowledgeCache
from spot_sdk.checks import AnalysedEmail, Asker
from spot_sdk.connection import API_PATH, StoreConnection
from spot_sdk.documents import (
    KnowledgeDocument,
    Query,
    QueryResult,
    RetrievalLimits,
    Stats,
    UpsertOutcome,
    UpsertResult,
    Version,
)
from spot_sdk.errors import InvalidRequest
from spot_sdk.retrying import RetryPolicy
from spot_sdk.settings import (
    api_key_from_environment,
    aws_credentials_from_environment,
    knowledge_url_from_environment,
    query_url_from_environment,
    timeout_from_environment,
)
from spot_sdk.signing import AwsCredentials, RequestSigner, region_of_function_url
from spot_sdk.sync import RemovalLimits
from spot_sdk.sync_run import HttpRunCalls, SyncRun
from spot_sdk.writing import DocumentWriter, Progress, refuse_failures

DEFAULT_TIMEOUT_S = 30.0  # what an HTTP API itself waits for a function
ANALYSIS_TIMEOUT_S = 5.0


class KnowledgeClient:
    """Writes documents to the store and fetches those that matter.

    ``url`` is the base of the API, ``http://host/api/v1/knowledge``. ``retrieval_limits`` cap every fetch. Use it in
    ``async with``, or call ``close`` when done; one client serves any number of concurrent calls. ``transport`` takes
    the place of the network, in tests.

    ``query_url`` is where questions go instead, with or without the API's path. The URL of a Lambda function gets them
    signed with ``aws_credentials``, which are asked for each request: by default those of the environment, if any.

    Every method raises KnowledgeError, of the classes in ``spot_sdk.errors``: Unavailable and its kin when the store
    cannot answer now (short failures were waited out already, see ``retry``), InvalidInput and its kin when repeating
    cannot help.
    """

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        retrieval_limits: RetrievalLimits | None = None,
        *,
        cache: KnowledgeCache | None = None,
        batch_limits: BatchLimits | None = None,
        retry: RetryPolicy | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        transport: httpx.AsyncBaseTransport | None = None,
        query_url: str | None = None,
        aws_credentials: Callable[[], AwsCredentials | None] = aws_credentials_from_environment,
    ) -> None:
        connection, queries = _connections(
            url, query_url, api_key, aws_credentials, timeout_s=timeout_s, retry=retry, transport=transport
        )
        self._set_up(connection, queries, Asker(retrieval_limits), cache, batch_limits, is_shared=False)

    def _set_up(
        self,
        connection: StoreConnection,
        queries: StoreConnection,
        asker: Asker,
        cache: KnowledgeCache | None,
        batch_limits: BatchLimits | None,
        *,
        is_shared: bool,
    ) -> None:
        self._connection = connection
        self._queries = queries
        self._is_shared = is_shared
        self._asker = asker
        self._cache = cache
        self._writer = DocumentWriter(connection, batch_limits or BatchLimits(), cache)

    @classmethod
    def from_environment(
        cls,
        retrieval_limits: RetrievalLimits | None = None,
        *,
        cache: KnowledgeCache | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> Self:
        """A client of the store that SPOT_KNOWLEDGE_URL names, with SPOT_INTERNAL_API_KEY where it is set.

        Questions go to SPOT_KNOWLEDGE_QUERY_URL where that is set. Raises InvalidInput when there is no address.
        """
        url, key = knowledge_url_from_environment(), api_key_from_environment()
        return cls(url, key, retrieval_limits, cache=cache, transport=transport, query_url=query_url_from_environment())

    @classmethod
    def for_analysis(
        cls,
        email: AnalysedEmail,
        *,
        cache: KnowledgeCache | None = None,
        timeout_s: float | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> Self:
        """A client for the analysis of one e-mail: ``fetch`` asks with its text by default, within its limits.

        Address and key come from the environment. The clients made here share their connections, which stay open for
        the next e-mail, so there is no need to close one; ``close_shared`` is for the end of the process.

        A call ends after ``timeout_s``, whatever the store does: with DeadlineExceeded, for the mail cannot wait. By
        default that is SPOT_KNOWLEDGE_TIMEOUT_S, or 5 seconds.

        Raises InvalidInput when there is no address, InvalidRequest when the limits or the time make no sense.
        """
        url, key = knowledge_url_from_environment(), api_key_from_environment()
        if timeout_s is not None and not 0 < timeout_s < math.inf:
            raise InvalidRequest("timeout_s must be a number of seconds above 0")
        deadline_s = timeout_s or timeout_from_environment() or ANALYSIS_TIMEOUT_S
        connection, queries = _shared_connections(url, query_url_from_environment(), key, transport, deadline_s)
        client = cls.__new__(cls)
        client._set_up(connection, queries, Asker.of_email(email), cache, None, is_shared=True)
        return client

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections that are this client's own."""
        if not self._is_shared:
            await self._connection.close()
            await self._queries.close()

    @staticmethod
    async def close_shared() -> None:
        """Close what the clients of ``for_analysis`` keep open in this event loop; a later call opens new ones."""
        for connection in list(_SHARED):
            await connection.close()

    # --- providers write -------------------------------------------------------------------------------------------

    async def upsert(self, document: KnowledgeDocument) -> UpsertOutcome:
        """Store one document, or replace the one with its id, and say which.

        Raises InvalidDocument, PayloadTooLarge, EmbeddingFailed.
        """
        result = await self._writer.upsert(document)
        refuse_failures(result)
        return result.results[0]

    async def bulk_upsert(
        self, documents: Iterable[KnowledgeDocument], progress: Progress | None = None
    ) -> UpsertResult:
        """Store many documents, in as many requests as it takes, and say of each what became of it, in their order.

        Each request is stored whole or not at all; one request after another unless ``batch_limits`` say otherwise.
        ``progress(done, total)`` is called after each.

        Raises InvalidDocument, DuplicateDocument, PayloadTooLarge before anything is sent. Raises EmbeddingFailed when
        all was sent and the model refused some texts, and any other error when a request failed; ``error.result`` then
        says what was stored. Sending everything once more is always right: what is stored already is ``unchanged``.
        """
        result = await self._writer.bulk_upsert(documents, progress)
        refuse_failures(result)
        return result

    async def replace_children(
        self, parent_id: str, documents: Iterable[KnowledgeDocument], *, source: str | None = None
    ) -> UpsertResult:
        """Make these documents the only ones that their source has with this parent, in one transaction.

        So a page that shrank leaves no chunk. Each names ``parent_id`` in its metadata, and all have one source. None
        at all removes the page: that of ``source``, without which it is the key's own source, or "" for a key that has
        none.

        Raises InvalidDocument, DuplicateDocument, EmbeddingFailed and PayloadTooLarge; nothing has changed then.
        """
        return await self._writer.replace_children(parent_id, documents, source)

    def sync_run(self, source: str, *, limits: RemovalLimits | None = None, wait_s: float = 0) -> SyncRun:
        """A run over everything that ``source`` has, at the end of which the store removes what it no longer has::

            async with kb.sync_run("provider-wiki") as run:
                await run.upsert(documents)
            print(run.result)

        The store removes no more than ``limits`` allow without being asked twice. While another run of the source is
        alive, entering waits up to ``wait_s`` seconds for its end: one whose process was killed lives on for a minute.
        """
        return SyncRun(HttpRunCalls(self._connection, self._writer), source, limits or RemovalLimits(), wait_s)

    async def delete(self, doc_id: str) -> bool:
        """Remove one document; returns whether it was there."""
        return await self._writer.delete([doc_id]) > 0

    async def delete_many(self, ids: Iterable[str]) -> int:
        """Remove documents; returns how many of them were there."""
        return await self._writer.delete(ids)

    # --- analyzers read --------------------------------------------------------------------------------------------

    async def fetch(
        self,
        tags: str | None = None,
        text: str | None = None,
        top_k: int = 5,
        min_score: float = 0.0,
        strategy: str = "similarity",
    ) -> list[KnowledgeDocument]:
        """The ``top_k`` documents closest in meaning to ``text`` that ``tags`` admits, best first, with their scores.

        ``tags`` is an expression such as ``"employee+executive|director"``. Without ``text`` the e-mail's is asked
        with, the first 100,000 characters of it; a blank e-mail gets no documents. The limits of the workflow's stage
        lower ``top_k`` and raise ``min_score``.

        Raises InvalidTagExpression with the column, InvalidRequest (``top_k`` below 1 or above 100, no text at all).
        """
        query = self._asker.query(tags, text, top_k, min_score, strategy)
        if query is None:
            return []
        if self._cache is None:
            return (await self._ask(query)).documents
        key = (self._queries.identity, query.model_dump_json())
        generation = self._cache.generation
        documents = self._cache.get(key)
        if documents is None:
            documents = (await self._ask(query)).documents
            self._cache.put(key, documents, generation)
        return documents

    async def ask(self, query: Query) -> QueryResult:
        """The store's whole answer to a query, with ``debug`` where it asks for that. Past the cache and all limits."""
        return await self._ask(query)

    async def version(self) -> Version:
        """The store's release and embedding model; ``embedding.chunk_chars`` is the length to chunk to."""
        return await self._connection.call(Version, "GET", "/version", above_api=True)

    async def stats(self) -> Stats:
        """How many documents there are, by tag and by source."""
        return await self._connection.call(Stats, "GET", "/stats")

    async def _ask(self, query: Query) -> QueryResult:
        wanted = None if query.debug else {"debug"}  # so that an older server takes it
        body = query.model_dump_json(exclude=wanted).encode()  # repeatable: a question changes nothing
        return await self._queries.call(QueryResult, "POST", "/query", body=body)


def _connections(
    url: str,
    query_url: str | None,
    api_key: str | None,
    credentials: Callable[[], AwsCredentials | None] = aws_credentials_from_environment,
    *,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    retry: RetryPolicy | None = None,
    transport: httpx.AsyncBaseTransport | None,
    deadline_s: float | None = None,
) -> tuple[StoreConnection, StoreConnection]:
    """For everything, and for questions; one and the same without ``query_url``."""
    retry = retry or RetryPolicy()
    connect = partial(StoreConnection, timeout_s=timeout_s, retry=retry, transport=transport, deadline_s=deadline_s)
    connection = connect(url, api_key)
    if query_url is None:
        return connection, connection
    base = query_url.strip().rstrip("/").removesuffix(API_PATH)
    region = region_of_function_url(base)
    signer = None if region is None else RequestSigner(credentials, region)
    return connection, connect(base + API_PATH, api_key, auth=signer)


@lru_cache(maxsize=4)
def _shared_connections(
    url: str,
    query_url: str | None,
    api_key: str | None,
    transport: httpx.AsyncBaseTransport | None,
    deadline_s: float,
) -> tuple[StoreConnection, StoreConnection]:
    connections = _connections(url, query_url, api_key, transport=transport, deadline_s=deadline_s)
    _SHARED.update(connections)
    return connections


_SHARED: WeakSet[StoreConnection] = WeakSet()
