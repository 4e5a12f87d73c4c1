"""``knowledge analyze``: have the example analyzers judge a mail, and show why."""

from __future__ import annotations

import re
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.text import Text

from cli.exits import ExitCode
from cli.options import Json, Url
from cli.output import print_json, printable, results, snippet, table
from cli.store import call
from spot_sdk.client import KnowledgeClient
from spot_sdk.errors import InvalidInput

if TYPE_CHECKING:
    from spot_sdk.analysis import AnalysisIndicator, AnalysisResult
    from spot_sdk.email import Email

_MAX_MAIL_BYTES = 25_000_000
_EXCERPT_LENGTH = 160

Analyze = Callable[["Email", KnowledgeClient], Awaitable["AnalysisResult"]]


AnalyzerName = Literal["rules", "llm"]


def analyze(
    mail: Annotated[str, typer.Argument(metavar="MAIL", help="A file with one mail (.eml), or '-' for stdin.")],
    analyzer: Annotated[
        AnalyzerName,
        typer.Option("--analyzer", help="rules: what the store knows. llm: a language model, by LLM_BACKEND."),
    ] = "rules",
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Judge a mail: verdict, what speaks for it, and the documents that show it.

    Exit codes say the verdict: 0 clean, 10 phishing, 11 suspicious, 12 no verdict (the analyzer abstains). Others are
    those of every command.

    Examples:

    \b
      knowledge analyze examples/company/mails/06-executive-freemail.eml
      knowledge analyze - --json < mail.eml
      LLM_BACKEND=ollama LLM_MODEL=qwen3:8b knowledge analyze mail.eml --analyzer llm
    """
    from spot_sdk.email import Email

    email = Email.from_bytes(_read(mail))
    judge = _judge(analyzer)
    result = call(url, lambda client: judge(email, client))
    if as_json:
        print_json(result)
    else:
        print_verdict(email, result)
    raise typer.Exit(exit_code(result))


async def judge_file(mail: Path, client: KnowledgeClient) -> tuple[Email, AnalysisResult]:
    """The mail, and what the rules make of it."""
    from spot_sdk.email import Email

    email = Email.from_bytes(_read(str(mail)))
    return email, await _rules()(email, client)


def exit_code(result: AnalysisResult) -> ExitCode:
    """The exit code that tells a script the verdict."""
    if result.is_phishing is None:
        return ExitCode.NO_VERDICT
    if result.is_phishing:
        return ExitCode.PHISHING
    return ExitCode.SUSPICIOUS if result.reason.startswith("suspicious") else ExitCode.OK


def print_verdict(email: Email, result: AnalysisResult) -> None:
    """The mail's headers that matter, the verdict, and each indicator with its documents, the weightiest first."""
    for name, value in {
        "From": ", ".join(map(str, email.headers.from_)),
        "Reply-To": ", ".join(map(str, email.headers.reply_to)),
        "Subject": email.subject,
    }.items():
        if value:
            results.print(f"{name + ':':10}{printable(value)}", soft_wrap=True)
    results.print()
    results.print(_headline(result))
    for repair in email.repairs:
        results.print(f"mended to read it: {printable(repair)}", style="dim")
    if not result.indicators:
        return
    results.print()
    found = table("weight", "what speaks against it, and the documents that show it", right=("weight",))
    for indicator in result.indicators:
        found.add_row(f"{indicator.weight:.2f}", _reasons(indicator))
    results.print(found)


def _headline(result: AnalysisResult) -> Text:
    if result.is_phishing is None:
        return Text(f"NO VERDICT: {printable(result.reason)}", style="bold yellow")
    reason = printable(result.reason)
    label = re.split("[:,]", reason, maxsplit=1)[0]
    style = {"phishing": "bold red", "suspicious": "bold yellow"}.get(label, "bold green")
    return Text.assemble(
        (label.upper(), style),
        f"{reason.removeprefix(label)} ({printable(result.analyzer)}, confidence {result.confidence:.2f})",
    )


def _reasons(indicator: AnalysisIndicator) -> Text:
    told = Text.assemble((printable(indicator.message), "bold"), (f"  [{indicator.code}]\n", "cyan"))
    for one in indicator.evidence:
        score = "" if one.score is None else f", score {one.score:.2f}"
        told.append(f"{printable(one.document_id)} ({printable(one.source) or 'no source'}{score})\n", "dim")
        told.append(f"  {snippet(one.excerpt, _EXCERPT_LENGTH)}\n")
    return told


def _judge(analyzer: AnalyzerName) -> Analyze:
    """Raises InvalidInput when the analyzer's settings are not right."""
    from examples.analyzers.settings import SettingsError

    try:
        return _rules() if analyzer == "rules" else _llm()
    except SettingsError as error:
        raise InvalidInput(str(error)) from error


def _rules() -> Analyze:
    from examples.analyzers.rules.analysis import RulesAnalyzer
    from examples.analyzers.rules.settings import rules

    return RulesAnalyzer(rules()).analyze


def _llm() -> Analyze:
    from examples.analyzers.llm.analysis import LlmAnalyzer
    from examples.analyzers.llm.chat import make_model
    from examples.analyzers.llm.settings import llm

    return LlmAnalyzer(make_model(llm())).analyze


def _read(mail: str) -> bytes:
    """Raises InvalidInput for what is no mail to read; one that is too long is no mail."""
    if mail == "-":
        content = sys.stdin.buffer.read(_MAX_MAIL_BYTES + 1)
    else:
        try:
            with Path(mail).open("rb") as file:
                content = file.read(_MAX_MAIL_BYTES + 1)
        except OSError as error:
            raise InvalidInput(f"{mail} cannot be read: {error.strerror}") from error
    if len(content) > _MAX_MAIL_BYTES:
        raise InvalidInput(f"{mail} has more than {_MAX_MAIL_BYTES:,} bytes")
    if not content.strip():
        raise InvalidInput("there is no mail to analyze: the input is empty")
    return content
