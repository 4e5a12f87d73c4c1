"""Stored documents: find, read, end, delete."""

from __future__ import annotations

import asyncio

from pydantic import ValidationError

from console.rendering import page
from console.visit import Answer, Store, Visit, redirect
from spot_sdk.documents import DocumentPage, ListDocuments, Stats
from spot_sdk.errors import InvalidRequest

_PER_PAGE = 50


def show(visit: Visit) -> Answer:
    """One page of them, narrowed by source, tags or how ids begin."""
    given = {name: value for name in ("after", "prefix", "source", "tags") if (value := visit.query.get(name))}
    try:
        wanted = ListDocuments.model_validate(given | {"limit": _PER_PAGE})
    except ValidationError as error:
        raise InvalidRequest(error.errors()[0]["msg"]) from error

    async def look(store: Store) -> tuple[DocumentPage, Stats]:
        return await asyncio.gather(store.operators.documents(wanted), store.knowledge.stats())

    found, stats = visit.ask(look)
    return page("documents.html", visit=visit, wanted=wanted, found=found, stats=stats, gone="gone" in visit.query)


def show_one(visit: Visit) -> Answer:
    """A document as it is stored."""
    document = visit.ask(lambda store: store.operators.document(visit.query.get("id", "")))
    return page("document.html", visit=visit, document=document, confirm="")


def ask_first(visit: Visit) -> Answer:
    """The document again, with the question whether it shall really go."""
    how = "delete" if visit.query.get("how") == "delete" else "expire"
    document = visit.ask(lambda store: store.operators.document(visit.query.get("id", "")))
    return page("document.html", visit=visit, document=document, confirm=how)


def end(visit: Visit) -> Answer:
    """Delete a document, or let no query find it any more."""
    document_id = visit.form.get("id", "")
    if visit.form.get("how") == "delete":
        visit.ask(lambda store: store.knowledge.delete(document_id))
    else:
        visit.ask(lambda store: store.operators.expire([document_id]))
    return redirect("/console/documents?gone=1")
