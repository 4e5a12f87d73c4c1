"""What the rules take from the environment: two lists that a company may want to change."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from examples.analyzers.rules.requests import Lexicon, read_lexicon
from examples.analyzers.settings import SettingsError, read

_PACKAGE = Path(__file__).parent


class RulesSettings(BaseModel):
    """Files: which requests policies speak of (requests.yaml), and who gives addresses away (freemail.txt)."""

    model_config = ConfigDict(frozen=True)

    requests: Annotated[Path, Field(validation_alias="RULES_REQUESTS")] = _PACKAGE / "requests.yaml"
    freemail: Annotated[Path, Field(validation_alias="RULES_FREEMAIL")] = _PACKAGE / "freemail.txt"

    def lexicon(self) -> Lexicon:
        """Raises SettingsError when the file is not there or not right."""
        return read_lexicon(self.requests)

    def freemail_domains(self) -> frozenset[str]:
        """Raises SettingsError when the file cannot be read."""
        try:
            lines = self.freemail.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"RULES_FREEMAIL: {error}") from None
        return frozenset(line.strip().lower() for line in lines if line.strip() and not line.startswith("#"))


def rules(environment: Mapping[str, str] | None = None) -> RulesSettings:
    return read(RulesSettings, environment)
