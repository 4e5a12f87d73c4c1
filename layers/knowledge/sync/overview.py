"""Providers as an operator sees them: configured how, due when, and how the last runs went."""

from __future__ import annotations

from datetime import datetime

from knowledge.sync.config import Provider, SpotConfig
from knowledge.sync.cron import translate
from knowledge.sync.trigger import ProviderSync
from spot_sdk.errors import NotFound
from spot_sdk.sync import ProviderStatus


def provider_status(
    config: SpotConfig, sync: ProviderSync, provider_id: str, now: datetime, runs: int
) -> ProviderStatus:
    """One provider with its last runs. Raises NotFound for one that is not configured."""
    provider = config.providers.get(provider_id)
    if provider is None:
        raise NotFound(f"there is no provider {provider_id!r}")
    return ProviderStatus(
        id=provider_id,
        enabled=provider.enabled,
        sync_schedule=provider.sync_schedule,
        next_sync_at=_next_firing(provider, now),
        sync_timeout_ms=provider.sync_timeout_ms,
        runs=sync.latest(provider_id, runs),
    )


def _next_firing(provider: Provider, now: datetime) -> datetime | None:
    if not provider.enabled or provider.sync_schedule is None:
        return None
    return next(translate(provider.sync_schedule).after(now))
