"""The vectors of items: made of each item's passages, by the current model, when a search first needs them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pgvector import Vector as PgVector

from knowledge.db.connection import Transaction
from knowledge.db.statements import load_statements
from knowledge.items.models import ItemModel, embedder_of
from knowledge.items.passages import passages
from knowledge.items.session import Session
from knowledge.items.transactions import ItemTransactions
from spot_sdk.errors import EmbeddingFailed, StoreUnavailable

if TYPE_CHECKING:
    from knowledge.embedding.base import Vector

BATCH = 64

_SQL = load_statements(Path(__file__).with_name("embeddings.sql"))


class Embedded(NamedTuple):
    """An item at a version, and the vectors of its passages; none where the model refuses its text."""

    item_id: str
    item_version: int
    vectors: list[Vector]


class ItemEmbeddings:
    """Gives items their vectors. This is machinery: no access is recorded, and provenance tells nothing of it."""

    def __init__(self, transactions: ItemTransactions) -> None:
        self._transactions = transactions

    def current(self, session: Session) -> ItemModel:
        """The model by whose vectors items are searched."""
        return self._transactions.read(session, current_model)

    def index(self, scope: Sequence[str], session: Session) -> int:
        """Embed what the compartments in ``scope`` have without vectors of the current model; returns how many items.

        Searches do this first, so it need only be called to spare the first search the wait. An item that is changed
        or deleted meanwhile is left alone. Raises ModelMismatch when this code does not make the current model's.
        """
        done = 0
        while rows := self._transactions.read(session, lambda transaction: _unindexed(transaction, scope)):
            model = ItemModel(*(rows[0][name] for name in ItemModel._fields))
            embedded = embed(model, rows)
            self._transactions.read(session, lambda transaction, m=model, e=embedded: _keep(transaction, m, e))
            done += len(rows)
        return done


def current_model(transaction: Transaction) -> ItemModel:
    """The model by whose vectors items are searched."""
    row = transaction.execute(_SQL["current"]).fetchone()
    if row is None:
        raise StoreUnavailable("no model is recorded for the items")
    return ItemModel(**row)


def embed(model: ItemModel, rows: Sequence[dict[str, Any]]) -> list[Embedded]:
    """Vectors of the passages of items, which are rows of id, item_version, title, summary and body."""
    texts = [
        [passage.embedded for passage in passages(row["title"], row["summary"], row["body"], model.chunk_chars)]
        for row in rows
    ]
    made = iter(embedder_of(model).embed_batch([text for of_item in texts for text in of_item]))
    embedded: list[Embedded] = []
    for row, of_item in zip(rows, texts, strict=True):
        vectors = [next(made) for _ in of_item]
        usable = [vector for vector in vectors if not isinstance(vector, EmbeddingFailed)]
        embedded.append(Embedded(row["id"], row["item_version"], usable if len(usable) == len(vectors) else []))
    return embedded


def write_vectors(transaction: Transaction, model: ItemModel, embedded: Sequence[Embedded]) -> list[Embedded]:
    """Put vectors in the place of the model's former ones; returns the items that still were as embedded."""
    parameters: dict[str, Any] = {
        "ids": [item.item_id for item in embedded],
        "item_versions": [item.item_version for item in embedded],
    }
    held = {row["id"] for row in transaction.execute(_SQL["hold"], parameters)}
    kept = [item for item in embedded if item.item_id in held]
    rows = [(item, chunk, vector) for item in kept for chunk, vector in enumerate(item.vectors)]
    transaction.execute(
        _SQL["forget"], {"ids": [item.item_id for item in kept], "model": model.model, "version": model.version}
    )
    transaction.execute(
        _SQL["remember"],
        {
            "ids": [item.item_id for item, _, _ in rows],
            "item_versions": [item.item_version for item, _, _ in rows],
            "chunks": [chunk for _, chunk, _ in rows],
            "embeddings": [PgVector(vector) for _, _, vector in rows],
            "model": model.model,
            "version": model.version,
        },
    )
    return kept


def _unindexed(transaction: Transaction, scope: Sequence[str]) -> list[dict[str, Any]]:
    return transaction.execute(_SQL["unindexed"], {"scope": list(scope), "limit": BATCH}).fetchall()


def _keep(transaction: Transaction, model: ItemModel, embedded: Sequence[Embedded]) -> None:
    kept = write_vectors(transaction, model, embedded)
    transaction.execute(
        _SQL["done"],
        {
            "ids": [item.item_id for item in kept],
            "item_versions": [item.item_version for item in kept],
            "model": model.model,
            "version": model.version,
        },
    )
