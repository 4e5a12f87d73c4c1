"""People, mailboxes and machines of a directory, and who reports to whom."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

from examples.providers.employee_dir.entries import Entry, dn_key
from examples.providers.employee_dir.rules import EntryKind, Rules

MAX_ADDRESSES = 100
MAX_ADDRESS_BYTES = 254  # as RFC 5321 has it


@dataclass(frozen=True, slots=True)
class Member:
    """Somebody or something in the directory. ``key`` is unique among all, and stable from one listing to the next."""

    key: str
    kind: EntryKind
    place: tuple[str, ...]
    names: list[str]
    emails: list[str]
    titles: list[str]
    departments: list[str]
    location: str | None
    number: str | None
    account: str | None
    employee_type: str | None
    purpose: str | None
    manager_place: tuple[str, ...] | None

    @property
    def name(self) -> str:
        return self.names[0]

    @property
    def email(self) -> str | None:
        return self.emails[0] if self.emails else None

    @property
    def title(self) -> str | None:
        return self.titles[0] if self.titles else None

    @property
    def department(self) -> str | None:
        return self.departments[0] if self.departments else None

    @property
    def identities(self) -> list[str]:
        """What an operator may call this one in a list."""
        return [*self.emails, *filter(None, (self.account, self.number))]


@dataclass(frozen=True, slots=True)
class Directory:
    """All members in order of their keys, and the lines between them."""

    members: list[Member]
    _by_place: dict[tuple[str, ...], Member] = field(default_factory=dict)
    _reports: dict[str, list[Member]] = field(default_factory=dict)

    @classmethod
    def of(cls, entries: Iterable[Entry], rules: Rules) -> Self:
        """The directory that ``entries`` describe. An entry listed twice counts once."""
        by_place = {dn_key(entry.dn): entry for entry in entries}
        members = sorted(_members(by_place, rules), key=lambda member: member.key)
        directory = cls(members, {member.place: member for member in members})
        for member in members:
            manager = directory.manager(member)
            if manager is not None and member.kind == "person":
                directory._reports.setdefault(manager.key, []).append(member)
        return directory

    def manager(self, member: Member) -> Member | None:
        """Whom the member's entry names, if that one is listed and not the member."""
        manager = self._by_place.get(member.manager_place) if member.manager_place else None
        return None if manager is member else manager

    def chain(self, member: Member) -> list[Member]:
        """The manager, the manager's manager and so on; a circle is gone round once."""
        chain, current = [member], self.manager(member)
        while current is not None and current not in chain:
            chain.append(current)
            current = self.manager(current)
        return chain[1:]

    def reports(self, member: Member) -> Sequence[Member]:
        """The people who report directly to the member, by name."""
        return sorted(self._reports.get(member.key, ()), key=lambda report: (report.name.casefold(), report.key))

    def unknown_managers(self) -> list[Member]:
        """Members whose manager is named and not listed."""
        return [
            member for member in self.members if member.manager_place and member.manager_place not in self._by_place
        ]


def _members(by_place: dict[tuple[str, ...], Entry], rules: Rules) -> Iterator[Member]:
    taken: set[str] = set()
    for place in sorted(by_place):
        entry, told = by_place[place], rules.attributes
        emails = _emails(entry.values(*told.mail, limit=MAX_ADDRESSES))
        number, account = _first(entry.values(*told.number)), _first(entry.values(*told.account))
        key = next(key for key in _keys(emails, number, account, place) if key not in taken)
        taken.add(key)
        kind = rules.kind(entry)
        managers = entry.values(*told.manager)
        yield Member(
            key=key,
            kind=kind,
            place=place,
            names=entry.values(*told.name) or [account or key],
            emails=emails,
            titles=entry.values(*told.title),
            departments=entry.values(*told.department),
            location=_first(entry.values(*told.location)),
            number=number,
            account=account,
            employee_type=_first(entry.values(*told.type)),
            purpose=_first(entry.values(*told.purpose)) if kind in rules.describe else None,
            manager_place=dn_key(managers[0]) if managers else None,
        )


def _keys(emails: list[str], number: str | None, account: str | None, place: tuple[str, ...]) -> Iterator[str]:
    """What may identify a member, best first: an address that two entries share goes to the first of them."""
    for identity in (_first(emails), number, account):
        if identity:
            yield identity.lower()
    yield f"dn-{hashlib.sha256(','.join(place).encode()).hexdigest()[:32]}"


def _emails(values: Iterable[str]) -> list[str]:
    """Addresses in lower case. Active Directory's ``SMTP:`` marks the primary one, ``smtp:`` the others."""
    primary = [value[5:] for value in values if value.startswith("SMTP:")]
    others = [value.removeprefix("smtp:") for value in values if not value.startswith("SMTP:")]
    return list(dict.fromkeys(mail.lower() for mail in (*primary, *others) if _is_address(mail)))


def _is_address(text: str) -> bool:
    """Not one of another network, which Active Directory writes as ``SIP:...``, nor one that no mail can have."""
    return "@" in text and ":" not in text and len(text.encode()) <= MAX_ADDRESS_BYTES


def _first(values: Sequence[str]) -> str | None:
    return values[0] if values else None
