"""The rules as a service."""

from __future__ import annotations

from collections.abc import Mapping

from examples.analyzers.rules.analysis import NAME, RulesAnalyzer
from examples.analyzers.rules.settings import rules
from examples.analyzers.service import AnalyzerService, Connect
from examples.analyzers.settings import ServiceSettings, read


def analyzer(environment: Mapping[str, str] | None = None, connect: Connect | None = None) -> AnalyzerService:
    """The analyzer that the environment describes. Raises SettingsError for settings that are not right."""
    judge = RulesAnalyzer(rules(environment))
    return AnalyzerService(NAME, judge.analyze, read(ServiceSettings, environment), connect)
