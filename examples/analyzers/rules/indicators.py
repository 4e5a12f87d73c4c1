"""The rules. Each looks at a mail and at what the store knows, and says what speaks against the sender, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from examples.analyzers.rules.domains import Imitation, belongs_to, domain_of, imitation
from examples.analyzers.rules.known import Known, addresses_of, exactly
from examples.analyzers.rules.requests import Asked
from examples.analyzers.rules.view import MailView
from examples.analyzers.rules.weights import (
    AUTHENTICATION_FAILED,
    CLAIMED_BY_ADDRESS,
    CLAIMED_BY_LOCAL_PART,
    CLAIMED_BY_NAME,
    CLAIMED_BY_NEAR_NAME,
    CONTACT_IMITATED,
    DOMAIN_IMITATED,
    EVEN_FROM_THE_RIGHT_ADDRESS,
    NEAR_AND_AUTHENTICATED,
    NEAR_AT_OUR_DOMAIN,
    PERSON_AT_IMITATED_DOMAIN,
    REPLY_ELSEWHERE,
    REPLY_TO_IMITATION,
    RETURN_PATH_ELSEWHERE,
    Rank,
)
from spot_sdk.documents import KnowledgeDocument
from spot_sdk.knowledge_tags import KnowledgeTag

MAX_CITED = 3

_HOW = {
    "homoglyph": "is written with characters that look like those of",
    "subdomain": "only contains",
    "letter": "is one letter away from",
    "ending": "has another ending than",
    "word": "puts other words around the name of",
}


class Finding(NamedTuple):
    """What one rule found: its code, what it weighs from 0 to 1, what it says, and the documents that show it."""

    code: str
    weight: float
    says: str
    documents: Sequence[KnowledgeDocument]


def findings(mail: MailView, known: Known, asked: Iterable[Asked], freemail: frozenset[str]) -> list[Finding]:
    """Everything that speaks against the sender; nothing for somebody known who writes from their own address."""
    if not mail.address:
        return []
    case = _Case(mail, known, freemail)
    return [
        *case.authentication(),
        *case.address(),
        *case.claim(),
        *case.replies(),
        *case.return_path(),
        *case.requests(asked),
    ]


class _Case:
    """One mail with what is known of it, and what several rules need."""

    def __init__(self, mail: MailView, known: Known, freemail: frozenset[str]) -> None:
        self._mail = mail
        self._known = known
        self._owners = known.owners
        self._domain = domain_of(mail.address)
        self._is_ours = belongs_to(self._domain, known.own_domains)
        self._is_free = self._domain in freemail
        self._imitates = imitation(self._domain, known.own_domains)

    # --- who sent it -----------------------------------------------------------------------------------------------

    def authentication(self) -> Iterator[Finding]:
        """Our domain, or the address of somebody known, that the gateway could not authenticate."""
        if self._mail.authentication == "fail" and (self._owners or self._is_ours):
            whose = f"the address {self._mail.address}" if self._owners else f"our domain {self._domain}"
            cited = self._owners or self._staff_at(self._domain)
            yield Finding(
                "authentication_failed", AUTHENTICATION_FAILED, f"SPF, DKIM or DMARC fails for {whose}", cited
            )

    def address(self) -> Iterator[Finding]:
        """An address or a domain that is made to be taken for a known one."""
        if self._owners:
            return
        alike = [one for one in self._known.of_sender if _speaks_of(one, "address", "lookalike", "near")]
        if self._imitates:
            yield self._imitated(self._imitates)
        elif self._is_ours:
            yield from self._near_at_our_domain(alike)
        else:
            yield from self._contact_imitated(alike)

    def _imitated(self, found: Imitation) -> Finding:
        says = f"the domain {found.domain} {_HOW[found.trick]} our domain {found.ours}"
        people = [one for one in self._known.of_sender if not _speaks_of(one, "domain")]
        people.sort(key=lambda one: KnowledgeTag.EMPLOYEE not in one.tags)
        if people:
            says += f", with the address of {_name(people[0])}"
            return Finding("lookalike_address", PERSON_AT_IMITATED_DOMAIN, says, people)
        return Finding("lookalike_domain", DOMAIN_IMITATED[found.trick], says, self._staff_at(found.ours))

    def _near_at_our_domain(self, alike: Sequence[KnowledgeDocument]) -> Iterator[Finding]:
        if alike:
            weight = NEAR_AND_AUTHENTICATED if self._mail.authentication == "pass" else NEAR_AT_OUR_DOMAIN
            says = f"{self._mail.address} is nobody's address here, and is almost that of {_name(alike[0])}"
            yield Finding("near_address", weight, says, alike)

    def _contact_imitated(self, alike: Sequence[KnowledgeDocument]) -> Iterator[Finding]:
        evidence = alike[0].evidence if alike else None
        if evidence is not None:
            says = f"{self._mail.address} is not {evidence.stored}, which is known here, and looks like it"
            yield Finding("lookalike_contact", CONTACT_IMITATED, says, alike)

    # --- who the sender claims to be -------------------------------------------------------------------------------

    def claim(self) -> Iterator[Finding]:
        """A display name that names somebody who does not have this address."""
        by_address = [one for one in self._known.claimed if _speaks_of(one, "address")]
        if by_address and not self._is_of(by_address):
            says = f"the display name holds an address of {_name(by_address[0])}, and the mail comes from another"
            yield Finding("address_in_display_name", CLAIMED_BY_ADDRESS, says, by_address)
            return
        for matches, weights, says in (
            (("exact", "lookalike"), CLAIMED_BY_NAME, "the display name is that of"),
            (("near",), CLAIMED_BY_NEAR_NAME, "the display name is almost that of"),
        ):
            named = [one for one in self._known.claimed if _speaks_of(one, "name", *matches)]
            if named:
                yield from self._claimed(named, weights, "name_of_known_person", says)
                return
        spelled = [
            one
            for one in self._known.of_sender
            if KnowledgeTag.EMPLOYEE in one.tags
            and (_speaks_of(one, "local_part", "exact", "lookalike") or _speaks_of(one, "name", "exact", "lookalike"))
        ]
        if spelled and not self._imitates:
            yield from self._claimed(
                spelled, CLAIMED_BY_LOCAL_PART, "name_in_address", "the address spells the name of"
            )

    def _claimed(
        self, named: Sequence[KnowledgeDocument], weights: dict[Rank, float], code: str, says: str
    ) -> Iterator[Finding]:
        if self._is_of(named) or self._owners or (self._is_ours and self._mail.authentication == "pass"):
            return
        first = sorted(named, key=lambda one: -weights[_rank(one)])
        rank = _rank(first[0])
        if weights[rank] > 0:
            where = "a free mail provider" if self._is_free else self._domain
            who = f"{_name(first[0])} ({_title(first[0])})" if _title(first[0]) else _name(first[0])
            yield Finding(code, weights[rank], f"{says} {who}, and the address at {where} is not theirs", first)

    def _is_of(self, people: Iterable[KnowledgeDocument]) -> bool:
        """Whether the sender's address is one of those people's own."""
        owners = {owner.id for owner in self._owners}
        return any(self._mail.address in addresses_of(person) or person.id in owners for person in people)

    # --- where answers go ------------------------------------------------------------------------------------------

    def replies(self) -> Iterator[Finding]:
        """An answer to one of ours, or to somebody known, that would go to somebody else."""
        known_replies = {one.evidence.asked.lower() for one in exactly(self._known.of_replies) if one.evidence}
        for address in self._mail.reply_to:
            domain = domain_of(address)
            if (
                address in known_replies
                or belongs_to(domain, [self._domain])
                or belongs_to(domain, self._known.own_domains)
            ):
                continue
            found = imitation(domain, self._known.own_domains)
            if found:
                says = f"answers go to {address}, whose domain {_HOW[found.trick]} our domain {found.ours}"
                yield Finding("reply_to_lookalike", REPLY_TO_IMITATION, says, self._staff_at(found.ours))
            elif self._owners or self._is_ours:
                says = f"answers to {self._mail.address} go to {address}"
                cited = self._owners or self._staff_at(self._domain)
                yield Finding("reply_to_elsewhere", REPLY_ELSEWHERE, says, cited)

    def return_path(self) -> Iterator[Finding]:
        """Our domain in ``From:``, sent in another's name; an authenticated one is a service that sends for us."""
        envelope = domain_of(self._mail.envelope)
        if (
            self._is_ours
            and envelope
            and self._mail.authentication != "pass"
            and not belongs_to(envelope, self._known.own_domains)
        ):
            says = f"{self._mail.address} was sent by {envelope}, and nothing shows that it may"
            cited = self._owners or self._staff_at(self._domain)
            yield Finding("return_path_elsewhere", RETURN_PATH_ELSEWHERE, says, cited)

    # --- what it wants ---------------------------------------------------------------------------------------------

    def requests(self, asked: Iterable[Asked]) -> Iterator[Finding]:
        """Requests that a policy speaks of.

        Colleagues may ask each other for most things, not for all. Where the gateway is silent, the right address
        proves little, and several requests in one mail count all the same.
        """
        made = [one for one in asked if self._known.policies.get(one.kind)]
        share = 1.0
        if self._owners and self._mail.authentication != "fail":
            is_silent = self._mail.authentication == "unknown"
            if not (is_silent and len(made) > 1):
                made = [one for one in made if one.request.even_from_colleagues]
                share = EVEN_FROM_THE_RIGHT_ADDRESS
        for one in made:
            says = f'{one.request.says} ("{one.words}"), of which a policy speaks'
            yield Finding(f"request_{one.kind}", one.request.weight * share, says, self._known.policies[one.kind])

    # --- parts -----------------------------------------------------------------------------------------------------

    def _staff_at(self, domain: str) -> list[KnowledgeDocument]:
        return [one for own, one in self._known.own_domains.items() if belongs_to(domain, [own])]


def _speaks_of(document: KnowledgeDocument, field: str, *matches: str) -> bool:
    evidence = document.evidence
    return evidence is not None and evidence.field == field and (not matches or evidence.match in matches)


def _rank(document: KnowledgeDocument) -> Rank:
    if KnowledgeTag.EXECUTIVE in document.tags:
        return "executive"
    return "director" if KnowledgeTag.DIRECTOR in document.tags else "other"


def _name(document: KnowledgeDocument) -> str:
    name = document.metadata.get("name")
    if isinstance(name, str):
        return name
    return document.evidence.stored if document.evidence else document.id


def _title(document: KnowledgeDocument) -> str:
    title = document.metadata.get("title")
    return title if isinstance(title, str) else ""
