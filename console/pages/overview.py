"""What the store holds, and how its providers are doing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from console.rendering import page
from console.visit import Answer, Store, Visit, redirect
from spot_sdk.documents import Stats
from spot_sdk.sync import ProviderStatus, SyncRunRecord

_LATE_AFTER = timedelta(minutes=10)
"""How long after its time a scheduled sync may begin before its provider counts as late."""


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider as the page shows it. ``state``: ok, running, failed, held, late, never or off."""

    status: ProviderStatus
    state: str
    last: SyncRunRecord | None

    @classmethod
    def of(cls, status: ProviderStatus, now: datetime) -> Provider:
        ran = [run for run in status.runs if run.status != "skipped"]
        last = ran[0] if ran else (status.runs[0] if status.runs else None)
        return cls(status, _state(status, last, now), last)


def _state(status: ProviderStatus, last: SyncRunRecord | None, now: datetime) -> str:
    if last is not None and last.status == "running":
        return "running"
    if not status.enabled:
        return "off"
    if last is None:
        return "never"
    if last.status == "failed":
        return "failed"
    if last.held:
        return "held"
    if status.next_sync_at is not None and status.next_sync_at < now - _LATE_AFTER:
        return "late"
    return "ok" if last.status == "succeeded" else last.status


def show(visit: Visit) -> Answer:
    async def look(store: Store) -> tuple[Stats, list[ProviderStatus]]:
        return await asyncio.gather(store.knowledge.stats(), store.operators.providers())

    stats, providers = visit.ask(look)
    now = datetime.now(UTC)
    return page(
        "overview.html", visit=visit, stats=stats, providers=[Provider.of(each, now) for each in providers], begun=""
    )


def show_provider(visit: Visit) -> Answer:
    """One provider with its last runs; for htmx, only its row."""
    wanted = visit.query.get("id", "")
    status = visit.ask(lambda store: store.operators.provider(wanted))
    template = "provider_row.html" if visit.is_live else "provider.html"
    return page(template, visit=visit, provider=Provider.of(status, datetime.now(UTC)))


def start_sync(visit: Visit) -> Answer:
    """Begin a sync; the row then follows it by itself."""
    wanted = visit.form.get("id", "")
    visit.ask(lambda store: store.operators.start_sync(wanted))
    if not visit.is_live:
        return redirect("/console")
    status = visit.ask(lambda store: store.operators.provider(wanted))
    return page("provider_row.html", visit=visit, provider=Provider.of(status, datetime.now(UTC)))


def confirm_removals(visit: Visit) -> Answer:
    """Carry out the removals that the guard held back."""
    run = visit.form.get("run", "")
    if run.isascii() and run.isdigit():
        visit.ask(lambda store: store.operators.confirm_run(int(run)))
    return redirect("/console")
