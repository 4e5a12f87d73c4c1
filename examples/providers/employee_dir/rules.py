"""The operator's rules: which attributes say what, who is an executive, and what is no person at all."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from examples.providers.employee_dir.entries import Entry
from examples.providers.settings import SettingsError
from spot_sdk.documents import Tag

EntryKind = Literal["person", "shared_mailbox", "service_account"]


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from error
    return text


Names = Annotated[list[str], Field(min_length=1)]
Pattern = Annotated[str, AfterValidator(_pattern)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Attributes(_Part):
    """For each thing we want to know, the attributes whose values tell it."""

    name: Names
    mail: Names
    title: Names
    department: Names
    location: Names
    manager: Names
    number: Names
    account: Names
    type: Names
    purpose: Names


class Rank(_Part):
    """Who holds a rank: by title, or named by address, account or number."""

    titles: list[Pattern] = []
    people: list[str] = []

    def includes(self, titles: Iterable[str], identities: Iterable[str]) -> bool:
        named = {person.casefold() for person in self.people}
        return any(identity.casefold() in named for identity in identities) or any(
            re.search(pattern, title, re.IGNORECASE) for pattern in self.titles for title in titles
        )


class Kind(_Part):
    """What makes an entry one of a kind: any of these values, or a place in the tree."""

    attributes: dict[str, list[str]] = {}
    under: list[str] = []

    def includes(self, entry: Entry) -> bool:
        return any(
            value.casefold() in {wanted.casefold() for wanted in values}
            for name, values in self.attributes.items()
            for value in entry.values(name)
        ) or not entry.places.isdisjoint(place.casefold() for place in self.under)


class Rules(_Part):
    """The rules file as a whole."""

    attributes: Attributes
    executive: Rank = Rank()
    director: Rank = Rank()
    shared_mailbox: Kind = Kind()
    service_account: Kind = Kind()
    describe: list[EntryKind] = []
    departments: dict[Tag, list[str]] = {}

    def kind(self, entry: Entry) -> EntryKind:
        if self.shared_mailbox.includes(entry):
            return "shared_mailbox"
        return "service_account" if self.service_account.includes(entry) else "person"

    def wanted_attributes(self) -> list[str]:
        """Every attribute that a rule looks at."""
        told = [name for names in self.attributes.model_dump().values() for name in names]
        judged = [name for kind in (self.shared_mailbox, self.service_account) for name in kind.attributes]
        return list(dict.fromkeys(["objectClass", *told, *judged]))


def read_rules(path: Path) -> Rules:
    """Raises SettingsError, which names the file and the place in it."""
    try:
        return Rules.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: {error}") from error
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, found['loc']))}: {found['msg']}" for found in error.errors())
        raise SettingsError(f"{path}: {problems}") from error
