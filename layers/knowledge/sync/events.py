"""What the sync-trigger function is invoked with."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, Field, TypeAdapter

from knowledge.sync.leases import Lease
from knowledge.sync.trigger import ProviderRun


class ScheduledSync(BaseModel):
    """From a provider's EventBridge rule, by its input transformer. ``time`` is when the rule was due."""

    trigger: Literal["schedule"]
    provider_id: str
    time: AwareDatetime


class ManualSync(BaseModel):
    """From the admin function, which has claimed the run already."""

    trigger: Literal["manual"]
    provider_id: str
    run_id: int
    lease: str
    fence: int

    @classmethod
    def of(cls, run: ProviderRun) -> ManualSync:
        return cls(
            trigger="manual",
            provider_id=run.provider_id,
            run_id=run.run_id,
            lease=run.lease.name,
            fence=run.lease.fence,
        )

    @property
    def run(self) -> ProviderRun:
        return ProviderRun(self.provider_id, self.run_id, Lease(self.lease, self.fence))


_EVENT: TypeAdapter[ScheduledSync | ManualSync] = TypeAdapter(
    Annotated[ScheduledSync | ManualSync, Field(discriminator="trigger")]
)


def parse_event(event: dict[str, Any]) -> ScheduledSync | ManualSync:
    """The request in an event. Raises pydantic's ValidationError, which names the field, for anything else."""
    return _EVENT.validate_python(event)
