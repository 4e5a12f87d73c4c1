"""``knowledge up`` and ``knowledge demo``: the whole product on this machine, with the example company in it."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.analyze import judge_file, print_verdict
from cli.company import MAILS, Company
from cli.exits import describe
from cli.output import note, results
from cli.query import print_answer
from local.settings import LocalSettings
from local.stack import Report, RunningStack, run_stack
from spot_sdk.client import KnowledgeClient
from spot_sdk.documents import KnowledgeDocument
from spot_sdk.errors import KnowledgeError

if TYPE_CHECKING:
    from spot_sdk.analysis import AnalysisResult
    from spot_sdk.email import Email

QUESTION = "Who may approve a payment to a new bank account?"
TAGS = "policy+finance"
NEXT_QUESTION = "Is a message of the CEO that asks for gift cards genuine?"
NEXT_TAGS = "policy|incident_report"
FORGED_MAIL = MAILS / "06-executive-freemail.eml"
NEXT_MAIL = MAILS / "12-vendor-bank-change.eml"
TOP_K = 3


def up(
    empty: Annotated[bool, typer.Option("--empty", help="Leave the example company out.")] = False,
) -> None:
    """Start the store here and stay until Ctrl-C.

    Needs neither Docker nor an account, and loads an example company to ask about. PORT (8787) is where the API
    listens, KNOWLEDGE_HOME (.knowledge in the checkout) where data, logs and the key are. Data stays when it stops.

    Examples:

    \b
      knowledge up
      PORT=9000 KNOWLEDGE_HOME=~/second-store knowledge up --empty
    """
    steps = _Steps()
    company = None if empty else Company(steps)

    def on_ready(stack: RunningStack) -> None:
        is_of_yesterday = False
        if company is not None:
            with _said_and_forgiven():
                is_of_yesterday = _introduce(company, stack, steps)
        steps("ready")
        _tell_where_things_are(stack)
        if company is not None and is_of_yesterday:
            with _said_and_forgiven():
                company.sync(stack)
        note("Ctrl-C stops everything; the data stays.")

    run_stack(
        _settings(company),
        on_ready=on_ready,
        stay=True,
        report=steps,
        companions=company.start if company else lambda stack: (),
    )


def demo() -> None:
    """Start the store, show a query, and stop.

    The example company is loaded first. The data stays, so that the second time is faster.

    Examples:

    \b
      knowledge demo
    """
    steps = _Steps()
    company = Company(steps)

    def on_ready(stack: RunningStack) -> None:
        if _introduce(company, stack, steps):
            company.sync(stack)

    run_stack(_settings(company), on_ready=on_ready, stay=False, report=steps, companions=company.start)


def _settings(company: Company | None) -> LocalSettings:
    settings = LocalSettings.from_environment()
    return replace(settings, functions={**company.functions(), **settings.functions}) if company else settings


class _Steps:
    """Tells each step, with the seconds since the start."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    def __call__(self, step: str) -> None:
        note(f"{time.monotonic() - self._started:5.1f} s  {step}")


@contextmanager
def _said_and_forgiven() -> Generator[None]:
    """The store is there all the same when the example company is not."""
    try:
        yield
    except KnowledgeError as error:
        note(f"The example company is not all there: {describe(error)}\n")


def _introduce(company: Company, stack: RunningStack, report: Report) -> bool:
    """Show an answer; True when it is of yesterday's documents, and what changed since is still to be loaded."""
    report("asking a question")
    documents = asyncio.run(_ask_first_question(stack))
    is_of_yesterday = bool(documents)
    if not is_of_yesterday:
        company.sync(stack)
        documents = asyncio.run(_ask_first_question(stack))
    note("")
    results.print(f"{QUESTION}  (tags: {TAGS})", style="bold")
    results.print()
    print_answer(documents)
    results.print()
    _show_a_verdict(stack)
    return is_of_yesterday


def _show_a_verdict(stack: RunningStack) -> None:
    """Have the rules judge a mail in the CEO's name, by what the store has just been told."""

    async def judge() -> tuple[Email, AnalysisResult]:
        async with KnowledgeClient(stack.knowledge_url, stack.api_key) as client:
            return await judge_file(FORGED_MAIL, client)

    email, result = asyncio.run(judge())
    results.print("Is this mail what it says it is?", style="bold")
    results.print()
    print_verdict(email, result)


async def _ask_first_question(stack: RunningStack) -> list[KnowledgeDocument]:
    async with KnowledgeClient(stack.knowledge_url, stack.api_key) as client:
        return await client.fetch(TAGS, QUESTION, TOP_K)


def _tell_where_things_are(stack: RunningStack) -> None:
    for name, place in {
        "API": stack.knowledge_url,
        "console": f"{stack.url}/console",
        "health": f"{stack.url}/health",
        "key": f"{stack.home.api_key_path}, in the header X-Internal-API-Key",
        "database": _command("dsn"),
        "logs": str(stack.home.log_path("*").parent),
        "ask": _command("query", NEXT_QUESTION, "--tags", NEXT_TAGS),
        "judge": _command("analyze", _from_here(NEXT_MAIL)),
    }.items():
        results.print(f"{name:10}{place}", soft_wrap=True)


def _command(*arguments: str) -> str:
    """The command line that does this here: the command as a shell finds it, and for this stack's home."""
    program = sys.argv[0]
    program = "knowledge" if shutil.which("knowledge") == program else _from_here(Path(program))
    settings = LocalSettings.from_environment()
    home = [] if settings.home == LocalSettings().home else [f"KNOWLEDGE_HOME={shlex.quote(str(settings.home))}"]
    return " ".join([*home, program, *map(shlex.quote, arguments)])


def _from_here(path: Path) -> str:
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
