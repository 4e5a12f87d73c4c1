"""``knowledge reembed``: another embedding model for the documents, while queries and writes go on."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from cli.database import open_connection, stack_variables
from cli.options import Database, Json, Url
from cli.output import note, print_json, results
from cli.progress import progress_bar
from cli.store import call, running_stack
from spot_sdk.documents import EmbeddingModel
from spot_sdk.errors import Conflict, InvalidInput, Unavailable

if TYPE_CHECKING:
    from knowledge.documents.reembed import State
    from knowledge.embedding.base import Embedder


class Instead(StrEnum):
    """What else can be done about a change of model."""

    STATUS = "status"
    ABORT = "abort"
    DROP_OLD = "drop-old"


def reembed(
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="The next model. Without it: EMBEDDING_NEXT_MODEL.")
    ] = None,
    backend: Annotated[
        str | None,
        typer.Option("--embedding-backend", metavar="NAME", help="Its backend. Without it: EMBEDDING_NEXT_BACKEND."),
    ] = None,
    dimensions: Annotated[
        int | None, typer.Option("--dimensions", min=1, help="Only for a model whose size is not known.")
    ] = None,
    status: Annotated[bool, typer.Option("--status", help="Only tell how things stand.")] = False,
    abort: Annotated[bool, typer.Option("--abort", help="Give up a change that is not finished.")] = False,
    drop_old: Annotated[bool, typer.Option("--drop-old", help="Remove the vectors of the model before.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Switch even if the functions that run may not know the next model.")
    ] = False,
    database: Database = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Move the documents to another embedding model, while queries and writes go on.

    First have the functions know both models: set EMBEDDING_NEXT_BACKEND (and EMBEDDING_NEXT_MODEL), deploy or restart.
    Then run this; they follow the switch by themselves. Then make the next model theirs (EMBEDDING_BACKEND, ...), and
    drop the old vectors. When it is interrupted, run it again: it goes on where it was.

    Examples:

    \b
      knowledge reembed --embedding-backend ollama --model bge-m3
      knowledge reembed --status
      knowledge reembed --abort
      knowledge reembed --drop-old
    """
    from knowledge.documents import reembed as change
    from knowledge.documents.tag_indexes import TagIndexes

    instead = _instead(status=status, abort=abort, drop_old=drop_old)
    variables = None if database else stack_variables(running_stack(instead="--database"))
    with open_connection(database) as connection:
        if instead is Instead.STATUS:
            found = change.state(connection)
            if as_json:
                print_json(found._asdict())
            else:
                _tell(found)
        elif instead is Instead.ABORT:
            change.abort(connection)
            note("the change is given up; all is as it was")
        elif instead is Instead.DROP_OLD:
            note("the old vectors are gone" if change.drop_old(connection) else "there are no old vectors")
        else:
            embedder = _next_embedder(variables, backend, model, dimensions)
            if not force:
                _require_that_functions_know(embedder.model, url, local=database is None)
            with progress_bar("documents") as bar:
                task = bar.add_task("embedding", total=None)
                change.Reembedding(connection, embedder).run(
                    note, lambda done, total: bar.update(task, completed=done, total=total)
                )
            TagIndexes(connection, embedder.model).apply(
                lambda step: note(f"{step.action} the index of {step.tag} ...")
            )
            note(f"the documents have vectors of {embedder.model.model} {embedder.model.version} now; make it the")
            note("functions' own (EMBEDDING_BACKEND, EMBEDDING_MODEL), and then: knowledge reembed --drop-old")


def _tell(found: State) -> None:
    results.print(f"the documents have vectors of {found.today}")
    if found.started_at is not None:
        results.print(f"a change to {found.next} is under way since {found.started_at:%Y-%m-%d %H:%M}")
    if found.has_old_vectors:
        results.print("the vectors of the model before are still there: knowledge reembed --drop-old")


def _instead(*, status: bool, abort: bool, drop_old: bool) -> Instead | None:
    chosen = [
        name
        for name, is_chosen in ((Instead.STATUS, status), (Instead.ABORT, abort), (Instead.DROP_OLD, drop_old))
        if is_chosen
    ]
    if len(chosen) > 1:
        raise InvalidInput("--status, --abort and --drop-old are three different things; give one")
    return chosen[0] if chosen else None


def _next_embedder(
    variables: Mapping[str, str] | None, backend: str | None, model: str | None, dimensions: int | None
) -> Embedder:
    """The embedder of the next model. Raises InvalidInput when none is named."""
    from knowledge import settings
    from knowledge.embedding.factory import make_embedder

    choice = settings.next_embedding(variables, backend=backend, model=model, dimensions=dimensions)
    if choice is None:
        raise InvalidInput("name the next model: --embedding-backend and --model, or EMBEDDING_NEXT_BACKEND")
    try:
        return make_embedder(choice)
    except ValueError as error:
        raise settings.SettingsError(str(error)) from error


def _require_that_functions_know(model: EmbeddingModel, url: str | None, *, local: bool) -> None:
    """Raise Conflict when the store that runs would not follow the switch."""
    if url is None and not local:
        raise Conflict(
            "whether the functions know the next model cannot be seen without --url; give it, or --force if they do"
        )
    try:
        version = call(url, lambda client: client.version())
    except Unavailable as error:
        raise Conflict(
            f"whether the functions know the next model cannot be seen: {error.message} (or --force)"
        ) from error
    known = [version.embedding, version.next_embedding]
    wanted = (model.model, model.version, model.dimensions)
    if not any(each is not None and (each.model, each.version, each.dimensions) == wanted for each in known):
        raise Conflict(
            f"the functions that run do not know {model.model}: start them with EMBEDDING_NEXT_BACKEND={model.backend} "
            f"EMBEDDING_NEXT_MODEL={model.model} first; else they refuse every request from then on (--force does it "
            "all the same)"
        )
