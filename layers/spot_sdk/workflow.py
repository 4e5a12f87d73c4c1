"""The analysis workflow as operators declare it in ``spot.yaml``: stages, and the analyzers of each."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from spot_sdk.documents import RetrievalLimits

AnalyzerId = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,47}$")]


class StageAnalyzer(BaseModel):
    """An analyzer that takes part in a stage; ``url`` is its base, where the platform does not know it."""

    model_config = ConfigDict(extra="forbid")

    id: AnalyzerId
    url: Annotated[str, Field(pattern=r"^https?://")] | None = None


class WorkflowStage(BaseModel):
    """A step of the analysis. ``retrieval_limits`` cap what its analyzers may fetch; without any they ask as they like.

    Analyzers of a ``parallel`` stage are asked at once, those of a ``sequential`` one after another.
    """

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(min_length=1)]
    retrieval_limits: RetrievalLimits | None = None
    mode: Literal["parallel", "sequential"] = "parallel"
    timeout_ms: Annotated[int, Field(ge=100, le=300_000)] = 30_000
    analyzers: list[StageAnalyzer] = []
