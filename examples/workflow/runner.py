"""Runs the stages: sends each analyzer the mail with its stage's limits, and gathers what they say."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self

import httpx
from pydantic import BaseModel, ValidationError

from spot_sdk.analysis import AnalysisRequest, AnalysisResult
from spot_sdk.email import Email
from spot_sdk.workflow import StageAnalyzer, WorkflowStage

ANALYZE_PATH = "/internal/analyze"
KEY_HEADER = "X-Internal-API-Key"
MAX_ANSWER_BYTES = 2_000_000


class AnalyzerOutcome(BaseModel):
    """What one analyzer said of the mail, or the ``error`` that there is instead."""

    analyzer: str
    result: AnalysisResult | None = None
    error: str | None = None
    milliseconds: float


class StageOutcome(BaseModel):
    """A stage, and what each of its analyzers said, in the order in which they are declared."""

    stage: str
    outcomes: list[AnalyzerOutcome]


class StageRunner:
    """Asks the analyzers of each stage, at once or one after another as the stage says; the stages follow each other.

    ``urls`` are the bases of analyzers by id, for those whose stage names none. ``key`` is the platform's, shown to
    each. One analyzer's error or time-out is its own outcome and keeps nobody else from being asked. Nothing is
    fetched beforehand: an analyzer that wants documents fetches them, within the limits it was sent.
    """

    def __init__(
        self,
        stages: Sequence[WorkflowStage],
        urls: Mapping[str, str],
        key: str | None = None,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._stages = stages
        self._urls = urls
        headers = {"Content-Type": "application/json"} | ({} if key is None else {KEY_HEADER: key})
        self._http = httpx.AsyncClient(headers=headers, transport=transport, trust_env=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def run(self, email: Email, analysis_context: Mapping[str, Any] | None = None) -> list[StageOutcome]:
        """What every analyzer of every stage makes of ``email``; ``analysis_context`` is passed on as it is."""
        return [await self._run_stage(stage, email, dict(analysis_context or {})) for stage in self._stages]

    async def _run_stage(self, stage: WorkflowStage, email: Email, context: dict[str, Any]) -> StageOutcome:
        order = AnalysisRequest(
            email=email.model_copy(update={"retrieval_limits": None}),
            analysis_context=context,
            retrieval_limits=stage.retrieval_limits,
        )
        body = order.model_dump_json(exclude={"email": {"retrieval_limits"}}, exclude_none=True).encode()
        ask = partial(self._ask, body=body, timeout_s=stage.timeout_ms / 1000)
        if stage.mode == "parallel":
            outcomes = list(await asyncio.gather(*map(ask, stage.analyzers)))
        else:
            outcomes = [await ask(analyzer) for analyzer in stage.analyzers]
        return StageOutcome(stage=stage.name, outcomes=outcomes)

    async def _ask(self, analyzer: StageAnalyzer, body: bytes, timeout_s: float) -> AnalyzerOutcome:
        started = time.perf_counter()
        result: AnalysisResult | None = None
        error: str | None = None
        url = analyzer.url or self._urls.get(analyzer.id)
        if url is None:
            error = "nobody says where it listens"
        else:
            try:
                async with asyncio.timeout(timeout_s):
                    result = await self._answer(url.rstrip("/") + ANALYZE_PATH, body)
            except TimeoutError:
                error = f"no answer within {timeout_s:g} s"
            except (httpx.HTTPError, httpx.InvalidURL, _WrongAnswer) as failure:
                error = str(failure) or type(failure).__name__
        took_ms = round((time.perf_counter() - started) * 1000, 1)
        return AnalyzerOutcome(analyzer=analyzer.id, result=result, error=error, milliseconds=took_ms)

    async def _answer(self, url: str, body: bytes) -> AnalysisResult:
        content = b""
        async with self._http.stream("POST", url, content=body, timeout=None) as response:
            async for part in response.aiter_bytes():
                content += part
                if len(content) > MAX_ANSWER_BYTES:
                    raise _WrongAnswer(f"its answer has more than {MAX_ANSWER_BYTES:,} bytes")
        if response.status_code != httpx.codes.OK:
            raise _WrongAnswer(f"it answered {response.status_code}")
        try:
            return AnalysisResult.model_validate_json(content, extra="ignore")
        except ValidationError as error:
            found = error.errors(include_input=False, include_url=False)[0]
            where = ".".join(map(str, found["loc"])) or "body"
            raise _WrongAnswer(f"its answer is no result: {where}: {found['msg']}") from None


class _WrongAnswer(Exception):
    """An analyzer answered, and not as it should."""
