"""How a command ends: the exit codes, and errors as lines for stderr."""

from __future__ import annotations

from enum import IntEnum

from cli.output import printable
from spot_sdk.errors import (
    MAX_PROBLEMS,
    Conflict,
    InvalidInput,
    KnowledgeError,
    MethodNotAllowed,
    ModelMismatch,
    NotFound,
    Problem,
    StoreUnavailable,
    Unavailable,
)

_MAX_PROBLEMS_SHOWN = 20


class ExitCode(IntEnum):
    OK = 0
    FAILED = 1
    REFUSED = 2
    """The command line or its input is not right; repeating it cannot help."""
    UNREACHABLE = 3
    PHISHING = 10
    """``knowledge analyze`` alone gives this and the two that follow."""
    SUSPICIOUS = 11
    NO_VERDICT = 12
    INTERRUPTED = 130
    """128 + SIGINT, as shells say it."""


def exit_code(error: KnowledgeError) -> ExitCode:
    """The exit code that tells a script of ``error``."""
    match error:
        case InvalidInput() | Conflict() | NotFound() | MethodNotAllowed():
            return ExitCode.REFUSED  # what was named is not there, be it a provider, a run, a key or a store's address
        case ModelMismatch():
            return ExitCode.FAILED  # somebody answers, so waiting does not help
        case Unavailable():
            return ExitCode.UNREACHABLE
        case _:
            return ExitCode.FAILED


def describe(error: KnowledgeError) -> str:
    """What went wrong: the message, a line for each further problem, and what finds the error in the server's log."""
    lines = [printable(line) for line in error.message.splitlines()]
    if len(error.problems) > 1:
        lines += [f"  {_describe(problem)}" for problem in error.problems[:_MAX_PROBLEMS_SHOWN]]
        if len(error.problems) > _MAX_PROBLEMS_SHOWN:
            lines.append("  ..." + _more(len(error.problems)))
    if isinstance(error, StoreUnavailable) and error.__cause__ is not None:
        lines += [f"  {printable(line)}" for line in str(error.__cause__).splitlines()[:1]]  # what the driver says
    if error.correlation_id and error.status >= 500:
        lines.append(f"  correlation id: {printable(error.correlation_id)}")
    return "\n".join(lines)


def _more(listed: int) -> str:
    """How many problems are not shown, unless the error lists as many as one can: there may be others then."""
    return f" and {listed - _MAX_PROBLEMS_SHOWN} more" if listed < MAX_PROBLEMS else ""


def _describe(problem: Problem) -> str:
    return printable(": ".join(part for part in (problem.document, problem.field, problem.message) if part))
