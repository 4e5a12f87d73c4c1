"""What the embedded stack takes from the environment; the only reader of it in ``local``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from spot_sdk.errors import InvalidInput

DEFAULT_PORT = 8787
DEFAULT_BACKEND = "minilm"
CHECKOUT = Path(__file__).resolve().parents[1]

_FUNCTION_VARIABLES = (
    "QUERY_ACCESS",
    "EMBEDDING_BACKEND",
    "EMBEDDING_MODEL",
    "EMBEDDING_DIMENSIONS",
    "EMBEDDING_NEXT_BACKEND",
    "EMBEDDING_NEXT_MODEL",
    "EMBEDDING_NEXT_DIMENSIONS",
    "EMBEDDING_BATCH_SIZE",
    "EMBEDDING_TIMEOUT_S",
    "SEARCH_LANGUAGE",
    "REDIS_URL",
    "QUERY_CACHE_TTL_S",
    "SLOW_QUERY_MS",
    "CONSOLE_ANALYZER_URL",
    "CONSOLE_GRANTS",
    "OLLAMA_URL",
    "OPENAI_BASE_URL",
    "OPENAI_API_KEY",
    "LOG_LEVEL",
)


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """Where the embedded stack listens and keeps its data, and what it tells the functions.

    ``PORT`` (1 to 65535) is the API's port, ``KNOWLEDGE_HOME`` the folder of the data (absolute here). The variables
    that choose the embedder, the language and the access to queries reach the functions as they are; without
    EMBEDDING_BACKEND the backend is ``minilm``, which needs no network.
    """

    port: int = DEFAULT_PORT
    home: Path = CHECKOUT / ".knowledge"
    functions: Mapping[str, str] = field(default_factory=lambda: {"EMBEDDING_BACKEND": DEFAULT_BACKEND})

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> LocalSettings:
        """Read ``environment``, by default this process's; an empty value counts as none.

        Raises InvalidInput for a PORT that is no port number.
        """
        variables = os.environ if environment is None else environment
        defaults = cls()
        port, home = variables.get("PORT", "").strip(), variables.get("KNOWLEDGE_HOME", "")
        given = {name: variables[name] for name in _FUNCTION_VARIABLES if variables.get(name)}
        return cls(
            port=_port(port) if port else defaults.port,
            home=Path(home).expanduser().absolute() if home else defaults.home,
            functions={**defaults.functions, **given},
        )


def child_environment(**additions: str) -> dict[str, str]:
    """This process's environment with ``additions``, for a process that it starts."""
    return {**os.environ, **additions}


def _port(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= 65535:
        return int(text)
    raise InvalidInput(f"PORT={text!r} is not a port number (1 to 65535)")
