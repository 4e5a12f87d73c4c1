"""The server on stdin and stdout, from the environment to the last request."""

from __future__ import annotations

from typing import TextIO

import anyio
from mcp.server.stdio import stdio_server

from knowledge.db.connection import Database
from knowledge.items.layer import KnowledgeLayer
from knowledge.settings import SettingsError
from mcp_server.server import make_server
from mcp_server.settings import McpSettings


def serve(settings: McpSettings, stdout: TextIO) -> None:
    """Serve until stdin ends. ``stdout`` is one that nobody else writes to (``stdio.reserved_stdout``).

    Raises SettingsError when a grant is for no compartment, and the store's errors when the database cannot be used;
    both before anything is served.
    """
    database = Database(settings.dsn.get_secret_value, application_name="knowledge-mcp")
    try:
        layer = KnowledgeLayer.on(database)
        _require_compartments(layer, settings)
        anyio.run(_serve, layer, settings, stdout)
    finally:
        database.close()


async def _serve(layer: KnowledgeLayer, settings: McpSettings, stdout: TextIO) -> None:
    server = make_server(layer, settings.session, write_enabled=settings.write_enabled)
    async with stdio_server(stdout=anyio.wrap_file(stdout)) as (read, write):
        await server.run(read, write, server.create_initialization_options())


def _require_compartments(layer: KnowledgeLayer, settings: McpSettings) -> None:
    missing = (settings.session.scope or frozenset()) - {each.id for each in layer.compartments.list(settings.session)}
    if missing:
        raise SettingsError(f"KL_GRANTS: there is no compartment {', '.join(sorted(missing))}")
