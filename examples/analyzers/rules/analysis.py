"""A mail's verdict by rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from examples.analyzers.rules.indicators import MAX_CITED, Finding, findings
from examples.analyzers.rules.known import Store, look_up
from examples.analyzers.rules.requests import requests_in
from examples.analyzers.rules.settings import RulesSettings
from examples.analyzers.rules.view import MailView
from examples.analyzers.rules.weights import Label, label, score
from spot_sdk.analysis import AnalysisIndicator, AnalysisResult, DocumentEvidence
from spot_sdk.email import Email
from spot_sdk.errors import KnowledgeError

NAME = "rules"

SURE_OF_NOTHING = 0.9
"""How sure a verdict is that rests on having found nothing."""


class Verdict(NamedTuple):
    """The label, the score that it follows from, and what was found, the weightiest first."""

    label: Label
    score: float
    findings: Sequence[Finding]


class RulesAnalyzer:
    """Judges mails against what a store knows; keeps nothing between them."""

    def __init__(self, settings: RulesSettings) -> None:
        """Raises SettingsError when a file that the settings name is not right."""
        self._lexicon = settings.lexicon()
        self._freemail = settings.freemail_domains()

    async def judge(self, email: Email, store: Store) -> Verdict:
        """``store`` is a client made for this mail. Raises KnowledgeError when it cannot answer."""
        mail = MailView.of(email)
        asked = requests_in(mail.text, self._lexicon)
        known = await look_up(store, mail, asked, self._freemail)
        found = sorted(findings(mail, known, asked, self._freemail), key=lambda finding: -finding.weight)
        total = score(finding.weight for finding in found)
        return Verdict(label(total), total, found)

    async def analyze(self, email: Email, store: Store) -> AnalysisResult:
        """The verdict as the platform takes it; without the store there is none."""
        try:
            verdict = await self.judge(email, store)
        except KnowledgeError as error:
            return AnalysisResult.abstained(f"the Knowledge Store does not answer: {error.message}", NAME)
        return AnalysisResult(
            is_phishing=verdict.label == "phishing",
            confidence=round(
                verdict.score if verdict.label == "phishing" else SURE_OF_NOTHING * (1 - verdict.score), 3
            ),
            analyzer=NAME,
            reason=f"{verdict.label}: score {verdict.score:.2f} of {len(verdict.findings)} findings",
            indicators=[_indicator(finding) for finding in verdict.findings],
        )


def _indicator(finding: Finding) -> AnalysisIndicator:
    return AnalysisIndicator(
        code=finding.code,
        message=finding.says,
        weight=finding.weight,
        evidence=[DocumentEvidence.of(document) for document in finding.documents[:MAX_CITED]],
    )
