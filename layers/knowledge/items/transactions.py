"""Transactions of a session: under the database role that bounds what it can do, and under its own name."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

import psycopg

from knowledge.db.connection import Database, Snapshot, Transaction
from knowledge.db.statements import load_statements
from knowledge.items.refusals import refusal
from knowledge.items.session import Session

_SQL = load_statements(Path(__file__).with_name("transactions.sql"))

T = TypeVar("T")


class Role(StrEnum):
    """Roles of the database (migration 0010). The connection's user has to be a member of the one asked for."""

    APP = "knowledge_layer_app"
    STEWARD = "knowledge_layer_steward"
    """For what only the estate's owner may: delete, grant, make compartments."""


class ItemTransactions:
    """Runs work on the items, each in one transaction; whatever is refused or fails leaves the connection usable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, session: Session, work: Callable[[Transaction], T], *, role: Role = Role.APP) -> T:
        """What ``work`` returns. Raises as ``Database.run`` does, and the refusals of ``refusals``."""
        return self._run("begin", session, work, role)

    def write(self, session: Session, work: Callable[[Transaction], T], *, role: Role = Role.APP) -> T:
        """The same for work that ends up in provenance: one at a time, first come first served.

        It is not done again when the connection is lost, since it may have been done.
        """
        return self._run("begin_writing", session, work, role, repeat_after_loss=False)

    @contextmanager
    def snapshot(self, session: Session) -> Generator[Snapshot]:
        """Read one moment of the items for as long as that takes, as ``Database.snapshot`` does, under Role.APP."""
        with self._database.snapshot() as snapshot:
            try:
                with snapshot.transaction() as transaction:
                    transaction.execute(_SQL["begin"], _names(session, Role.APP))
                yield snapshot
            except psycopg.Error as error:
                refused = refusal(error.sqlstate)
                if refused is None:
                    raise
                raise refused from error

    def _run(
        self,
        begin: str,
        session: Session,
        work: Callable[[Transaction], T],
        role: Role,
        *,
        repeat_after_loss: bool = True,
    ) -> T:
        def within(transaction: Transaction) -> T:
            try:
                transaction.execute(_SQL[begin], _names(session, role))
                return work(transaction)
            except psycopg.Error as error:
                refused = refusal(error.sqlstate)
                if refused is None:
                    raise
                raise refused from error

        return self._database.run(within, repeat_after_loss=repeat_after_loss)


def _names(session: Session, role: Role) -> dict[str, str]:
    return {"role": role, "actor": session.identity, "actor_class": session.agent_class}
