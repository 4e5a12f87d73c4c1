"""What each tool takes. These models are the published schemas: an argument that is not here is refused."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from knowledge.items.model import (
    CompartmentId,
    ItemDraft,
    ItemId,
    ItemType,
    Relation,
    Tier,
)
from knowledge.items.search import MAX_LIMIT, MAX_QUESTION_CHARS

Id = Annotated[ItemId, Field(description="The item's id, as a search or a brief gives it.")]
Scope = Annotated[
    list[CompartmentId] | None,
    Field(
        min_length=1,
        description="Compartments to look in. Without it: all that this session was granted. What it was not granted "
        "is left out without a word.",
    ),
]
Limit = Annotated[int, Field(ge=1, le=MAX_LIMIT, description="At most so many results.")]
Moment = Annotated[AwareDatetime, Field(strict=False)]
Question = Annotated[str, Field(min_length=1, max_length=MAX_QUESTION_CHARS)]


class Arguments(BaseModel):
    """Exactly these fields, of exactly these types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Get(Arguments):
    id: Id


class Search(Arguments):
    question: Annotated[Question, Field(description="What to look for, in plain words; it is no query language.")]
    scope: Scope = None
    limit: Limit = 10


class Ask(Arguments):
    question: Annotated[
        Question | None, Field(description="What to look for. May be left out with a shape, which says all.")
    ] = None
    shape: Annotated[
        Literal["completed_in_range", "due_this_week"] | None,
        Field(
            description="completed_in_range: projects and episodes whose domain time is from domain_from up to "
            "domain_to. due_this_week: commitments and episodes of the working tier in the week of `day`. Everything "
            "in a shape is evidence; a question only orders it. A shape takes the place of types and tiers."
        ),
    ] = None
    types: Annotated[list[ItemType] | None, Field(min_length=1, description="Only items of these types.")] = None
    tiers: Annotated[list[Tier] | None, Field(min_length=1, description="Only items of these tiers.")] = None
    domain_from: Annotated[
        Moment | None, Field(description="Only items whose domain time is not before this (with a time zone).")
    ] = None
    domain_to: Annotated[Moment | None, Field(description="Only items whose domain time is before this.")] = None
    day: Annotated[
        date | None,
        Field(
            strict=False, description="For due_this_week: a day of the week meant, Monday to Sunday. Default: today."
        ),
    ] = None
    scope: Scope = None
    limit: Limit = 10


class Brief(Arguments):
    scope: Scope = None


class Store(ItemDraft):
    expected_version: Annotated[
        int | None, Field(description="Refuse unless the item is at this version, so that nobody's change is lost.")
    ] = None
    supersedes: Annotated[
        ItemId | None, Field(description="The id of another item that this one takes the place of.")
    ] = None

    def draft(self) -> ItemDraft:
        """The envelope alone."""
        return ItemDraft.model_construct(**{name: getattr(self, name) for name in ItemDraft.model_fields})


class Link(Arguments):
    from_id: Id
    to_id: Id
    relation: Annotated[
        Relation,
        Field(description="How the first is related to the second: small letters and _, such as derived_from."),
    ]


class Promote(Arguments):
    id: Id


class Gate(Arguments):
    action: Annotated[
        Literal["candidates", "admit", "decline"],
        Field(description="List the candidates, or decide on the one that `id` names."),
    ]
    id: Annotated[ItemId | None, Field(description="The candidate to admit or to decline.")] = None
    limit: Annotated[int, Field(ge=1, le=100, description="For candidates: at most so many.")] = 20


class Delete(Arguments):
    id: Id
