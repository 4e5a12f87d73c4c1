"""What travels about keys between an operator and the store."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from spot_sdk.documents import MAX_SOURCE_LENGTH, Line

RoleName = Literal["reader", "source", "operator"]


class KeyName(BaseModel):
    """Whose keys are meant."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[Line, Field(min_length=1, max_length=128)]


class IssueKey(KeyName):
    """Body of ``POST /keys``. The key that the name had stays valid for ``grace_s`` seconds more."""

    role: RoleName
    source: Annotated[Line, Field(min_length=1, max_length=MAX_SOURCE_LENGTH)] | None = None
    grace_s: Annotated[int, Field(ge=0, le=30 * 86_400)] = 86_400

    @model_validator(mode="after")
    def _source_goes_with_its_role(self) -> Self:
        if (self.role == "source") != (self.source is not None):
            raise ValueError("the role 'source' needs a source, and no other role takes one")
        return self


class KeyRecord(BaseModel):
    """A key as it is listed: everything but the key."""

    name: str
    role: RoleName
    source: str | None = None
    created_at: datetime
    expires_at: datetime | None = None


class Keys(BaseModel):
    """Answer of ``GET /keys``."""

    keys: list[KeyRecord]


class IssuedKey(BaseModel):
    """Answer of ``POST /keys``: the only time that the key is seen."""

    name: str
    role: RoleName
    source: str | None = None
    key: str
