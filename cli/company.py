"""The example company: its two providers, run beside the stack, and what they bring into the store."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator

import httpx
from pydantic import BaseModel

from local.processes import Child
from local.settings import child_environment
from local.stack import RunningStack
from spot_sdk.connection import KEY_HEADER
from spot_sdk.errors import Unavailable
from spot_sdk.problems import from_problem

PROVIDERS = ("employee_dir", "wiki")

_READY_TEXT = "Uvicorn running on "
_START_TIMEOUT_S = 60.0
_SYNC_TIMEOUT_S = 600.0


class Synced(BaseModel):
    """What the sync of one provider did, as far as it is of interest here."""

    created: int
    updated: int
    unchanged: int
    removed: int
    embedded: int

    def __str__(self) -> str:
        changes = f"{self.created} created, {self.updated} updated, {self.removed} removed, {self.unchanged} unchanged"
        return f"{changes}; {self.embedded} texts embedded"


class Company:
    """The providers of the example company, as companions of a stack (see ``run_stack``)."""

    def __init__(self) -> None:
        self._urls: dict[str, str] = {}

    def start(self, stack: RunningStack) -> Iterator[Child]:
        """Start a process for each provider, on a free port of loopback, with the store's address and key."""
        environment = child_environment(SPOT_KNOWLEDGE_URL=stack.knowledge_url, SPOT_INTERNAL_API_KEY=stack.api_key)
        children: list[Child] = []
        for name in PROVIDERS:
            child = Child.start(
                f"provider {name}",
                [sys.executable, "-P", "-m", f"examples.providers.{name}", "--port", "0"],
                log_path=stack.home.log_path(f"provider-{name}"),
                ready_text=_READY_TEXT,
                environment=environment,
            )
            children.append(child)
            yield child
        for name, child in zip(PROVIDERS, children, strict=True):
            self._urls[name] = _address_in(child.wait_until_ready(_START_TIMEOUT_S))

    def sync(self, stack: RunningStack, report: Callable[[str], None]) -> None:
        """Have each provider send all it knows, as a schedule would. Raises what a provider answers, or Unavailable."""
        with httpx.Client(timeout=_SYNC_TIMEOUT_S, trust_env=False) as client:  # no proxy stands before loopback
            for name, url in self._urls.items():
                report(f"loading the example company: {name}")
                try:
                    answer = client.post(f"{url}/internal/sync", headers={KEY_HEADER: stack.api_key})
                except httpx.HTTPError as error:
                    raise Unavailable(f"provider {name} does not answer: {error}") from error
                if answer.is_error:
                    raise from_problem(answer.json(), answer.status_code)
                report(f"  {Synced.model_validate_json(answer.content)}")


def _address_in(line: str) -> str:
    found = re.search(r"http://\S+", line)
    if found is None:
        raise Unavailable(f"a provider does not say where it listens: {line!r}")
    return found[0]
