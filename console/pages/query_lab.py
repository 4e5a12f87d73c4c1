"""What would the store answer? A question as an analyzer asks it, with how it was answered."""

from __future__ import annotations

import math
from typing import Any, cast, get_args

from pydantic import ValidationError

from console.rendering import page
from console.visit import Answer, Visit
from spot_sdk.documents import Query, Strategy
from spot_sdk.errors import InvalidTagExpression
from spot_sdk.tag_expression import parse

_NUMBERS: dict[str, type[int] | type[float]] = {"top_k": int, "min_score": float}
STRATEGIES = cast("tuple[str, ...]", get_args(Strategy))


def show(visit: Visit) -> Answer:
    """The form and, once there is a question, its answer."""
    asked = {"text": "", "tags": "", "strategy": "similarity", "top_k": "5", "min_score": "0"} | visit.query
    tags = visit.ask(lambda store: store.knowledge.stats()).tags
    result, problem = None, ""
    mark = _tags_problem(asked["tags"])
    if asked["text"].strip() and mark is None:
        try:
            question = _question(asked)
            result = visit.ask(lambda store: store.knowledge.ask(question))
        except ValidationError as error:
            problem = "; ".join(f"{_place(found)}: {found['msg']}" for found in error.errors())
    return page(
        "query.html",
        visit=visit,
        asked=asked | {name: "" for name, kind in _NUMBERS.items() if isinstance(_number(asked[name], kind), str)},
        tags=tags,
        strategies=STRATEGIES,
        result=result,
        problem=problem,
        mark=mark,
    )


def check_tags(visit: Visit) -> Answer:
    """What is wrong with a tag expression, and where; asked while somebody types."""
    return page("tags_problem.html", mark=_tags_problem(visit.query.get("tags", "")))


def _question(asked: dict[str, str]) -> Query:
    numbers: dict[str, Any] = {name: _number(asked[name], kind) for name, kind in _NUMBERS.items()}
    named = {"text": asked["text"], "tags": asked["tags"] or None, "strategy": asked["strategy"]}
    return Query.model_validate(named | numbers | {"debug": True})


def _number(text: str, kind: type[int] | type[float]) -> float | str:
    """The number, or the text where it is none: the field of a form takes no other, and the answer says so."""
    try:
        number = kind(text)
    except ValueError:
        return text
    return number if math.isfinite(number) else text


def _place(found: Any) -> str:
    return ".".join(str(part) for part in found["loc"]) or "the question"


def _tags_problem(tags: str) -> dict[str, Any] | None:
    """The expression cut where it goes wrong, with what was expected there."""
    try:
        parse(tags)
    except InvalidTagExpression as error:
        at = max(0, error.column - 1)
        return {"message": error.message, "before": tags[:at], "after": tags[at:], "column": error.column}
    return None
