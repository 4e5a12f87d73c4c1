"""What is checked before anything is sent: so the fake refuses what the real client refuses, in the same words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from spot_sdk.documents import (
    MAX_QUERY_LENGTH,
    Delete,
    KnowledgeDocument,
    Query,
    RetrievalLimits,
)
from spot_sdk.errors import MAX_PROBLEMS, DuplicateDocument, InvalidDocument, InvalidRequest, Problem
from spot_sdk.graphemes import previous_border
from spot_sdk.problems import summary
from spot_sdk.tag_expression import parse

Model = TypeVar("Model", bound=BaseModel)


class AnalysedEmail(Protocol):
    """What ``for_analysis`` needs of an e-mail. Its text may also be called ``body``."""

    @property
    def body_text(self) -> str | None: ...

    @property
    def retrieval_limits(self) -> Any:
        """RetrievalLimits, the same as a mapping or another object with those attributes, or None."""
        ...


@dataclass(frozen=True, slots=True)
class Asker:
    """Turns what an analyzer asks for into the query that it may ask."""

    limits: RetrievalLimits | None = None
    email_text: str | None = None

    @classmethod
    def of_email(cls, email: AnalysedEmail) -> Asker:
        """Raises InvalidRequest when the e-mail's retrieval limits make no sense: no policy is not a lax one."""
        limits = getattr(email, "retrieval_limits", None)
        if limits is not None:
            _refuse_other_attributes(limits)
            limits = build(RetrievalLimits, limits)
        texts = (getattr(email, name, None) for name in ("body_text", "body"))
        return cls(limits, next((text for text in texts if isinstance(text, str)), None))

    def query(self, tags: str | None, text: str | None, top_k: int, min_score: float, strategy: str) -> Query | None:
        """The query, within the operator's limits; None when the e-mail's text, which it would ask with, is blank.

        Raises InvalidTagExpression and InvalidRequest.
        """
        expression = parse(tags)
        if text is None:
            text = self._question_of_email()
            if not text.strip():
                return None
        query = build(
            Query,
            {
                "text": text,
                "tags": None if expression is None else str(expression),
                "top_k": self._capped(top_k),
                "min_score": min_score,
                "strategy": strategy,
            },
        )
        if self.limits is None:
            return query
        return query.model_copy(update={"min_score": self.limits.floor_min_score(query.min_score)})

    def _capped(self, top_k: int) -> int:
        if type(top_k) is not int or self.limits is None:
            return top_k
        return self.limits.cap_top_k(top_k)

    def _question_of_email(self) -> str:
        """The e-mail's text as a query. Whoever wrote it must not be able to make it one that is refused."""
        if self.email_text is None:
            raise InvalidRequest(
                "there is no text to ask with: give `text`, or make the client by for_analysis(email)",
                problems=[Problem(field="text", message="is missing")],
            )
        text = self.email_text
        if len(text) > MAX_QUERY_LENGTH:
            text = text[: previous_border(text, MAX_QUERY_LENGTH, 0)] or text[:MAX_QUERY_LENGTH]
        return storable(text)


def storable(text: str) -> str:
    """``text`` with a replacement character for each that cannot be stored."""
    return "".join("\ufffd" if c == "\0" or "\ud800" <= c <= "\udfff" else c for c in text)


def check_documents(documents: Iterable[KnowledgeDocument]) -> list[KnowledgeDocument]:
    """The documents as they are now, each checked again: lists and mappings may have changed since they were made.

    Raises InvalidDocument with all that is wrong, DuplicateDocument with every id that stands more than once.
    """
    checked: list[KnowledgeDocument] = []
    problems: list[Problem] = []
    found = 0
    for place, document in enumerate(documents):
        try:
            checked.append(KnowledgeDocument.model_validate(_fields_of(document)))
        except ValidationError as error:
            found += error.error_count()
            if len(problems) < MAX_PROBLEMS:
                problems += _problems(error, _name_of(document, place))
    if problems:
        raise InvalidDocument(summary(problems[0], found), problems=problems)
    counts = Counter(document.id for document in checked)
    twice = [id_ for id_, count in counts.items() if count > 1]
    if twice:
        problems = [Problem(document=id_, field="id", message=f"stands {counts[id_]} times") for id_ in twice]
        raise DuplicateDocument(f"{summary(problems[0], len(twice))}; nothing was stored", problems=problems)
    return checked


def check_ids(ids: Iterable[str]) -> list[str]:
    """The ids, each once. Raises InvalidRequest for what can be no document's id."""
    unique = list(dict.fromkeys(ids))
    for id_ in unique:
        build(Delete, {"ids": [id_]})
    return unique


def build(model: type[Model], values: Any) -> Model:
    """The model made of values that a caller gave. Raises InvalidRequest."""
    try:
        return model.model_validate(values, from_attributes=True)
    except ValidationError as error:
        problems = _problems(error, None)
        raise InvalidRequest(summary(problems[0], error.error_count()), problems=problems) from error


def _refuse_other_attributes(limits: Any) -> None:
    """Of a mapping, pydantic sees members that are none of ours; of an object, we must see that ours are there."""
    missing = [name for name in RetrievalLimits.model_fields if not hasattr(limits, name)]
    if missing and not isinstance(limits, Mapping):
        raise InvalidRequest(
            f"the e-mail's retrieval limits have no {missing[0]}; give a mapping, or an object that has all of "
            f"{', '.join(RetrievalLimits.model_fields)}",
            problems=[Problem(field=name, message="is missing") for name in missing],
        )


def _fields_of(document: KnowledgeDocument) -> dict[str, Any]:
    """Those that it has: one that was made by ``model_construct`` may lack some."""
    return {name: getattr(document, name) for name in KnowledgeDocument.model_fields if hasattr(document, name)}


def _name_of(document: KnowledgeDocument, place: int) -> str:
    """Its id, or where it stands among the documents, as the server says it."""
    name: Any = getattr(document, "id", None)
    return name if isinstance(name, str) else f"documents[{place}]"


def _problems(error: ValidationError, document: str | None) -> list[Problem]:
    """The first of an error's findings; whoever sends thousands reads no more than that."""
    return [
        Problem(
            document=document,
            field=".".join(map(str, found["loc"])) or None,
            message=found["msg"].removeprefix("Value error, "),
        )
        for found in error.errors(include_url=False, include_context=False, include_input=False)[:MAX_PROBLEMS]
    ]
