"""Another embedding model for the documents, while queries and writes go on.

    begin ──► fill, batch by batch ──► build the index ──► fill what was written meanwhile ──► switch ──► drop the old

The next model's vectors grow in a column of their own beside today's, from which everything is answered until the
switch: one transaction that renames columns and indexes and changes the record of the model, so that a query sees one
model or the other and every document. Killed at any point it is simply run again; ``abort`` before the switch leaves
all as it was. docs/adr/0010 has the figures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, LiteralString, NamedTuple

from pgvector import Vector as PgVector
from psycopg import sql

from knowledge.db.connection import Database, Transaction, set_local
from knowledge.db.migrate import MAX_INDEXED_DIMENSIONS
from knowledge.db.statements import load_statements
from knowledge.documents.fingerprint import searchable_text
from knowledge.documents.vector_indexes import TAG_INDEX_PREFIX, VECTOR_INDEX
from spot_sdk.documents import EmbeddingModel, KnowledgeDocument
from spot_sdk.errors import Conflict, EmbeddingFailed, Problem

if TYPE_CHECKING:
    from knowledge.embedding.base import Embedder

BATCH = 64
EMBEDDED_UNDER_LOCK = 64
"""So many documents may be left for the switch, during which writers wait."""

_PENDING_INDEX = "knowledge_documents_to_reembed"
_NEXT_INDEX = f"{VECTOR_INDEX}_next"
_LOCK_TIMEOUT = "5s"
_BUILD_MEMORY = "1GB"
_SHOWN = 20

_SQL = load_statements(Path(__file__).with_name("reembed.sql"))

Tell = Callable[[str], None]
"""Hears of each step before it is done."""

Progress = Callable[[int, int], None]
"""Hears how many documents have the next model's vector, and how many there are."""


class State(NamedTuple):
    """Today's model, the one that is being changed to (None: no change), and whether old vectors are still there."""

    today: str
    next: str | None
    started_at: datetime | None
    has_old_vectors: bool


class Reembedding:
    """One change of model, to that of ``embedder``. Needs a role that owns the table.

    Every method raises the store's errors; what waits for a lock for more than a moment raises Overloaded and may be
    called again.
    """

    def __init__(self, database: Database, embedder: Embedder) -> None:
        self._database = database
        self._embedder = embedder
        self._model = embedder.model

    def run(self, tell: Tell, progress: Progress) -> None:
        """All of it but dropping the old vectors; goes on where an earlier run of the same change was interrupted.

        Raises Conflict while a change to another model, a bulk load, or old vectors are in the way, EmbeddingFailed
        with the documents that the model refuses.
        """
        if self._is_todays():
            self._finish(tell)
            return
        self.begin()
        self._ensure_index(_PENDING_INDEX, "index_pending")
        tell("embedding the documents")
        self.fill(progress)
        tell("building the index")
        self._ensure_index(_NEXT_INDEX, "index_next", maintenance_work_mem=_BUILD_MEMORY)
        tell("switching")
        while not self.switch():
            self.fill(progress)
        self._finish(tell)

    def begin(self) -> None:
        """Make room for the next vectors, or find the room that an earlier run made. Raises Conflict."""
        if self._model.dimensions > MAX_INDEXED_DIMENSIONS:
            raise Conflict(
                f"{self._model.model} gives {self._model.dimensions} dimensions; the index holds at most "
                f"{MAX_INDEXED_DIMENSIONS}. Set EMBEDDING_NEXT_DIMENSIONS to what the model can be shortened to."
            )

        def work(transaction: Transaction) -> None:
            set_local(transaction, lock_timeout=_LOCK_TIMEOUT)
            transaction.execute(_SQL["hold_writers"])
            change = transaction.execute(_SQL["change"]).fetchone()
            if change is not None:
                self._require_mine(change)
                return
            if _there(transaction, "has_column", name="embedding_old"):
                raise Conflict(
                    "the vectors of the last change are still there; run `knowledge reembed --drop-old` first"
                )
            if _there(transaction, "is_bulk_loading"):
                raise Conflict("a bulk load is under way; run `knowledge bulk-load finish` first")
            transaction.execute(
                sql.SQL(_SQL["begin"]).format(
                    model=sql.Literal(self._model.model),
                    version=sql.Literal(self._model.version),
                    dimensions=sql.Literal(self._model.dimensions),
                )
            )

        self._database.run(work)

    def fill(self, progress: Progress) -> None:
        """Give every document that has none its vector of the next model; batches are kept as they are done.

        Raises EmbeddingFailed, at the end, with the documents that the model refuses; Conflict when the change is given
        up meanwhile.
        """
        documents, done = self._database.run(_count)
        refused: list[Problem] = []
        after = ""
        progress(done, documents)
        while rows := self._database.run(lambda t, after=after: self._pending(t, after)):
            filled = self._embed(rows, refused)
            self._database.run(lambda t, filled=filled: self._fill(t, filled))
            done += len(filled["ids"])
            after = rows[-1]["id"]
            progress(done, max(documents, done))
        _raise_refused(refused)

    def _pending(self, transaction: Transaction, after: str) -> list[dict[str, Any]]:
        _hold_change(transaction)
        return _pending(transaction, after, BATCH)

    def _fill(self, transaction: Transaction, filled: dict[str, Any]) -> None:
        _hold_change(transaction)
        transaction.execute(_SQL["fill"], filled)

    def switch(self) -> bool:
        """Answer from the next vectors from now on; False when too much was written meanwhile to be embedded at once.

        Raises EmbeddingFailed with the documents that the model refuses.
        """

        def work(transaction: Transaction) -> bool:
            set_local(transaction, lock_timeout=_LOCK_TIMEOUT)
            transaction.execute(_SQL["hold_writers"])
            change = transaction.execute(_SQL["change"]).fetchone()
            if change is None:
                raise Conflict("the change of model was aborted, or done by somebody else")
            self._require_mine(change)
            rows = _pending(transaction, "", EMBEDDED_UNDER_LOCK + 1)
            if len(rows) > EMBEDDED_UNDER_LOCK:
                return False
            if rows:
                refused: list[Problem] = []
                transaction.execute(_SQL["fill"], self._embed(rows, refused))
                _raise_refused(refused)
            transaction.execute(_SQL["hold_everybody"])
            for index in transaction.execute(_SQL["tag_indexes"], {"prefix": TAG_INDEX_PREFIX}).fetchall():
                transaction.execute(sql.SQL(_SQL["drop_held"]).format(name=sql.Identifier(index["name"])))
            transaction.execute(_SQL["switch"])
            return True

        return self._database.run(work, repeat_after_loss=False)

    def _finish(self, tell: Tell) -> None:
        """What follows a switch and keeps nobody waiting."""
        if not self._database.run(lambda t: _there(t, "has_constraint")):
            return
        tell("checking all rows")
        self._database.run(lambda t: t.execute(_SQL["validate"]))
        self._database.run(lambda t: t.execute(_SQL["require"]))
        self._database.run(lambda t: t.execute(_SQL["analyze"]))

    def _is_todays(self) -> bool:
        stored = self._database.run(lambda t: t.execute(_SQL["stored_model"]).fetchone())
        return stored is not None and dict(stored) == _identity(self._model)

    def _require_mine(self, change: dict[str, Any]) -> None:
        wanted = {name: change[name] for name in ("model", "version", "dimensions")}
        if wanted != _identity(self._model):
            raise Conflict(
                f"a change to {_name(wanted)} is under way; finish it, or give it up with `knowledge reembed --abort`"
            )

    def _ensure_index(self, name: str, statement: LiteralString, **settings: str) -> None:
        """Build an index beside readers and writers, anew where an interrupted build left it unfinished."""
        if self._database.run(lambda t: _there(t, "is_valid", name=name)):
            return
        drop = sql.SQL(_SQL["drop_index"]).format(name=sql.Identifier(name))
        self._database.run_outside_transaction(drop)
        self._database.run_outside_transaction(sql.SQL(_SQL[statement]), **settings)

    def _embed(self, rows: Sequence[dict[str, Any]], refused: list[Problem]) -> dict[str, Any]:
        """Parameters of ``fill`` for these documents; those that the model refuses are added to ``refused``."""
        texts = [searchable_text(KnowledgeDocument.model_construct(**row)) for row in rows]
        embedded = self._embedder.embed_batch(texts)
        filled: dict[str, Any] = {"ids": [], "content_hashes": [], "embeddings": []}
        for row, vector in zip(rows, embedded, strict=True):
            if isinstance(vector, EmbeddingFailed):
                refused.append(Problem(document=row["id"], field="content", message=vector.message))
            else:
                filled["ids"].append(row["id"])
                filled["content_hashes"].append(row["content_hash"])
                filled["embeddings"].append(PgVector(vector))
        return filled


def state(database: Database) -> State:
    """Where the documents stand; raises the store's errors."""

    def work(transaction: Transaction) -> State:
        stored = transaction.execute(_SQL["stored_model"]).fetchone()
        change = transaction.execute(_SQL["change"]).fetchone()
        return State(
            today="no model" if stored is None else _name(stored),
            next=None if change is None else _name(change),
            started_at=None if change is None else change["started_at"],
            has_old_vectors=_there(transaction, "has_column", name="embedding_old"),
        )

    return database.run(work)


def progress(database: Database) -> float | None:
    """The share of documents that have the next model's vector, from 0 to 1; None while no change is under way."""

    def work(transaction: Transaction) -> float | None:
        if transaction.execute(_SQL["change"]).fetchone() is None:
            return None
        counted = transaction.execute(_SQL["count"]).fetchone() or {"documents": 0, "done": 0}
        return counted["done"] / counted["documents"] if counted["documents"] else 1.0

    return database.run(work)


def abort(database: Database) -> None:
    """Give the change up; before the switch that leaves all as it was. Raises Conflict when none is under way."""

    def work(transaction: Transaction) -> None:
        set_local(transaction, lock_timeout=_LOCK_TIMEOUT)
        transaction.execute(_SQL["hold_everybody"])
        if transaction.execute(_SQL["change"]).fetchone() is None:
            raise Conflict("no change of the model is under way")
        transaction.execute(_SQL["abort"])

    database.run(work)


def drop_old(database: Database) -> bool:
    """Remove the vectors of the model before; False when there are none."""

    def work(transaction: Transaction) -> bool:
        set_local(transaction, lock_timeout=_LOCK_TIMEOUT)
        if not _there(transaction, "has_column", name="embedding_old"):
            return False
        transaction.execute(_SQL["drop_old"])
        return True

    return database.run(work)


def _there(transaction: Transaction, statement: LiteralString, **parameters: str) -> bool:
    row = transaction.execute(_SQL[statement], parameters).fetchone()
    return row is not None and row["there"]


def _count(transaction: Transaction) -> tuple[int, int]:
    """All documents, and those that have their next vector."""
    _hold_change(transaction)
    counted = transaction.execute(_SQL["count"]).fetchone()
    assert counted is not None
    return counted["documents"], counted["done"]


def _hold_change(transaction: Transaction) -> None:
    """Keep the change of model from being given up until the transaction ends. Raises Conflict where it was already."""
    if transaction.execute(_SQL["hold_change"]).fetchone() is None:
        raise Conflict("the change of model was aborted, or done by somebody else")


def _pending(transaction: Transaction, after: str, limit: int) -> list[dict[str, Any]]:
    return transaction.execute(_SQL["pending"], {"after": after, "limit": limit}).fetchall()


def _identity(model: EmbeddingModel) -> dict[str, Any]:
    return {"model": model.model, "version": model.version, "dimensions": model.dimensions}


def _name(model: dict[str, Any]) -> str:
    return "{model} {version} ({dimensions} dimensions)".format(**model)


def _raise_refused(refused: Sequence[Problem]) -> None:
    if refused:
        raise EmbeddingFailed(
            f"{len(refused)} documents cannot be embedded by the next model; change or delete them, and run it again",
            problems=refused[:_SHOWN],
        )
