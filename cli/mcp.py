"""``knowledge mcp``: the Knowledge Layer for one agent, over stdio."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from cli.database import stack_variables
from cli.output import note
from local.home import Home
from local.postgres import EmbeddedPostgres
from local.settings import LocalSettings

if TYPE_CHECKING:
    from mcp_server.settings import McpSettings


def mcp(
    demo: Annotated[
        bool, typer.Option("--demo", help="Serve a small made-up estate in the local database, as its owner.")
    ] = False,
) -> None:
    """Serve the Knowledge Layer to an agent, by MCP over stdin and stdout.

    The environment says on whose behalf: KL_DSN (the database), KL_AGENT_IDENTITY (the name that goes into provenance),
    KL_AGENT_CLASS (owner, chief, sweeper, fleet or external), KL_GRANTS (compartments, separated by commas) and
    KL_WRITE_ENABLED (1 lets an external agent write). Whoever calls has no say in any of it. Register this command
    with the agent's client; docs/guides/mcp.md shows how.

    Examples:

    \b
      knowledge mcp --demo
      KL_DSN=postgresql://... KL_AGENT_IDENTITY=muse KL_AGENT_CLASS=fleet KL_GRANTS=home,work knowledge mcp
    """
    from mcp_server.serve import serve
    from mcp_server.settings import McpSettings
    from mcp_server.stdio import reserved_stdout

    with reserved_stdout() as stdout:
        if demo:
            with _demonstration() as settings:
                serve(settings, stdout)
        else:
            serve(McpSettings.from_environment(), stdout)


@contextmanager
def _demonstration() -> Generator[McpSettings]:
    """A session on the demonstration's estate, in the database of KNOWLEDGE_HOME, which is started unless it runs."""
    from pydantic import SecretStr

    from knowledge import settings
    from knowledge.db.connection import Database
    from knowledge.db.migrate import migrate
    from knowledge.embedding.factory import make_embedder
    from knowledge.items.layer import KnowledgeLayer
    from mcp_server import demo
    from mcp_server.settings import McpSettings

    local = LocalSettings.from_environment()
    home = Home(local.home)
    with _database(home) as dsn:
        migrate(dsn, make_embedder(settings.embedding(local.functions)).model)
        database = Database(lambda: dsn, application_name="knowledge-cli")
        try:
            made = demo.fill(KnowledgeLayer.on(database))
        finally:
            database.close()
        seen = ", ".join(sorted(demo.SESSION.scope or ()))
        note(f"{made} items were made; serving {seen} to {demo.IDENTITY}, the owner")
        yield McpSettings(SecretStr(dsn), demo.SESSION)


@contextmanager
def _database(home: Home) -> Generator[str]:
    """The address of the home's database: that of the stack that runs there, or of one that is started for now."""
    running = home.running_stack()
    if running is not None:
        yield stack_variables((home, running))["DATABASE_URL"]
        return
    home.make()
    home.lock.acquire()
    try:
        home.stop_leftovers()
        with EmbeddedPostgres(home.data_dir, log_path=home.log_path("postgres")) as server:
            yield server.dsn
    finally:
        home.lock.release()
