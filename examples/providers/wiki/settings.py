"""What this provider takes from the environment, and where the example company's handbook is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, HttpUrl

from examples.providers.settings import read

EXAMPLE_HANDBOOK = Path(__file__).parents[2] / "company" / "handbook"


class WikiSettings(BaseModel):
    """Where the pages are. In a git checkout only committed pages count, and ``git_pull`` fetches them first.

    ``url`` is the address under which people read the pages; a page's own is made of it and its path.
    """

    model_config = ConfigDict(frozen=True)

    folder: Annotated[Path, Field(validation_alias="WIKI_PATH")] = EXAMPLE_HANDBOOK
    git_pull: Annotated[bool, Field(validation_alias="WIKI_GIT_PULL")] = False
    git_timeout_s: Annotated[float, Field(validation_alias="WIKI_GIT_TIMEOUT_S", gt=0)] = 60
    url: Annotated[HttpUrl | None, Field(validation_alias="WIKI_URL")] = None


def wiki(environment: Mapping[str, str] | None = None) -> WikiSettings:
    return read(WikiSettings, environment)
