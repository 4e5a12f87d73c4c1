"""What a mail asks for, sentence by sentence, as far as policies speak of such things."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from examples.analyzers.settings import SettingsError

MAX_TEXT_LENGTH = 20_000
"""Characters of a mail that are read for requests; people ask at the beginning."""

MAX_SENTENCE_LENGTH = 400


def _compiled(pattern: Any) -> Any:
    return re.compile(pattern, re.IGNORECASE) if isinstance(pattern, str) else pattern


Phrase = Annotated[re.Pattern[str], BeforeValidator(_compiled)]


class Request(BaseModel):
    """One kind of request: how it is worded, which question its policy answers, and what it weighs.

    ``even_from_colleagues``: nobody asks for it, whoever they are.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    says: str
    question: str
    weight: Annotated[float, Field(gt=0, lt=1)]
    even_from_colleagues: bool = False
    phrases: Annotated[tuple[Phrase, ...], Field(min_length=1)]


class Lexicon(BaseModel):
    """All kinds of requests by name, and what shows that a sentence is none."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    not_a_request: tuple[Phrase, ...] = ()
    requests: dict[str, Request]


class Asked(NamedTuple):
    """A request that a mail makes, and the first words that make it."""

    kind: str
    request: Request
    words: str


def read_lexicon(path: Path) -> Lexicon:
    """Raises SettingsError when the file is not there or not right."""
    try:
        return Lexicon.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, yaml.YAMLError, ValidationError, re.error) as error:
        raise SettingsError(f"{path.name}: {error}") from None


def requests_in(text: str, lexicon: Lexicon) -> list[Asked]:
    """Each kind of request that ``text`` makes, once; what it quotes of other mails is not read."""
    sentences = [
        sentence
        for sentence in _sentences(text[:MAX_TEXT_LENGTH])
        if not any(phrase.search(sentence) for phrase in lexicon.not_a_request)
    ]
    found: list[Asked] = []
    for kind, request in lexicon.requests.items():
        hits = (match for sentence in sentences for phrase in request.phrases if (match := phrase.search(sentence)))
        match = next(hits, None)
        if match is not None:
            found.append(Asked(kind, request, match[0]))
    return found


def _sentences(text: str) -> Iterator[str]:
    """Sentences on one line each; an overlong one in pieces."""
    own = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith(">"))
    for part in re.split(r"(?<=[.!?;])\s+|\n\s*\n", own):
        sentence = " ".join(part.split()).replace("’", "'")
        for start in range(0, len(sentence), MAX_SENTENCE_LENGTH):
            yield sentence[start : start + MAX_SENTENCE_LENGTH]
