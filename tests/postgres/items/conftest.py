"""The Knowledge Layer on a real PostgreSQL, and sessions of an owner, an agent and a stranger."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from knowledge.db.connection import Database
from knowledge.items.layer import KnowledgeLayer
from knowledge.items.session import AgentClass, Session
from knowledge.items.store import ItemStore
from tests.conftest import ServerUrls

OWNER = Session("justine", AgentClass.OWNER)
HOME = Session("muse", AgentClass.FLEET, frozenset({"home", "work"}))
WORK_ONLY = Session("temp", AgentClass.EXTERNAL, frozenset({"work"}))


@pytest.fixture
def layer(database: Database, database_url: str) -> KnowledgeLayer:
    """With the compartments home, work and ledger beside the firewalled divorce."""
    with psycopg.connect(database_url) as connection:
        connection.execute("SET ROLE knowledge_layer_steward")
        connection.execute("INSERT INTO knowledge_layer.compartments (id) VALUES ('home'), ('work'), ('ledger')")
    return KnowledgeLayer.on(database)


@pytest.fixture
def items(layer: KnowledgeLayer) -> ItemStore:
    return layer.store


@pytest.fixture
def superuser(database_url: str, postgres_server: ServerUrls) -> Iterator[psycopg.Connection]:
    """The server's superuser in the test's database, each statement committed at once."""
    name = conninfo_to_dict(database_url)["dbname"]
    with psycopg.connect(make_conninfo(postgres_server.superuser, dbname=name), autocommit=True) as connection:
        yield connection
