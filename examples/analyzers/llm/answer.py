"""What a model may answer, and how its text is read."""

from __future__ import annotations

import json
import unicodedata
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from examples.analyzers.llm.chat import ModelFailed

MAX_REASONS = 8
MAX_WORDS_LENGTH = 300


def _told(text: Any) -> Any:
    """One line that a terminal or a page can show: what a model writes is shaped by what it read."""
    if not isinstance(text, str):
        return text
    plain = "".join(c for c in " ".join(text.split()) if unicodedata.category(c)[0] != "C")
    return plain[:MAX_WORDS_LENGTH]


class Reason(BaseModel):
    """Why, in a sentence, and the labels of the documents that show it."""

    says: Annotated[str, BeforeValidator(_told), Field(min_length=1)]
    documents: Annotated[list[str], Field(max_length=20)] = []


class Answer(BaseModel):
    """A model's verdict. ``check`` repeats the word that the prompt gave, which no mail can know."""

    check: str
    verdict: Literal["phishing", "suspicious", "clean"]
    confidence: Annotated[float, Field(ge=0, le=1)]
    reasons: Annotated[list[Reason], Field(max_length=MAX_REASONS)] = []


def read_answer(text: str, check: str) -> Answer:
    """The first JSON object in a model's text. Raises ModelFailed when there is none, or not the one asked for."""
    start = text.find("{")
    if start < 0:
        raise ModelFailed("the model's answer holds no JSON object")
    try:
        value, _ = json.JSONDecoder().raw_decode(text, start)
        answer = Answer.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise ModelFailed(f"the model's answer is not as asked for: {field}: {first['msg']}") from None
    except (ValueError, RecursionError):
        raise ModelFailed("the model's answer is not JSON") from None
    if answer.check != check:
        raise ModelFailed("the model's answer does not repeat the check word: it may be somebody else's wording")
    return answer
