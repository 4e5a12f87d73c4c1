"""``knowledge items``: what the estate's owner does with the Knowledge Layer, without an agent between."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from cli.database import open_connection
from cli.options import Database, Json
from cli.output import confirm, counted, note, print_json, printable, results, table
from spot_sdk.errors import Conflict

if TYPE_CHECKING:
    from knowledge.items.layer import KnowledgeLayer
    from knowledge.items.session import Session

_MOMENT = "%Y-%m-%d %H:%M"

app = typer.Typer(
    help="Verify the Knowledge Layer's provenance, delete items, and say who may see what.", no_args_is_help=True
)

Identity = Annotated[
    str,
    typer.Option("--as", envvar="KL_AGENT_IDENTITY", metavar="NAME", help="The name that goes into provenance."),
]
ItemId = Annotated[str, typer.Argument(metavar="ID", help="The item's id.")]
Compartment = Annotated[str, typer.Argument(metavar="COMPARTMENT")]
Agent = Annotated[str, typer.Argument(metavar="AGENT", help="The agent's identity.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


@contextmanager
def _layer(database: str | None, identity: str) -> Generator[tuple[KnowledgeLayer, Session]]:
    """The layer of a database, and the owner's session, which sees everything."""
    from knowledge.items.layer import KnowledgeLayer
    from knowledge.items.session import AgentClass, Session

    with open_connection(database) as connection:
        yield KnowledgeLayer.on(connection), Session(identity, AgentClass.OWNER)


@app.command("verify")
def verify(
    head: Annotated[
        list[str] | None,
        typer.Option("--head", metavar="SEQ:HASH", help="An end of the log that was noted earlier. May be repeated."),
    ] = None,
    identity: Identity = "owner",
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Tell whether the provenance log is what was written, and the items are what the log says.

    Prints the log's end: note it where the database's superuser cannot reach it, and give it with --head the next
    time. Without one, a log whose end was cut off, or that was written anew as a whole, cannot be told from another.
    Ends with exit code 2 when something was tampered with.

    Examples:

    \b
      knowledge items verify
      knowledge items verify --head 812:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
    """
    from knowledge.items.chain import Head

    heads = [Head.parse(text) for text in head or ()]
    with _layer(database, identity) as (layer, session):
        report = layer.provenance.verify(session, heads)
    if as_json:
        print_json(
            {
                "events": report.events,
                "removed": report.removed,
                "head": str(report.head),
                "findings": report.findings,
            }
        )
    else:
        results.print(f"{counted(report.events, 'event')}, {report.removed:,} more that went with deleted items")
        results.print(f"head: {report.head}", soft_wrap=True)
        for finding in report.findings:
            results.print(f"  {printable(finding)}", soft_wrap=True)
    if report.findings:
        raise Conflict(f"the log or the items were tampered with: {counted(len(report.findings), 'finding')}")
    if not as_json:
        results.print("all is as it was written")


@app.command("history")
def history(item_id: ItemId, identity: Identity = "owner", database: Database = None, as_json: Json = False) -> None:
    """Tell what happened to an item, from provenance alone.

    Examples:

    \b
      knowledge items history 5f0c
    """
    with _layer(database, identity) as (layer, session):
        events = layer.provenance.events(session, item_id=item_id)
    if as_json:
        print_json({"events": [event._asdict() | {"recorded_at": event.recorded_at.isoformat()} for event in events]})
        return
    shown = table("event", "when", "what", "who", "class", "login", right=("event",))
    for event in events:
        shown.add_row(
            str(event.seq),
            f"{event.recorded_at:{_MOMENT}}",
            event.event,
            printable(event.actor),
            event.actor_class,
            printable(event.db_user),
        )
    results.print(shown)


@app.command("delete")
def delete(item_id: ItemId, yes: Yes = False, identity: Identity = "owner", database: Database = None) -> None:
    """Delete an item with all that is of it, and what was made from it alone.

    Versions, vectors, links, accesses and provenance go; a tombstone is left (id, type, date, who). What was made from
    other items too is flagged for a decision. The files keep the bytes until `knowledge items scrub`.

    Examples:

    \b
      knowledge items delete 5f0c --yes
    """
    if not yes:
        confirm(f"Delete the item {printable(item_id)} and what was made from it alone?")
    with _layer(database, identity) as (layer, session):
        erased = layer.deletion.erase(item_id, session)
    results.print(f"deleted {counted(len(erased.deleted), 'item')}: {' '.join(map(printable, erased.deleted))}")
    for flagged in erased.flagged:
        results.print(f"to decide: {printable(flagged)} was made from other items too")


@app.command("flagged")
def flagged(identity: Identity = "owner", database: Database = None) -> None:
    """List items that were made from a deleted one and from others too.

    Decide on each: `knowledge items keep ID`, or `knowledge items delete ID`.

    Examples:

    \b
      knowledge items flagged
    """
    with _layer(database, identity) as (layer, session):
        flags = layer.deletion.flags(session)
    shown = table("item", "deleted source", "flagged")
    for flag in flags:
        shown.add_row(printable(flag.item_id), printable(flag.source_id), f"{flag.flagged_at:{_MOMENT}}")
    results.print(shown if flags else "Nothing is to be decided.")


@app.command("keep")
def keep(item_id: ItemId, identity: Identity = "owner", database: Database = None) -> None:
    """Keep a flagged item, also when another of its sources is deleted.

    Examples:

    \b
      knowledge items keep 5f0c
    """
    with _layer(database, identity) as (layer, session):
        layer.deletion.keep(item_id, session)
    note(f"{printable(item_id)} stays")


@app.command("scrub")
def scrub(identity: Identity = "owner", database: Database = None) -> None:
    """Rewrite the layer's tables, so that their files hold nothing of what was deleted.

    Locks them meanwhile. End transactions that began before the deletion first, such as a dump: what they still see is
    kept. Write-ahead log and backups hold what they hold until they go.

    Examples:

    \b
      knowledge items scrub
    """
    with _layer(database, identity) as (layer, session):
        layer.deletion.scrub(session)
    note("the tables are rewritten")


@app.command("compartments")
def compartments(identity: Identity = "owner", database: Database = None) -> None:
    """List the compartments.

    Examples:

    \b
      knowledge items compartments
    """
    with _layer(database, identity) as (layer, session):
        found = layer.compartments.list(session)
    shown = table("compartment", "items", "", right=("items",))
    for compartment in found:
        shown.add_row(compartment.id, f"{compartment.items:,}", "firewall" if compartment.is_firewall else "")
    results.print(shown)


@app.command("add-compartment")
def add_compartment(
    compartment: Compartment,
    firewall: Annotated[bool, typer.Option("--firewall", help="No link crosses its edge.")] = False,
    identity: Identity = "owner",
    database: Database = None,
) -> None:
    """Add a compartment.

    Examples:

    \b
      knowledge items add-compartment work
      knowledge items add-compartment medical --firewall
    """
    with _layer(database, identity) as (layer, session):
        layer.compartments.add(compartment, session, is_firewall=firewall)
    note(f"there is a compartment {compartment} now")


@app.command("grants")
def grants(
    everything: Annotated[bool, typer.Option("--all", help="Also those that were taken back.")] = False,
    identity: Identity = "owner",
    database: Database = None,
) -> None:
    """List which agent was given which compartment.

    Examples:

    \b
      knowledge items grants --all
    """
    with _layer(database, identity) as (layer, session):
        found = layer.grants.list(session, in_force=not everything)
    shown = table("agent", "compartment", "may", "since", "until")
    for grant in found:
        shown.add_row(
            printable(grant.agent),
            grant.compartment,
            "read, write" if grant.may_write else "read",
            f"{grant.granted_at:{_MOMENT}}",
            f"{grant.revoked_at:{_MOMENT}}" if grant.revoked_at else "",
        )
    results.print(shown if found else "Nobody was given anything.")


@app.command("grant")
def grant(
    agent: Agent,
    compartment: Compartment,
    write: Annotated[bool, typer.Option("--write", help="To write, too.")] = False,
    identity: Identity = "owner",
    database: Database = None,
) -> None:
    """Give an agent a compartment; provenance tells of it.

    Examples:

    \b
      knowledge items grant muse home --write
    """
    with _layer(database, identity) as (layer, session):
        layer.grants.grant(agent, compartment, session, may_write=write)
    note(f"{printable(agent)} has {compartment}")


@app.command("revoke")
def revoke(agent: Agent, compartment: Compartment, identity: Identity = "owner", database: Database = None) -> None:
    """Take a compartment back from an agent; provenance tells of it.

    Examples:

    \b
      knowledge items revoke muse home
    """
    with _layer(database, identity) as (layer, session):
        layer.grants.revoke(agent, compartment, session)
    note(f"{printable(agent)} does not have {compartment} any more")
