"""A mail's verdict by a language model that sees what the store knows."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from examples.analyzers.llm.answer import Answer, Reason, read_answer
from examples.analyzers.llm.chat import ChatModel, ModelFailed
from examples.analyzers.llm.injection import words_to_the_judge
from examples.analyzers.llm.prompt import Prompt, build_prompt
from spot_sdk.analysis import AnalysisIndicator, AnalysisResult, DocumentEvidence
from spot_sdk.checks import storable
from spot_sdk.documents import KnowledgeDocument
from spot_sdk.email import Email
from spot_sdk.errors import KnowledgeError
from spot_sdk.knowledge_tags import KnowledgeTag

NAME = "llm"

EMPLOYEES, POLICIES, PAGES = 3, 2, 5
"""How many documents of each kind the prompt holds."""

UNDECIDED = 0.5
"""The confidence of a verdict that is neither phishing nor clean."""

_MAX_SENDER_LENGTH = 500
_MAX_QUESTION_LENGTH = 8_000
_SCHEMA: dict[str, Any] = Answer.model_json_schema()


class Store(Protocol):
    """What this analyzer needs of a KnowledgeClient."""

    async def fetch(
        self,
        tags: str | None = None,
        text: str | None = None,
        top_k: int = 5,
        min_score: float = 0.0,
        strategy: str = "similarity",
    ) -> list[KnowledgeDocument]: ...


class LlmAnalyzer:
    """Asks a model, or abstains where there is none."""

    def __init__(self, model: ChatModel | None) -> None:
        self._model = model

    async def analyze(self, email: Email, store: Store) -> AnalysisResult:
        """``store`` is a client made for this mail. Never raises for what a store or a model does."""
        if self._model is None:
            return AnalysisResult.abstained("no language model is set (LLM_BACKEND)", NAME)
        try:
            prompt = await self._prompt(email, store)
            text = await self._model.answer(prompt.system, prompt.user, _SCHEMA)
            answer = read_answer(text, prompt.check)
        except KnowledgeError as error:
            return AnalysisResult.abstained(f"the Knowledge Store does not answer: {error.message}", NAME)
        except ModelFailed as error:
            return AnalysisResult.abstained(str(error), NAME)
        return _result(answer, prompt, words_to_the_judge(f"{email.subject}\n{email.body_text}"))

    async def _prompt(self, email: Email, store: Store) -> Prompt:
        headers = email.headers
        senders = storable("; ".join(map(str, (*headers.from_, *headers.reply_to))))[:_MAX_SENDER_LENGTH]
        employees, policies, pages = await asyncio.gather(
            _employees(store, senders),
            _about(store, KnowledgeTag.POLICY, email, POLICIES),
            _about(store, KnowledgeTag.WIKI_PAGE, email, PAGES),
        )
        return build_prompt(
            _told(email), email.body_text, {"employees": employees, "policies": policies, "pages": pages}
        )


async def _employees(store: Store, senders: str) -> list[KnowledgeDocument]:
    if not senders.strip():
        return []
    return await store.fetch(KnowledgeTag.EMPLOYEE, senders, EMPLOYEES, strategy="people")


async def _about(store: Store, tag: str, email: Email, top_k: int) -> list[KnowledgeDocument]:
    text = storable(f"{email.subject}\n{email.body_text}"[:_MAX_QUESTION_LENGTH])
    return await store.fetch(tag, text, top_k) if text.strip() else []


def _told(email: Email) -> str:
    """The headers that matter, a line each."""
    headers = email.headers
    lines = {
        "From": ", ".join(map(str, headers.from_)),
        "Reply-To": ", ".join(map(str, headers.reply_to)),
        "Return-Path": headers.return_path,
        "To": ", ".join(map(str, headers.to)),
        "Subject": headers.subject,
        "Authentication": ", ".join(f"{method}={result}" for method, result in headers.authentication.items()),
        "Attachments": ", ".join(attachment.name for attachment in email.attachments),
    }
    return "\n".join(
        f"{name}: {' '.join(value.split())[:_MAX_SENDER_LENGTH]}" for name, value in lines.items() if value
    )


def _result(answer: Answer, prompt: Prompt, to_the_judge: str | None) -> AnalysisResult:
    """A mail that speaks to the model may have been listened to: it is never clean."""
    verdict = "suspicious" if answer.verdict == "clean" and to_the_judge else answer.verdict
    indicators = [_indicator(answer, reason, prompt) for reason in answer.reasons]
    if to_the_judge:
        message = f'the mail speaks to whoever judges it ("{to_the_judge}")'
        indicators.insert(0, AnalysisIndicator(code="speaks_to_the_judge", message=message, weight=0.5))
    return AnalysisResult(
        is_phishing=verdict == "phishing",
        confidence=UNDECIDED if verdict == "suspicious" else answer.confidence,
        analyzer=NAME,
        reason=f"{verdict}, says the model" if verdict == answer.verdict else f"{verdict}: it speaks to the model",
        indicators=indicators,
    )


def _indicator(answer: Answer, reason: Reason, prompt: Prompt) -> AnalysisIndicator:
    """Labels of documents that were not shown are dropped: what a model makes up is no evidence."""
    cited = [prompt.documents[label] for label in dict.fromkeys(reason.documents) if label in prompt.documents]
    return AnalysisIndicator(
        code=f"model_says_{answer.verdict}",
        message=reason.says,
        weight=0.0 if answer.verdict == "clean" else answer.confidence,
        evidence=[DocumentEvidence.of(document) for document in cited],
    )
