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
from spot_sdk.checks import build
from spot_sdk.client import KnowledgeClient
from spot_sdk.documents import MAX_TOP_K, KnowledgeDocument, Query, QueryDebug, QueryResult, Strategy
from spot_sdk.tag_expression import parse

_SNIPPET_LENGTH = 220
_HEADING_MARKS = re.compile(r"^#{1,6} +", re.MULTILINE)


def query(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The question, or '-' to read it from stdin.")],
    tags: TagExpression = None,
    top_k: Annotated[int, typer.Option("--top-k", min=1, max=MAX_TOP_K, help="How many documents at most.")] = 5,
    min_score: Annotated[
        float, typer.Option("--min-score", min=0, max=1, help="Leave out documents that are less similar than this.")
    ] = 0.0,
    strategy: Annotated[
        Strategy,
        typer.Option(
            "--strategy",
            help="similarity: by meaning. diverse: without near-repeats. hybrid: by meaning and words, people first. "
            "people: by names and addresses.",
        ),
    ] = "similarity",
    debug: Annotated[bool, typer.Option("--debug", help="Tell how the question was answered.")] = False,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Find the documents that answer a text best.

    Examples:

    \b
      knowledge query "Who may approve a payment to a new bank account?" --tags policy
      knowledge query "wire transfer urgent CEO" --tags "policy+finance|incident_report" --top-k 3
      knowledge query "From: Vera Lind <vera.lind@examp1e.test>" --strategy people --debug
      knowledge query - --min-score 0.4 --json < mail.txt
    """
    asked = build(
        Query,
        {
            "text": sys.stdin.read() if text == "-" else text,
            "tags": str(expression) if (expression := parse(tags)) else None,
            "top_k": top_k,
            "min_score": min_score,
            "strategy": strategy,
            "debug": debug,
        },
    )

    async def ask(client: KnowledgeClient) -> QueryResult:
        return await client.ask(asked)

    answer = call(url, ask)
    if as_json:
        print_json(answer)
    elif answer.documents:
        print_answer(answer.documents)
    else:
        note(f"Nothing was found. {_advice(tags, min_score, strategy)}")
    if answer.debug is not None and not as_json:
        print_debug(answer.debug)


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
                (_evidence(document), "yellow"),
                f"{snippet(_HEADING_MARKS.sub('', document.content), _SNIPPET_LENGTH)}\n",
            ),
        )
    results.print(answer)


def print_debug(debug: QueryDebug) -> None:
    """A table of the legs of a search: their plans, what they expected and found, and how long they took."""
    legs = table("leg", "plan", "expected rows", "found", "ms", right=("expected rows", "found", "ms"))
    for leg in debug.legs:
        expected = "" if leg.expected_rows is None else f"{leg.expected_rows:,}"
        legs.add_row(leg.leg, leg.plan, expected, str(leg.found), f"{leg.milliseconds:.1f}")
    results.print(legs)


def _evidence(document: KnowledgeDocument) -> str:
    """Which name or address of the document answers which words, and how nearly."""
    if document.evidence is None:
        return ""
    found = document.evidence
    return (
        f"{found.match} {found.field}: {printable(found.asked)} ~ {printable(found.stored)} ({found.similarity:.2f})\n"
    )


def _title(document: KnowledgeDocument) -> str:
    """Title and headings, as far as the document has them."""
    title, headings = document.metadata.get("title"), document.metadata.get("heading_path")
    parts = [title] if isinstance(title, str) else []
    parts += [part for part in headings if isinstance(part, str)] if isinstance(headings, list) else []
    return printable(" > ".join(dict.fromkeys(parts))) or "(untitled)"


def _advice(tags: str | None, min_score: float, strategy: Strategy) -> str:
    if min_score > 0:
        return f"Ask again with a --min-score below {min_score:g}."
    if strategy == "people":
        return "The text has no name or address that resembles one in the store; --strategy hybrid asks by words too."
    if tags:
        return f"No document has the tags {tags!r}. A query without --tags shows the tags of what it finds."
    return "The store is empty; `knowledge ingest FOLDER --source NAME` loads documents."
