"""``knowledge query``: ask the store what an analyzer would ask."""

from __future__ import annotations

import re
import sys
from typing import Annotated

import typer
from rich.text import Text

from cli.options import Json, TagExpression, Url
from cli.output import note, print_json, printable, results, snippet, table
from cli.store import call
from spot_sdk.client import KnowledgeClient
from spot_sdk.documents import MAX_TOP_K, KnowledgeDocument, QueryResult

_SNIPPET_LENGTH = 220
_HEADING_MARKS = re.compile(r"^#{1,6} +", re.MULTILINE)


def query(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The question, or '-' to read it from stdin.")],
    tags: TagExpression = None,
    top_k: Annotated[int, typer.Option("--top-k", min=1, max=MAX_TOP_K, help="How many documents at most.")] = 5,
    min_score: Annotated[
        float, typer.Option("--min-score", min=0, max=1, help="Leave out documents that are less similar than this.")
    ] = 0.0,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Find the documents closest in meaning to a text.

    Examples:

    \b
      knowledge query "Who may approve a payment to a new bank account?" --tags policy
      knowledge query "wire transfer urgent CEO" --tags "policy+finance|incident_report" --top-k 3
      knowledge query - --min-score 0.4 --json < mail.txt
    """
    question = sys.stdin.read() if text == "-" else text

    async def ask(client: KnowledgeClient) -> list[KnowledgeDocument]:
        return await client.fetch(text=question, tags=tags, top_k=top_k, min_score=min_score)

    documents = call(url, ask)
    if as_json:
        print_json(QueryResult(documents=documents))
    elif documents:
        print_answer(documents)
    else:
        note(f"Nothing was found. {_advice(tags, min_score)}")


def print_answer(documents: list[KnowledgeDocument]) -> None:
    """A table of what a query found, best first: title and headings, tags, id, and how the text begins."""
    answer = table("score", "document", right=("score",))
    for document in documents:
        answer.add_row(
            f"{document.score:.3f}" if document.score is not None else "",
            Text.assemble(
                (_title(document), "bold"),
                (f"  [{', '.join(document.tags)}]\n", "cyan"),
                (f"{printable(document.id)}\n", "dim"),
                f"{snippet(_HEADING_MARKS.sub('', document.content), _SNIPPET_LENGTH)}\n",
            ),
        )
    results.print(answer)


def _title(document: KnowledgeDocument) -> str:
    """Title and headings, as far as the document has them."""
    title, headings = document.metadata.get("title"), document.metadata.get("heading_path")
    parts = [title] if isinstance(title, str) else []
    parts += [part for part in headings if isinstance(part, str)] if isinstance(headings, list) else []
    return printable(" > ".join(dict.fromkeys(parts))) or "(untitled)"


def _advice(tags: str | None, min_score: float) -> str:
    if min_score > 0:
        return f"Ask again with a --min-score below {min_score:g}."
    if tags:
        return f"No document has the tags {tags!r}; `knowledge stats` shows those that there are."
    return "The store is empty; `knowledge ingest FOLDER --source NAME` loads documents."
