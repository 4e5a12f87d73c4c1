"""The one model whose vectors the documents have, held still for the length of a transaction."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from knowledge.db.connection import Transaction
from knowledge.db.migrate import refuse_other_model
from knowledge.db.statements import load_statements
from spot_sdk.documents import EmbeddingModel

_SQL = load_statements(Path(__file__).with_name("model_hold.sql"))


class Moment(NamedTuple):
    """The state of the documents, equal only while nothing changes, and the time by the database's clock."""

    state: str
    now: datetime


def hold_for_reading(transaction: Transaction, model: EmbeddingModel) -> Moment:
    """Keep a switch of the model out until the transaction ends, then raise ModelMismatch unless it is ``model``.

    Locked first, looked at second: what is seen then stays true. Returns the moment that was seen.
    """
    row = transaction.execute(_SQL["hold_for_reading"]).fetchone()
    moment = Moment("", datetime.min.replace(tzinfo=UTC)) if row is None else Moment(row.pop("state"), row.pop("now"))
    refuse_other_model(row, model)
    return moment


def hold_for_writing(transaction: Transaction, model: EmbeddingModel) -> None:
    """The same for who is going to write; two statements, since a weaker lock first could end in a deadlock."""
    transaction.execute(_SQL["hold_for_writing"])
    refuse_other_model(transaction.execute(_SQL["embedding_model"]).fetchone(), model)
