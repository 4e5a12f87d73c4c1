"""The Knowledge Layer as a whole, on one database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from knowledge.db.connection import Database
from knowledge.items.compartments import Compartments
from knowledge.items.deletion import Deletion
from knowledge.items.embeddings import ItemEmbeddings
from knowledge.items.gate import Gate
from knowledge.items.grants import Grants
from knowledge.items.provenance import Provenance
from knowledge.items.search import ItemSearch
from knowledge.items.store import ItemStore
from knowledge.items.transactions import ItemTransactions


@dataclass(frozen=True, slots=True)
class KnowledgeLayer:
    """What can be done with items, each concern with an object of its own."""

    transactions: ItemTransactions
    store: ItemStore
    embeddings: ItemEmbeddings
    search: ItemSearch
    gate: Gate
    deletion: Deletion
    provenance: Provenance
    compartments: Compartments
    grants: Grants

    @classmethod
    def on(cls, database: Database) -> Self:
        """All of it over one connection."""
        transactions = ItemTransactions(database)
        embeddings = ItemEmbeddings(transactions)
        return cls(
            transactions,
            ItemStore(transactions),
            embeddings,
            ItemSearch(transactions, embeddings),
            Gate(transactions),
            Deletion(transactions, database),
            Provenance(transactions),
            Compartments(transactions),
            Grants(transactions),
        )
