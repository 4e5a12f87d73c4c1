"""The errors of the Knowledge Store, and the closed set of codes that name them.

    KnowledgeError
    ├── InvalidInput            the caller can mend it; repeating it as it is cannot help
    │   ├── MalformedRequest    the body is not the JSON that was announced
    │   ├── InvalidRequest      a field of the request is missing or out of range
    │   ├── InvalidDocument     a document breaks a rule; `problems` names document and field
    │   ├── DuplicateDocument   one id twice in a batch
    │   ├── InvalidItem         an item of the Knowledge Layer breaks a rule; `problems` names the fields
    │   ├── InvalidTagExpression  `column` and `expected` say where and what
    │   └── PayloadTooLarge
    ├── Unauthorized            no key, or a wrong one
    ├── Forbidden               the key is right and does not allow this
    │   └── FirewallCrossed     a link would cross the edge of a compartment with a firewall
    ├── NotFound
    ├── MethodNotAllowed
    ├── Conflict                the state of the store does not allow this now
    │   ├── SyncRunning         another run of this source or provider has not ended
    │   └── StaleRun            this run has ended, or another one took its place
    ├── EmbeddingFailed         the embedder refused a text; everything else in the batch is stored
    ├── Unavailable             try again later; `retry_after_s` where the server said so
    │   ├── StoreUnavailable    the database cannot be reached
    │   ├── EmbedderUnavailable
    │   ├── Overloaded
    │   ├── DeadlineExceeded
    │   ├── ModelMismatch       the store holds vectors of another model
    │   └── Misconfigured       the server's settings are not right; the message names the variable
    └── InternalError

The server maps an exception to a status and a code, the client maps the code back to the exception; both read `code`
and `status` from the classes below, so there is one table and no second one to keep equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel

if TYPE_CHECKING:
    from spot_sdk.documents import UpsertResult


MAX_PROBLEMS = 100
"""So many problems an error lists; its message says how many more there are."""


class Problem(BaseModel):
    """One thing wrong with a request: which document (its id, if it has one), which field, and why."""

    document: str | None = None
    field: str | None = None
    message: str


class KnowledgeError(Exception):
    """Root of every error that this product raises on purpose.

    ``result`` is set on an error that ends a bulk upsert: what the store had acknowledged by then.
    """

    code: ClassVar[str] = "error"
    status: ClassVar[int] = 500
    title: ClassVar[str] = "Knowledge Store error"
    member_names: ClassVar[tuple[str, ...]] = ()
    """Attributes of this class alone that travel with it."""

    result: UpsertResult | None = None

    def __init__(
        self,
        message: str = "",
        *,
        problems: Sequence[Problem] = (),
        retry_after_s: float | None = None,
        correlation_id: str | None = None,
    ) -> None:
        super().__init__(message or self.title)
        self.message = message or self.title
        self.problems = list(problems[:MAX_PROBLEMS])
        self.retry_after_s = retry_after_s
        self.correlation_id = correlation_id

    def members(self) -> dict[str, Any]:
        """The values that ``member_names`` names."""
        return {name: getattr(self, name) for name in self.member_names}


class InvalidInput(KnowledgeError):
    code = "invalid_input"
    status = 422
    title = "The request is not valid"


class MalformedRequest(InvalidInput):
    code = "malformed_request"
    status = 400
    title = "The request body cannot be read"


class InvalidRequest(InvalidInput):
    code = "invalid_request"
    title = "A field of the request is not valid"


class InvalidDocument(InvalidInput):
    code = "invalid_document"
    title = "A document is not valid"


class DuplicateDocument(InvalidInput):
    code = "duplicate_document"
    title = "A document id stands twice in one batch"


class InvalidItem(InvalidInput):
    code = "invalid_item"
    title = "An item is not valid"


class InvalidTagExpression(InvalidInput):
    """A tag expression that cannot be read: `column` is 1-based, `expected` says what would have been right."""

    code = "invalid_tag_expression"
    title = "The tag expression is not valid"
    member_names = ("column", "expected")

    def __init__(self, message: str = "", *, column: int = 0, expected: str = "", **common: Any) -> None:
        super().__init__(message, **common)
        self.column = column
        self.expected = expected


class PayloadTooLarge(InvalidInput):
    code = "payload_too_large"
    status = 413
    title = "The request is too large"


class Unauthorized(KnowledgeError):
    code = "unauthorized"
    status = 401
    title = "A valid key is needed"


class Forbidden(KnowledgeError):
    code = "forbidden"
    status = 403
    title = "The key does not allow this"


class FirewallCrossed(Forbidden):
    code = "firewall_crossed"
    title = "A link would cross a compartment's firewall"


class NotFound(KnowledgeError):
    code = "not_found"
    status = 404
    title = "There is no such thing"


class MethodNotAllowed(KnowledgeError):
    code = "method_not_allowed"
    status = 405
    title = "The method is not allowed here"


class Conflict(KnowledgeError):
    code = "conflict"
    status = 409
    title = "The store's present state does not allow this"


class SyncRunning(Conflict):
    code = "sync_running"
    title = "A sync run is under way"


class StaleRun(Conflict):
    code = "stale_run"
    title = "This sync run may not write any more"


class EmbeddingFailed(KnowledgeError):
    code = "embedding_failed"
    status = 422
    title = "The embedder could not embed a text"


class Unavailable(KnowledgeError):
    code = "unavailable"
    status = 503
    title = "Not available now"


class StoreUnavailable(Unavailable):
    code = "store_unavailable"
    title = "The database cannot be reached"


class EmbedderUnavailable(Unavailable):
    code = "embedder_unavailable"
    title = "The embedder cannot be reached"


class Overloaded(Unavailable):
    code = "overloaded"
    title = "Too many requests at once"


class DeadlineExceeded(Unavailable):
    code = "deadline_exceeded"
    status = 504
    title = "The time allowed ran out"


class ModelMismatch(Unavailable):
    code = "model_mismatch"
    title = "The store holds vectors of another embedding model"


class Misconfigured(Unavailable):
    code = "misconfigured"
    title = "The Knowledge Store is not set up right"


class InternalError(KnowledgeError):
    code = "internal_error"
    title = "Something broke inside the Knowledge Store"


def _subclasses(root: type[KnowledgeError]) -> Iterator[type[KnowledgeError]]:
    yield root
    for child in root.__subclasses__():
        yield from _subclasses(child)


def errors_by_code() -> dict[str, type[KnowledgeError]]:
    """Every code with its class; the client's half of the table."""
    return {error.code: error for error in _subclasses(KnowledgeError)}
