"""The language model's analyzer as a service."""

from __future__ import annotations

from collections.abc import Mapping

from examples.analyzers.llm.analysis import NAME, LlmAnalyzer
from examples.analyzers.llm.chat import make_model
from examples.analyzers.llm.settings import llm
from examples.analyzers.service import AnalyzerService, Connect
from examples.analyzers.settings import ServiceSettings, read


def analyzer(environment: Mapping[str, str] | None = None, connect: Connect | None = None) -> AnalyzerService:
    """The analyzer that the environment describes. Raises SettingsError for settings that are not right."""
    judge = LlmAnalyzer(make_model(llm(environment)))
    return AnalyzerService(NAME, judge.analyze, read(ServiceSettings, environment), connect)
