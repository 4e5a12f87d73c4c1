"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.cells import cell_len

from spot_sdk.errors import InvalidTagExpression
from spot_sdk.tag_expression import parse

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout, and nothing else there.")]

Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        envvar="SPOT_KNOWLEDGE_URL",
        metavar="URL",
        help="Base of the Knowledge API, such as http://127.0.0.1:8787/api/v1/knowledge. "
        "Without it: the local stack that runs. The key is taken from SPOT_INTERNAL_API_KEY, or from that stack. "
        "`knowledge --stack NAME` goes before it.",
    ),
]

Database = Annotated[
    str | None,
    typer.Option(
        "--database",
        envvar="DATABASE_URL",
        metavar="DSN",
        help="Address of the database. Without it: that of the local stack that runs.",
    ),
]

Backend = Annotated[
    str | None,
    typer.Option(
        "--embedding-backend",
        metavar="NAME",
        help="minilm, hash, ollama, bedrock or openai. Without it: EMBEDDING_BACKEND, or what the local stack uses.",
    ),
]


def _readable_expression(text: str | None) -> str | None:
    """Refuse an expression that cannot be read, with a caret under the place."""
    try:
        parse(text)
    except InvalidTagExpression as error:
        shown = "".join(c if c.isprintable() else " " for c in text or "")
        caret = " " * cell_len(shown[: error.column - 1]) + "^"
        raise typer.BadParameter(f"{error.message}\n  {shown}\n  {caret}") from None
    return text


TagExpression = Annotated[
    str | None,
    typer.Option(
        "--tags",
        metavar="EXPRESSION",
        callback=_readable_expression,
        help="Only documents with these tags: + is and, | is or, + binds tighter: 'policy+finance|incident_report'.",
    ),
]
