"""The example company: two providers and an analyzer, run beside the stack, and what they bring into the store."""

from __future__ import annotations

import asyncio
import re
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from local.processes import Child
from local.settings import child_environment
from local.spot_file import write_spot_file
from local.stack import HOST, RunningStack
from spot_sdk.access import IssueKey
from spot_sdk.errors import DeadlineExceeded, SyncRunning, Unavailable
from spot_sdk.operators import OperatorClient
from spot_sdk.sync import SyncRunRecord

MAILS = Path(__file__).parents[1] / "examples" / "company" / "mails"
"""Mails to the example company, genuine and forged."""

PROVIDERS = {"employee-dir": "provider-employee-dir", "wiki": "provider-wiki"}
"""What spot.yaml calls each provider, and the source that it writes."""

_READY_TEXT = "Uvicorn running on "
_START_TIMEOUT_S = 60.0
_SYNC_TIMEOUT_S = 900.0
_POLL_S = 0.3


class Company:
    """The services of the example company, as companions of a stack (see ``run_stack``)."""

    def __init__(self, report: Callable[[str], None] = lambda step: None) -> None:
        self._report = report

    @cached_property
    def _analyzer_socket(self) -> socket.socket:
        """Functions start before the analyzer does and are told where it will be, so its port is taken early."""
        return socket.create_server((HOST, 0))

    def functions(self) -> dict[str, str]:
        """What the stack's functions are told of the company."""
        return {"CONSOLE_ANALYZER_URL": f"http://{HOST}:{self._analyzer_socket.getsockname()[1]}"}

    def start(self, stack: RunningStack) -> Iterator[Child]:
        """Start a process for each provider on a free port of loopback, with the store's address and a key of its own,
        and one for the analyzer.

        When all are there, the stack's operators' file says where they listen, so that schedules find them.
        """
        self._report("starting the example providers and the analyzer")
        children: dict[str, Child] = {}
        for provider_id, source in PROVIDERS.items():
            children[provider_id] = Child.start(
                f"provider {provider_id}",
                [sys.executable, "-P", "-m", f"examples.providers.{provider_id.replace('-', '_')}", "--port", "0"],
                log_path=stack.home.log_path(f"provider-{provider_id}"),
                ready_text=_READY_TEXT,
                environment=child_environment(
                    SPOT_KNOWLEDGE_URL=stack.knowledge_url,
                    SPOT_INTERNAL_API_KEY=asyncio.run(_issue_key(stack, source)),
                    SPOT_SYNC_KEY=stack.sync_key,
                ),
            )
            yield children[provider_id]
        with self._analyzer_socket as listening:
            analyzer = Child.start(
                "analyzer rules",
                [sys.executable, "-P", "-m", "examples.analyzers.rules", "--fd", str(listening.fileno())],
                log_path=stack.home.log_path("analyzer-rules"),
                ready_text=_READY_TEXT,
                environment=child_environment(
                    SPOT_KNOWLEDGE_URL=stack.knowledge_url, SPOT_INTERNAL_API_KEY=stack.api_key
                ),
                pass_fds=[listening.fileno()],
            )
        yield analyzer
        urls = {id_: _address_in(child.wait_until_ready(_START_TIMEOUT_S)) for id_, child in children.items()}
        analyzer.wait_until_ready(_START_TIMEOUT_S)
        write_spot_file(stack.home.spot_path, urls)

    def sync(self, stack: RunningStack) -> None:
        """Have the providers sync, as their schedules would. Raises Unavailable with the reason when one fails."""
        report = self._report
        report(f"loading the example company: {', '.join(PROVIDERS)}")
        for provider_id, record in asyncio.run(_sync_all(stack)).items():
            if record.status == "failed":
                raise Unavailable(f"the sync of {provider_id} failed: {record.error}")
            report(f"  {provider_id}: {_told(record)}")


async def _issue_key(stack: RunningStack, source: str) -> str:
    async with OperatorClient(stack.knowledge_url, stack.api_key) as client:
        request = IssueKey(name=source, role="source", source=source, grace_s=0)
        return (await client.issue_key(request)).key


async def _sync_all(stack: RunningStack) -> dict[str, SyncRunRecord]:
    """The record of each provider's run; they run side by side."""
    records = await asyncio.gather(*(_sync(stack, provider_id) for provider_id in PROVIDERS))
    return dict(zip(PROVIDERS, records, strict=True))


async def _sync(stack: RunningStack, provider_id: str) -> SyncRunRecord:
    """The record of a provider's run, when it has ended.

    After a stack that was killed in the middle of a sync, that run's lease has to run out first.
    """
    until = time.monotonic() + _SYNC_TIMEOUT_S
    run_id: int | None = None
    async with OperatorClient(stack.knowledge_url, stack.api_key) as client:
        while time.monotonic() < until:
            if run_id is None:
                with suppress(SyncRunning):
                    run_id = await client.start_sync(provider_id)
            else:
                record = await client.run_of(provider_id, run_id)
                if record.status != "running":
                    return record
            await asyncio.sleep(_POLL_S)
    raise DeadlineExceeded(f"the sync of {provider_id} has not ended in {_SYNC_TIMEOUT_S:.0f} s")


def _told(record: SyncRunRecord) -> str:
    counts = (
        f"{record.created} created, {record.updated} updated, {record.removed} removed, {record.unchanged} unchanged"
    )
    return f"{counts}. {record.error}" if record.error else counts


def _address_in(line: str) -> str:
    found = re.search(r"http://\S+", line)
    if found is None:
        raise Unavailable(f"a provider does not say where it listens: {line!r}")
    return found[0]
