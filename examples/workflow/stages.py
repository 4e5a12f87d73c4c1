"""The stages of the operators' file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import yaml
from pydantic import TypeAdapter, ValidationError

from spot_sdk.workflow import WorkflowStage

_STAGES: TypeAdapter[list[WorkflowStage]] = TypeAdapter(list[WorkflowStage])


class StagesError(Exception):
    """The file does not say which stages there are; the message names the field."""


def read_stages(path: Path) -> list[WorkflowStage]:
    """What ``stages`` in a ``spot.yaml`` lists, in order; the rest of it is the platform's. Raises StagesError."""
    try:
        content: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise StagesError(f"{path}: {error}") from error
    listed = cast("dict[str, Any]", content).get("stages") if isinstance(content, dict) else None
    try:
        return _STAGES.validate_python(listed or [])
    except ValidationError as error:
        found = error.errors(include_url=False)[0]
        where = ".".join(map(str, ("stages", *found["loc"])))
        raise StagesError(f"{path}: {where}: {found['msg']}") from None
