"""Says what a directory knows, in documents: one for each member, and an org chart for each manager."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from examples.providers.employee_dir.people import Directory, Member
from examples.providers.employee_dir.rules import Rules
from examples.providers.listing import Listing
from spot_sdk.documents import KnowledgeDocument
from spot_sdk.knowledge_tags import WELL_KNOWN_TAGS, KnowledgeTag, to_tag

SOURCE = "provider-employee-dir"

_ID_PREFIX = {"person": "employee", "shared_mailbox": "mailbox", "service_account": "service-account"}
_KIND_TAG = {"person": KnowledgeTag.EMPLOYEE, "shared_mailbox": "shared_mailbox", "service_account": "service_account"}
_THEIR = {"person": "Their", "shared_mailbox": "Its", "service_account": "Its"}
_UNDER = {"person": "Reports to", "shared_mailbox": "Looked after by", "service_account": "Looked after by"}

# What a department may be called without its people being taken for something that they are not.
_DEPARTMENT_TAGS = (KnowledgeTag.FINANCE, KnowledgeTag.ENGINEERING, KnowledgeTag.HR)
_RESERVED_TAGS = {*WELL_KNOWN_TAGS, *_KIND_TAG.values()} - {*_DEPARTMENT_TAGS}


def documents(directory: Directory, rules: Rules, chunk_chars: int) -> Listing:
    """Everything the store should know; an org chart longer than ``chunk_chars`` comes in several documents.

    Mailboxes and machines without an address concern nobody who reads mail and are left out.
    """
    told = [member for member in directory.members if member.kind == "person" or member.email]
    listing = Listing(
        documents=[
            *(_member(member, directory, rules) for member in told),
            *(chart for member in told for chart in _org_chart(member, directory, rules, chunk_chars)),
        ],
        remarks=list(_remarks(directory)),
    )
    listing.documents.sort(key=lambda document: document.id)
    return listing


def _member(member: Member, directory: Directory, rules: Rules) -> KnowledgeDocument:
    manager = directory.manager(member)
    facts = {
        "email": member.email,
        "emails": member.emails,
        "name": member.name,
        "names": member.names,
        "title": member.title,
        "titles": member.titles,
        "dept": member.department,
        "manager_email": manager.email if manager else None,
        "location": member.location,
        "employee_number": member.number,
        "employee_type": member.employee_type,
    }
    return KnowledgeDocument(
        id=f"{_ID_PREFIX[member.kind]}:{member.key}",
        content=_portrait(member, manager),
        tags=[_KIND_TAG[member.kind], *_ranks(member, rules), *_department_tags(member, rules)],
        metadata=_known(facts),
        source=SOURCE,
    )


def _portrait(member: Member, manager: Member | None) -> str:
    """What is said of a member, in sentences: found better than a list of labels and values is (name and address
    together hit@1 .97 against .84, name alone .96 against .89, on a directory of 167).
    """
    others = [name for name in member.names if name not in member.name]
    alias = f" (also {', '.join(others)})" if others else ""
    sentences = [f"{member.name}{alias} is {_occupation(member)}{_whereabouts(member)}."]
    if member.purpose:
        sentences.append(f"{member.purpose.rstrip('. ')}.")
    if member.emails:
        sentences.append(f"{_THEIR[member.kind]} e-mail address is {' or '.join(member.emails)}.")
    if manager:
        sentences.append(f"{_UNDER[member.kind]} {manager.name}.")
    return " ".join(sentences)


def _occupation(member: Member) -> str:
    match member.kind:
        case "person":
            return "; ".join(member.titles) or member.employee_type or "an employee"
        case "shared_mailbox":
            return "a shared mailbox, read by several people"
        case "service_account":
            return "a service account, whose mail is written by a machine"


def _whereabouts(member: Member) -> str:
    department = f" in {', '.join(member.departments)}" if member.departments else ""
    return f"{department}, {member.location}" if member.location else department


def _org_chart(member: Member, directory: Directory, rules: Rules, chunk_chars: int) -> Iterator[KnowledgeDocument]:
    reports = directory.reports(member)
    if not reports:
        return
    head = _chart_head(member, directory.chain(member), len(reports))
    parent = f"org-chart:{member.key}"
    facts = {
        "parent_id": parent,
        "title": f"Org chart of {member.name}",
        "name": member.name,
        "email": member.email,
        "dept": member.department,
    }
    for number, content in enumerate(_packed(head, [_with_title(report) for report in reports], chunk_chars)):
        yield KnowledgeDocument(
            id=f"{parent}#chunk-{number}",
            content=content,
            tags=[KnowledgeTag.ORG_CHART, *_department_tags(member, rules)],
            metadata={**_known(facts), "chunk_index": number},
            source=SOURCE,
        )


def _chart_head(member: Member, chain: list[Member], reports: int) -> str:
    """Who leads, and the way up; the sentence stands open for the names of those who report."""
    way_up = ", who reports to ".join(_with_title(manager) for manager in chain)
    reporting = f" {member.name} reports to {way_up}." if chain else ""
    people = "person reports" if reports == 1 else "people report"
    return f"{_with_title(member)} leads {_team(member)}.{reporting} {reports} {people} directly to {member.name}: "


def _team(member: Member) -> str:
    return f"a team in {member.department}" if member.department else "a team"


def _with_title(member: Member) -> str:
    return f"{member.name} ({member.title})" if member.title else member.name


def _packed(head: str, names: list[str], room: int) -> Iterator[str]:
    """``head`` with as many names as fit into ``room`` characters, again and again until all are told."""
    line: list[str] = []
    length = len(head)
    for name in names:
        if line and length + len(name) + 2 > room:
            yield head + ", ".join(line) + "."
            line, length = [], len(head)
        line.append(name)
        length += len(name) + 2
    yield head + ", ".join(line) + "."


def _ranks(member: Member, rules: Rules) -> Iterator[str]:
    if member.kind != "person":
        return
    if rules.executive.includes(member.titles, member.identities):
        yield KnowledgeTag.EXECUTIVE
    if rules.director.includes(member.titles, member.identities):
        yield KnowledgeTag.DIRECTOR


def _department_tags(member: Member, rules: Rules) -> Iterator[str]:
    for department in member.departments:
        for tag, names in rules.departments.items():
            if department.casefold() in {name.casefold() for name in names}:
                yield tag
        try:
            tag = to_tag(department)
        except ValueError:
            continue  # a department of signs only labels nobody
        yield f"department:{tag}" if tag in _RESERVED_TAGS else tag


def _known(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if value not in (None, [])}


def _remarks(directory: Directory) -> Iterator[str]:
    """What an operator may want to mend in the directory."""
    yield from _remark("people without an address", [m for m in directory.members if _is_person(m) and not m.email])
    yield from _remark(
        "mailboxes or service accounts without an address, left out",
        [m for m in directory.members if not _is_person(m) and not m.email],
    )
    yield from _remark(
        "entries with an address that another has, known by number or account",
        [m for m in directory.members if m.email and m.email != m.key],
    )
    yield from _remark("entries whose manager is not listed", directory.unknown_managers())


def _is_person(member: Member) -> bool:
    return member.kind == "person"


def _remark(what: str, members: list[Member]) -> Iterator[str]:
    if members:
        named = ", ".join(member.key for member in members[:5])
        yield f"{len(members)} {what}: {named}{', ...' if len(members) > 5 else ''}"
