"""The one model whose vectors the documents have, held still for the length of a transaction."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from knowledge.db.connection import Transaction
from knowledge.db.migrate import refuse_other_model
from knowledge.db.statements import load_statements
from spot_sdk.documents import EmbeddingModel

_SQL = load_statements(Path(__file__).with_name("model_hold.sql"))


def hold_model(transaction: Transaction, model: EmbeddingModel, purpose: Literal["reading", "writing"]) -> None:
    """Keep a switch of the model out until the transaction ends, then raise ModelMismatch unless it is ``model``.

    Locked first, looked at second: what is seen then stays true.
    """
    transaction.execute(_SQL["hold_for_reading"] if purpose == "reading" else _SQL["hold_for_writing"])
    refuse_other_model(transaction.execute(_SQL["embedding_model"]).fetchone(), model)
