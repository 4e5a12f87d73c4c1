"""The nine tools, and which class of agent is offered which. A tool's docstring is its published description.

Only ``kl_get`` gives an item in full by its id, and only it is an access; what changes an item answers with a receipt.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Generic, NamedTuple, TypeVar

from mcp_types import Tool, ToolAnnotations
from pydantic import BaseModel, TypeAdapter

from knowledge.items.layer import KnowledgeLayer
from knowledge.items.model import Item
from knowledge.items.search import Hit, Narrowing, visible
from knowledge.items.session import AgentClass, Session
from mcp_server import arguments as takes
from spot_sdk.errors import InvalidRequest, Problem

Takes = TypeVar("Takes", bound=BaseModel)
Data = dict[str, Any]

_EVERYBODY = frozenset(AgentClass)
_WRITERS = _EVERYBODY - {AgentClass.EXTERNAL}
_HITS: TypeAdapter[list[Hit]] = TypeAdapter(list[Hit])


class Desk(NamedTuple):
    """What a tool works with: the layer, and the session on whose behalf. No caller has a say in the latter."""

    layer: KnowledgeLayer
    session: Session

    def scope(self, asked: list[str] | None) -> list[str]:
        """Where to look: what was asked for, or all that this session sees."""
        return sorted(self.session.scope or ()) if asked is None else asked


def kl_get(desk: Desk, arguments: takes.Get) -> Data:
    """Read one item in full, by its id.

    The only way to read an item's whole body. Reading is an access: it is recorded, and keeps the item warm. Search or
    ask first to learn ids.

    Answers {"item": {...}} with every field: id, type, title, summary, body or body_ref, compartment, tier, gate_state,
    tags, links, version, created_at, updated_at, last_accessed_at, domain_at. An item that is not there and one that
    this session may not see are both answered with the code not_found.
    """
    return {"item": _item(desk.layer.store.get(arguments.id, desk.session))}


def kl_search(desk: Desk, arguments: takes.Search) -> Data:
    """Find items by words and by likeness of words.

    Looks through every tier of the compartments in scope. Two legs are added up: full-text rank (lexical_score) and
    similarity to the closest passage (semantic_score). Being found is no access.

    Answers {"results": [...]}, best first: id, type, title, summary, passage (the closest one, 500 characters at most),
    compartment, tier, tags, domain_at, updated_at, version, lexical_score, semantic_score, score. Read what looks right
    with kl_get.
    """
    found = desk.layer.search.search(
        arguments.question, desk.scope(arguments.scope), desk.session, limit=arguments.limit
    )
    return {"results": _hits(found)}


def kl_ask(desk: Desk, arguments: takes.Ask) -> Data:
    """Find evidence for a question among items of some types, tiers, or domain times.

    Like kl_search, narrowed first. It gives evidence, not an answer: that is for you to find, and to say what it rests
    on. Shapes are ready-made: completed_in_range (what was finished between domain_from and domain_to) and
    due_this_week (what is due in the week of `day`). Being found is no access.

    Answers {"evidence": [...]} with what kl_search gives of each.
    """
    found = desk.layer.search.ask(
        arguments.question, _narrowing(arguments), desk.scope(arguments.scope), desk.session, limit=arguments.limit
    )
    return {"evidence": _hits(found)}


def kl_brief(desk: Desk, arguments: takes.Brief) -> Data:
    """What is at hand now: the working tier of this session's compartments.

    Start here. Each item comes in full, with freshness_ring: true when it was read or written within the last seven
    days. Most recently used first. Not an access.

    Answers {"items": [...]}.
    """
    session = desk.session
    if arguments.scope is not None:
        session = replace(session, scope=frozenset(visible(arguments.scope, session)))
    return {
        "items": [
            _item(working.item) | {"freshness_ring": working.freshness_ring}
            for working in desk.layer.store.working(session)
        ]
    }


def kl_store(desk: Desk, arguments: takes.Store) -> Data:
    """Create an item, or replace one by a new version.

    Without `id` a new item is made and gets an id. With the `id` of an item that this session sees, what is sent takes
    the place of what it said (send the whole envelope); the version before is kept and linked. Give expected_version so
    that you do not overwrite what somebody else wrote meanwhile.

    The envelope: type (fact, preference, decision, project, document, episode, person, commitment), title, summary,
    either body (any JSON, such as {"text": "..."}) or body_ref (where the content is), compartment (exactly one, of
    those granted to this session), tags, links ([{"to": id, "relation": "derived_from"}] says what it was made from),
    domain_at (when what it says is, or is due, with a time zone), tier (working for a new item, unless you say
    otherwise; long-term is reached through the gate).

    Answers {"stored": {id, version, compartment, type, tier, gate_state, updated_at}}. Codes: invalid_item, forbidden
    (a compartment without a grant), not_found (the id), conflict (another version), firewall_crossed.
    """
    item = desk.layer.store.store(
        arguments.draft(),
        desk.session,
        supersedes=arguments.supersedes,
        expected_version=arguments.expected_version,
    )
    return {"stored": _receipt(item)}


def kl_link(desk: Desk, arguments: takes.Link) -> Data:
    """Link two items that this session sees.

    The relation derived_from has a meaning to the layer: an item made from another one goes with it when the owner
    deletes that. Linking again is no change. No link crosses the edge of a compartment that has a firewall, in either
    direction (code firewall_crossed).

    Answers {"linked": {"from": id, "to": id, "relation": name}}.
    """
    desk.layer.store.link(arguments.from_id, arguments.to_id, arguments.relation, desk.session)
    return {"linked": {"from": arguments.from_id, "to": arguments.to_id, "relation": arguments.relation}}


def kl_promote(desk: Desk, arguments: takes.Promote) -> Data:
    """Bring an item back to the working tier, its access clock reset to now.

    For what has cooled down and matters again.

    Answers {"promoted": {id, version, compartment, type, tier, gate_state, updated_at}}.
    """
    return {"promoted": _receipt(desk.layer.store.promote(arguments.id, desk.session))}


def kl_gate(desk: Desk, arguments: takes.Gate) -> Data:
    """List the items before the gate to long-term, or decide on one.

    Candidates are short-term items that nobody read or wrote for 28 days. `admit` brings one to long-term, `decline`
    leaves it short-term until it was used again. Either is recorded with your name.

    Answers {"candidates": [{id, type, title, summary, ...}]}, coldest first, or {"decided": {...}}. Code conflict: it
    is no candidate.
    """
    if arguments.action == "candidates":
        if arguments.id is not None:
            raise _wrong("id", "is for admit and decline")
        found = desk.layer.gate.candidates(desk.session, arguments.limit)
        return {"candidates": [_receipt(item) | {"title": item.title, "summary": item.summary} for item in found]}
    if arguments.id is None:
        raise _wrong("id", f"is needed to {arguments.action}")
    return {"decided": _receipt(desk.layer.gate.decide(arguments.id, arguments.action, desk.session))}


def kl_delete(desk: Desk, arguments: takes.Delete) -> Data:
    """Delete an item for good, with its versions, links, history, and whatever was made from it alone.

    There is no way back. Items that were made from others too are not deleted but flagged, for the owner to decide. A
    tombstone without content is left: id, type, date, who.

    Answers {"deleted": [ids], "flagged": [ids]}.
    """
    return desk.layer.deletion.erase(arguments.id, desk.session)._asdict()


@dataclass(frozen=True, slots=True)
class KlTool(Generic[Takes]):
    """A tool: what it does, what it takes, and who is offered it; ``for_writers`` also to externals that may write."""

    run: Callable[[Desk, Takes], Data]
    takes: type[Takes]
    title: str
    offered_to: frozenset[AgentClass] = _EVERYBODY
    for_writers: bool = False
    reads_only: bool = False
    destroys: bool = False

    @property
    def name(self) -> str:
        return self.run.__name__

    def is_offered(self, agent_class: AgentClass, *, write_enabled: bool) -> bool:
        """Whether a session of this class has the tool; for others it does not exist."""
        return agent_class in self.offered_to or (
            self.for_writers and write_enabled and agent_class is AgentClass.EXTERNAL
        )

    def published(self) -> Tool:
        """As clients are shown it."""
        return Tool(
            name=self.name,
            title=self.title,
            description=inspect.getdoc(self.run),
            input_schema=self.takes.model_json_schema(),
            annotations=ToolAnnotations(
                title=self.title,
                read_only_hint=self.reads_only,
                destructive_hint=self.destroys,
                open_world_hint=False,
            ),
        )


TOOLS: tuple[KlTool[Any], ...] = (
    KlTool(kl_get, takes.Get, "Read an item"),
    KlTool(kl_search, takes.Search, "Search items", reads_only=True),
    KlTool(kl_ask, takes.Ask, "Ask for evidence", reads_only=True),
    KlTool(kl_brief, takes.Brief, "Brief", reads_only=True),
    KlTool(kl_promote, takes.Promote, "Bring an item back to working"),
    KlTool(kl_store, takes.Store, "Store an item", offered_to=_WRITERS, for_writers=True),
    KlTool(kl_link, takes.Link, "Link two items", offered_to=_WRITERS, for_writers=True),
    KlTool(kl_gate, takes.Gate, "Decide at the gate", offered_to=frozenset({AgentClass.CHIEF})),
    KlTool(kl_delete, takes.Delete, "Delete an item", offered_to=frozenset({AgentClass.OWNER}), destroys=True),
)


def tools_for(session: Session, *, write_enabled: bool) -> dict[str, KlTool[Any]]:
    """The tools that a session is offered, by name. A class that may write needs no permission for it."""
    return {tool.name: tool for tool in TOOLS if tool.is_offered(session.agent_class, write_enabled=write_enabled)}


def _narrowing(arguments: takes.Ask) -> Narrowing:
    if arguments.shape is None:
        if arguments.day is not None:
            raise _wrong("day", "is for the shape due_this_week")
        return Narrowing(arguments.types, arguments.tiers, arguments.domain_from, arguments.domain_to)
    if arguments.types is not None or arguments.tiers is not None:
        raise _wrong("shape", "takes the place of types and tiers; give one or the other")
    if arguments.shape == "due_this_week":
        if arguments.domain_from is not None or arguments.domain_to is not None:
            raise _wrong("shape", "due_this_week takes `day`, not domain_from and domain_to")
        return Narrowing.due_this_week(arguments.day or datetime.now(UTC).date())
    if arguments.domain_from is None or arguments.domain_to is None or arguments.day is not None:
        raise _wrong("shape", "completed_in_range takes domain_from and domain_to")
    return Narrowing.completed_in_range(arguments.domain_from, arguments.domain_to)


def _item(item: Item) -> Data:
    return item.model_dump(mode="json")


def _hits(found: list[Hit]) -> list[Data]:
    return [dict(zip(Hit._fields, values, strict=True)) for values in _HITS.dump_python(found, mode="json")]


def _receipt(item: Item) -> Data:
    return item.model_dump(
        mode="json", include={"id", "version", "compartment", "type", "tier", "gate_state", "updated_at"}
    )


def _wrong(field: str, message: str) -> InvalidRequest:
    return InvalidRequest(f"{field}: {message}", problems=[Problem(field=field, message=message)])
