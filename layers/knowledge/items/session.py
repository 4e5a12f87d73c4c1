"""On whose behalf the layer is used: an identity, its class, and the compartments it sees."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from spot_sdk.errors import Forbidden, InvalidRequest


class AgentClass(StrEnum):
    """What an agent is to the estate; what a class may do is the surface's to decide (``mcp_server``)."""

    OWNER = "owner"
    CHIEF = "chief"
    SWEEPER = "sweeper"
    FLEET = "fleet"
    EXTERNAL = "external"


@dataclass(frozen=True, slots=True)
class Session:
    """Who acts. ``scope`` None sees every compartment; with a set, whatever is elsewhere is as good as absent.

    The identity goes into provenance and access events, beside the database's own user, which nobody can choose. A
    blank one raises InvalidRequest.
    """

    identity: str
    agent_class: AgentClass
    scope: frozenset[str] | None = None

    def __post_init__(self) -> None:
        if not self.identity.strip() or "\0" in self.identity:
            raise InvalidRequest("a session needs an identity")

    @property
    def compartments(self) -> list[str] | None:
        """The scope as SQL takes it: sorted, or None for all."""
        return None if self.scope is None else sorted(self.scope)

    def require(self, compartment: str) -> None:
        """Raise Forbidden unless this session sees ``compartment``; whether there is one is not told."""
        if self.scope is not None and compartment not in self.scope:
            raise Forbidden(f"this session has no grant for the compartment {compartment}")
