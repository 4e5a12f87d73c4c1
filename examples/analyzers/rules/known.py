"""What the store knows of those whom a mail names: a handful of questions, asked side by side."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from examples.analyzers.rules.domains import domain_of
from examples.analyzers.rules.requests import Asked
from examples.analyzers.rules.view import MailView
from spot_sdk.checks import storable
from spot_sdk.documents import KnowledgeDocument
from spot_sdk.knowledge_tags import KnowledgeTag

PERSON_SCORE = 0.6
"""From here on a document speaks of a person; below, of a domain that resembles a known one."""

POLICY_SCORE = 0.35
"""Cosine similarity from which a policy answers the question about a kind of request."""

OWN_DOMAIN_SHARE = 0.2
"""A domain is the company's own when that share of the employees seen have their first address there."""

_STAFF_QUESTION = "Which employees are there, and what are their e-mail addresses?"
_STAFF_SAMPLE = 20
_MAX_PARTIES = 5
_MAX_PARTY_LENGTH = 500
_REPORTS = {KnowledgeTag.INCIDENT_REPORT, KnowledgeTag.THREAT_REPORT}


class Store(Protocol):
    """What rules need of a KnowledgeClient."""

    async def fetch(
        self,
        tags: str | None = None,
        text: str | None = None,
        top_k: int = 5,
        min_score: float = 0.0,
        strategy: str = "similarity",
    ) -> list[KnowledgeDocument]: ...


@dataclass(frozen=True)
class Known:
    """What the store says; documents come with the evidence that found them.

    ``of_sender``: of the sender's address. ``claimed``: employees whom the display name names, by name or by address.
    ``of_replies``: of the addresses that an answer would go to. ``own_domains``: each with an employee who has it.
    ``policies``: what answers the question about a kind of request.
    """

    of_sender: Sequence[KnowledgeDocument] = ()
    claimed: Sequence[KnowledgeDocument] = ()
    of_replies: Sequence[KnowledgeDocument] = ()
    own_domains: dict[str, KnowledgeDocument] = field(default_factory=dict)
    policies: dict[str, list[KnowledgeDocument]] = field(default_factory=dict)

    @property
    def owners(self) -> list[KnowledgeDocument]:
        """The documents that know the sender's address, to the letter. A report about an attack vouches for nobody."""
        return list(exactly(self.of_sender))


async def look_up(store: Store, mail: MailView, asked: Iterable[Asked], freemail: frozenset[str]) -> Known:
    """Ask everything at once. Raises KnowledgeError when the store cannot answer."""
    kinds = list(asked)
    replies = [address for address in mail.reply_to if address != mail.address]
    sender, claimed, recipients, staff, answered, *policies = await asyncio.gather(
        _people(store, None, [mail.address], 8),
        _people(store, KnowledgeTag.EMPLOYEE, mail.names, 5),
        _people(store, KnowledgeTag.EMPLOYEE, mail.recipients[:_MAX_PARTIES], _MAX_PARTIES),
        store.fetch(KnowledgeTag.EMPLOYEE, _STAFF_QUESTION, _STAFF_SAMPLE),
        _people(store, None, replies[:_MAX_PARTIES], 8),
        *(store.fetch(KnowledgeTag.POLICY, one.request.question, 2, POLICY_SCORE) for one in kinds),
    )
    employees = [*staff, *exactly(recipients), *(one for one in sender if KnowledgeTag.EMPLOYEE in one.tags), *claimed]
    return Known(
        of_sender=sender,
        claimed=[one for one in claimed if (one.score or 0) >= PERSON_SCORE],
        of_replies=answered,
        own_domains=own_domains(employees, freemail),
        policies={one.kind: found for one, found in zip(kinds, policies, strict=True) if found},
    )


async def _people(store: Store, tags: str | None, parties: Sequence[str], top_k: int) -> list[KnowledgeDocument]:
    """Whoever wrote the mail must not be able to make a question that the store refuses."""
    text = storable("; ".join(party[:_MAX_PARTY_LENGTH] for party in parties if party.strip()))
    return await store.fetch(tags, text, top_k, strategy="people") if text.strip() else []


def exactly(documents: Iterable[KnowledgeDocument]) -> Iterator[KnowledgeDocument]:
    """Those that know the address asked for, to the letter, and are no report about an attack."""
    for document in documents:
        found = document.evidence
        if found and (found.field, found.match) == ("address", "exact") and not _REPORTS.intersection(document.tags):
            yield document


def addresses_of(document: KnowledgeDocument) -> set[str]:
    """The addresses that a document gives as its own, in lower case."""
    listed = document.metadata.get("emails")
    values = [document.metadata.get("email"), *(listed if isinstance(listed, list) else [])]
    return {value.lower() for value in values if isinstance(value, str)}


def own_domains(employees: Iterable[KnowledgeDocument], freemail: frozenset[str]) -> dict[str, KnowledgeDocument]:
    """The company's domains, from the first address of each employee; each with one who has an address there.

    One contractor's private address makes no domain the company's own, and no provider of free mail ever is.
    """
    first: dict[str, KnowledgeDocument] = {}
    homes: dict[str, str] = {}
    for document in employees:
        address = document.metadata.get("email")
        domain = domain_of(address) if isinstance(address, str) else ""
        if domain and domain not in freemail:
            homes[document.id] = domain
            first.setdefault(domain, document)
    counts = Counter(homes.values())
    return {domain: first[domain] for domain, count in counts.items() if count >= OWN_DOMAIN_SHARE * len(homes)}
