"""What goes to an analyzer and what it says: ``POST /internal/analyze``."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from spot_sdk.documents import KnowledgeDocument, RetrievalLimits
from spot_sdk.email import Email

_EXCERPT_CHARACTERS = 300


class AnalysisRequest(BaseModel):
    """Body of ``POST /internal/analyze``.

    The orchestrator sends the workflow stage's ``retrieval_limits`` beside the mail; they are on ``email`` afterwards,
    where ``KnowledgeClient.for_analysis(email)`` finds them. ``analysis_context`` is what context providers said of
    this mail.
    """

    model_config = ConfigDict(extra="forbid")

    email: Email
    analysis_context: dict[str, Any] = {}
    retrieval_limits: RetrievalLimits | None = None

    @model_validator(mode="after")
    def _limits_on_the_mail(self) -> Self:
        if self.retrieval_limits is not None:
            self.email.retrieval_limits = self.retrieval_limits
        return self


class DocumentEvidence(BaseModel):
    """A document that an indicator rests on, as it was fetched; ``excerpt`` is how its content begins."""

    model_config = ConfigDict(frozen=True)

    document_id: str
    source: str = ""
    score: Annotated[float, Field(ge=0, le=1)] | None = None
    excerpt: str = ""

    @classmethod
    def of(cls, document: KnowledgeDocument) -> Self:
        return cls(
            document_id=document.id,
            source=document.source,
            score=document.score,
            excerpt=document.content[:_EXCERPT_CHARACTERS],
        )


class AnalysisIndicator(BaseModel):
    """One thing about a mail that counts: a stable ``code``, one line for the analyst, and what it rests on.

    ``weight`` is how much it says for phishing, from 0 (nothing) to 1 (certain).
    """

    model_config = ConfigDict(frozen=True)

    code: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    message: str
    weight: Annotated[float, Field(ge=0, le=1)]
    evidence: list[DocumentEvidence] = []


class AnalysisResult(BaseModel):
    """What one analyzer makes of a mail.

    ``is_phishing`` is None when it abstains, and ``reason`` says why then. ``confidence`` (0 to 1) is of this verdict.
    """

    is_phishing: bool | None
    confidence: Annotated[float, Field(ge=0, le=1)] = 0.0
    analyzer: str = ""
    reason: str = ""
    indicators: list[AnalysisIndicator] = []

    @classmethod
    def abstained(cls, reason: str, analyzer: str = "") -> Self:
        """No verdict."""
        return cls(is_phishing=None, analyzer=analyzer, reason=reason)
