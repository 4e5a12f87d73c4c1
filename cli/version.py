"""``knowledge version``: what runs here, and what runs there."""

from __future__ import annotations

from cli.options import Json, Url
from cli.output import note, print_json, printable, results
from cli.store import call
from knowledge import __version__
from spot_sdk.client import KnowledgeClient
from spot_sdk.documents import Version
from spot_sdk.errors import Unavailable


def version(url: Url = None, as_json: Json = False) -> None:
    """Print versions and the embedding model.

    Those of this command and of the store. Without --url and without a local stack that runs, there is no store to ask.

    Examples:

    \b
      knowledge version
      knowledge version --json | jq -r .store.embedding.chunk_chars
    """

    async def ask(client: KnowledgeClient) -> Version:
        return await client.version()

    try:
        store = call(url, ask)
    except Unavailable as error:
        if url is not None:
            raise
        store = None
        note(error.message)
    if as_json:
        print_json({"version": __version__, "store": store and store.model_dump(mode="json")})
        return
    results.print(f"knowledge {__version__}")
    if store is not None:
        model = store.embedding
        results.print(f"store {printable(store.version)}")
        results.print(f"embedding {printable(model.model)} {printable(model.version)} ({printable(model.backend)})")
        results.print(f"  {model.dimensions} dimensions; chunk to {model.chunk_chars} characters")
