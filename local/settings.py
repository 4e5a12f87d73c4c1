"""What the embedded stack takes from the environment; the only reader of it in ``local``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from spot_sdk.errors import InvalidInput

DEFAULT_PORT = 8787
CHECKOUT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """Where the embedded stack listens and keeps its data: ``PORT`` (1 to 65535) and ``KNOWLEDGE_HOME`` (absolute)."""

    port: int = DEFAULT_PORT
    home: Path = CHECKOUT / ".knowledge"

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> LocalSettings:
        """Read ``environment``, by default this process's; an empty value counts as none.

        Raises InvalidInput for a PORT that is no port number.
        """
        variables = os.environ if environment is None else environment
        port, home = variables.get("PORT", "").strip(), variables.get("KNOWLEDGE_HOME", "")
        return cls(
            port=_port(port) if port else cls.port,
            home=Path(home).expanduser().absolute() if home else cls.home,
        )


def _port(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= 65535:
        return int(text)
    raise InvalidInput(f"PORT={text!r} is not a port number (1 to 65535)")
