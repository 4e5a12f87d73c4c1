"""The session that the environment names; the only module here that reads it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from pydantic import SecretStr, TypeAdapter, ValidationError

from knowledge.db.address import check_address
from knowledge.items.model import CompartmentId
from knowledge.items.session import AgentClass, Session
from knowledge.settings import SettingsError

_COMPARTMENT: TypeAdapter[str] = TypeAdapter(CompartmentId)
_YES, _NO = frozenset({"1", "true", "yes", "on"}), frozenset({"", "0", "false", "no", "off"})


@dataclass(frozen=True, slots=True)
class McpSettings:
    """Where the items are, on whose behalf they are used, and whether an external session may write."""

    dsn: SecretStr
    session: Session
    write_enabled: bool = False

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Self:
        """Read ``environment``, by default this process's.

        Raises SettingsError that names every variable which is missing or wrong; it repeats no part of an address.
        """
        variables = os.environ if environment is None else environment
        wrong: list[str] = []

        def needed(name: str, what: str) -> str:
            value = variables.get(name, "").strip()
            if not value:
                wrong.append(f"{name} is not set: {what}")
            return value

        dsn = needed("KL_DSN", "the address of the database, such as postgresql://user:password@host/name")
        identity = needed("KL_AGENT_IDENTITY", "the name that goes into provenance")
        classes = ", ".join(AgentClass)
        agent_class = needed("KL_AGENT_CLASS", f"one of {classes}")
        grants = needed("KL_GRANTS", "the compartments that this session sees, separated by commas")
        write = variables.get("KL_WRITE_ENABLED", "").strip().lower()

        if dsn:
            try:
                check_address(dsn)
            except ValueError:
                wrong.append("KL_DSN is not the address of a database, such as postgresql://user:password@host/name")
        if "\0" in identity:
            wrong.append("KL_AGENT_IDENTITY holds U+0000")
        if agent_class and agent_class not in list(AgentClass):
            wrong.append(f"KL_AGENT_CLASS is {agent_class!r}, which is none of {classes}")
        compartments = frozenset(name.strip() for name in grants.split(",") if name.strip())
        wrong += [
            f"KL_GRANTS: {name!r} is not the name of a compartment" for name in sorted(compartments) if not _ok(name)
        ]
        if grants and not compartments:
            wrong.append("KL_GRANTS names no compartment")
        if write not in _YES | _NO:
            wrong.append(f"KL_WRITE_ENABLED is {write!r}; it is 1 (or true, yes, on) or 0 (false, no, off)")
        if wrong:
            raise SettingsError("the environment is not right:\n  " + "\n  ".join(wrong))
        return cls(SecretStr(dsn), Session(identity, AgentClass(agent_class), compartments), write in _YES)


def _ok(compartment: str) -> bool:
    try:
        _COMPARTMENT.validate_python(compartment, strict=True)
    except ValidationError:
        return False
    return True
