"""What an item is: the strict envelope that is stored, and what is read back."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, NamedTuple, Self, get_args

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from spot_sdk.errors import InvalidItem, InvalidRequest, Problem

ItemType = Literal["fact", "preference", "decision", "project", "document", "episode", "person", "commitment"]
Tier = Literal["working", "short-term", "long-term", "archive"]
GateState = Literal["none", "candidate", "admitted", "declined"]
Decision = Literal["admit", "decline"]

ITEM_TYPES: tuple[ItemType, ...] = get_args(ItemType)
TIERS: tuple[Tier, ...] = get_args(Tier)

DERIVED_FROM = "derived_from"
"""The relation of an item to what it was made from; a deletion follows it."""
SUPERSEDES = "supersedes"

MAX_BODY_BYTES = 1_048_576
_MAX_DEPTH = 64


def _storable(text: str) -> str:
    """PostgreSQL holds neither U+0000 nor half a surrogate pair."""
    if "\0" in text:
        raise ValueError("must not contain U+0000")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("must not contain half a surrogate pair")
    return text


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    return text


def _storable_json(body: JsonValue) -> JsonValue:
    for part, depth in _parts(body):
        if depth > _MAX_DEPTH:
            raise ValueError(f"must not be nested more than {_MAX_DEPTH} deep")
        if isinstance(part, str):
            _storable(part)
        elif isinstance(part, float) and not math.isfinite(part):
            raise ValueError("must hold finite numbers only")
    if len(json.dumps(body, ensure_ascii=False).encode()) > MAX_BODY_BYTES:
        raise ValueError(f"must not be longer than {MAX_BODY_BYTES:,} bytes; use body_ref")
    return body


def _parts(body: JsonValue) -> Iterator[tuple[JsonValue, int]]:
    """Every value inside, keys too, with how deep it is, in reading order."""
    waiting: list[tuple[JsonValue, int]] = [(body, 0)]
    while waiting:
        part, depth = waiting.pop()
        yield part, depth
        if isinstance(part, dict):
            waiting += [(each, depth + 1) for pair in reversed(part.items()) for each in reversed(pair)]
        elif isinstance(part, list):
            waiting += [(each, depth + 1) for each in reversed(part)]


ItemId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}\z")]
CompartmentId = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}\z")]
Relation = Annotated[str, Field(pattern=r"^[a-z][a-z_]{0,62}\z")]
Text = Annotated[str, AfterValidator(_storable)]
Tag = Annotated[Text, Field(max_length=100), AfterValidator(_not_blank)]

_STRICT = ConfigDict(extra="forbid", strict=True, frozen=True)


class LinkDraft(BaseModel):
    """A link from the item it is stored with. ``derived_from`` says what the item was made from."""

    model_config = _STRICT

    to: ItemId
    relation: Relation


class Link(LinkDraft):
    """A link as it is stored; ``to_version`` where an earlier version is meant and not the item as such."""

    to_version: int | None = None


class ItemDraft(BaseModel):
    """The envelope: exactly these fields. Either ``body`` (any JSON but null, 1 MB at most) or ``body_ref``.

    Without an ``id`` the store gives one. Without a ``tier`` a new item is working, and another one stays where it is.
    """

    model_config = _STRICT

    id: ItemId | None = None
    type: ItemType
    title: Annotated[Text, Field(max_length=500), AfterValidator(_not_blank)]
    summary: Annotated[Text, Field(max_length=4000)] = ""
    body: Annotated[JsonValue, AfterValidator(_storable_json)] = None
    body_ref: Annotated[Text, Field(max_length=2000), AfterValidator(_not_blank)] | None = None
    compartment: CompartmentId
    tier: Tier | None = None
    tags: Annotated[list[Tag], Field(max_length=64)] = []
    links: Annotated[list[LinkDraft], Field(max_length=100)] = []
    domain_at: Annotated[AwareDatetime, Field(strict=False)] | None = None

    @model_validator(mode="after")
    def _has_one_body(self) -> Self:
        if (self.body is None) == (self.body_ref is None):
            raise ValueError("needs either body or body_ref")
        return self

    @classmethod
    def parse(cls, fields: Mapping[str, Any]) -> Self:
        """The envelope that ``fields`` are. Raises InvalidItem, naming each field that is not right."""
        try:
            return cls.model_validate(dict(fields))
        except ValidationError as error:
            problems = [
                Problem(field=".".join(map(str, found["loc"])) or None, message=found["msg"])
                for found in error.errors(include_url=False, include_input=False, include_context=False)
            ]
            summary = "; ".join(f"{problem.field or 'item'}: {problem.message}" for problem in problems[:3])
            raise InvalidItem(f"the item is not valid: {summary}", problems=problems) from None


class Item(BaseModel):
    """An item as it is now, with its three clocks: system time, domain time and tier state.

    ``links`` are those whose other end the reading session sees.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    type: ItemType
    title: str
    summary: str
    body: JsonValue
    body_ref: str | None
    compartment: str
    tier: Tier
    gate_state: GateState
    tags: list[str]
    links: list[Link]
    version: int
    created_at: datetime
    updated_at: datetime
    last_accessed_at: datetime | None
    domain_at: datetime | None

    def text(self) -> str:
        """What the item says in words, as the full-text column takes it: title, summary, and the body's texts."""
        return searchable_text(self.title, self.summary, self.body)


class ItemVersion(NamedTuple):
    """What an item was before an update."""

    version: int
    type: ItemType
    title: str
    summary: str
    body: JsonValue
    body_ref: str | None
    compartment: str
    tags: list[str]
    domain_at: datetime | None
    tier: Tier
    written_at: datetime
    superseded_at: datetime


def searchable_text(title: str, summary: str, body: JsonValue) -> str:
    """Title, summary and the body's texts (no keys), a line each, without blank ones."""
    return "\n".join(line for line in (title, summary, *_texts(body)) if line.strip())


def _texts(body: JsonValue) -> Iterator[str]:
    if isinstance(body, str):
        yield body
    elif isinstance(body, list):
        for part in body:
            yield from _texts(part)
    elif isinstance(body, dict):
        for part in body.values():
            yield from _texts(part)
    elif isinstance(body, int | float) and not isinstance(body, bool):
        yield json.dumps(body)


_ITEM_ID: TypeAdapter[str] = TypeAdapter(ItemId)
_RELATION: TypeAdapter[str] = TypeAdapter(Relation)


def require_item_id(value: object) -> str:
    """``value`` as an item's id. Raises InvalidRequest when it cannot be one, whatever it is."""
    return _require(_ITEM_ID, "id", value)


def require_relation(value: object) -> str:
    """``value`` as a relation, such as ``derived_from``. Raises InvalidRequest when it cannot be one."""
    return _require(_RELATION, "relation", value)


def _require(kind: TypeAdapter[str], field: str, value: object) -> str:
    try:
        return kind.validate_python(value, strict=True)
    except ValidationError as error:
        message = error.errors(include_url=False)[0]["msg"]
        raise InvalidRequest(f"{field}: {message}", problems=[Problem(field=field, message=message)]) from None
