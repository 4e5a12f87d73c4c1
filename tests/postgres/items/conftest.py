"""The Knowledge Layer on a real PostgreSQL, and sessions of an owner, an agent and a stranger."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from knowledge.db.connection import Database
from knowledge.items.layer import KnowledgeLayer
from knowledge.items.model import ItemDraft
from knowledge.items.session import AgentClass, Session
from knowledge.items.store import ItemStore
from tests.conftest import Server

OWNER = Session("justine", AgentClass.OWNER)
HOME = Session("muse", AgentClass.FLEET, frozenset({"home", "work"}))
WORK_ONLY = Session("temp", AgentClass.EXTERNAL, frozenset({"work"}))


def draft(title: str = "Keys", **fields: Any) -> ItemDraft:
    """A valid envelope of little content, with these fields instead."""
    return ItemDraft.parse({"type": "fact", "title": title, "body": {"text": "a body"}, "compartment": "home"} | fields)


def layer_on(database: Database) -> KnowledgeLayer:
    """With the compartments home, work and ledger beside the firewalled divorce."""
    layer = KnowledgeLayer.on(database)
    for name in ("home", "work", "ledger"):
        layer.compartments.add(name, OWNER)
    return layer


@pytest.fixture
def layer(database: Database) -> KnowledgeLayer:
    return layer_on(database)


@pytest.fixture
def items(layer: KnowledgeLayer) -> ItemStore:
    return layer.store


@pytest.fixture
def superuser(database_url: str, postgres_server: Server) -> Iterator[psycopg.Connection]:
    """The server's superuser in the test's database, each statement committed at once."""
    with psycopg.connect(superuser_url(database_url, postgres_server), autocommit=True) as connection:
        yield connection


def superuser_url(database_url: str, server: Server) -> str:
    """The same database for the server's superuser."""
    return make_conninfo(server.superuser, dbname=conninfo_to_dict(database_url)["dbname"])


Login = Callable[[str], str]


@pytest.fixture
def login(database_url: str, superuser: psycopg.Connection) -> Iterator[Login]:
    """Makes a database user that is a member of one role, and gives its address in the test's database."""
    made: list[sql.Identifier] = []

    def make(role: str) -> str:
        name = f"test_{uuid.uuid4().hex}"
        superuser.execute(
            sql.SQL("CREATE ROLE {} LOGIN PASSWORD {} IN ROLE {}").format(
                sql.Identifier(name), sql.Literal(name), sql.Identifier(role)
            )
        )
        made.append(sql.Identifier(name))
        return make_conninfo(database_url, user=name, password=name)

    yield make
    for name in made:
        superuser.execute(sql.SQL("DROP OWNED BY {}").format(name))
        superuser.execute(sql.SQL("DROP ROLE {}").format(name))
