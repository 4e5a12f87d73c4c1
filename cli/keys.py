"""``knowledge keys``: keys for readers, providers and operators."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.options import Json, Url
from cli.output import confirm, note, print_json, printable, results, table
from cli.store import operate
from spot_sdk.access import IssuedKey, IssueKey, KeyRecord, Keys, RoleName
from spot_sdk.operators import OperatorClient

_MOMENT = "%Y-%m-%d %H:%M"

app = typer.Typer(help="Issue, rotate, list and revoke keys.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Whose key it is.")]


@app.command("issue")
def issue(
    name: Name,
    role: Annotated[RoleName, typer.Option("--role", help="What it may do.")] = "source",
    source: Annotated[
        str | None, typer.Option("--source", metavar="NAME", help="For the role source: the only one it may write.")
    ] = None,
    grace_s: Annotated[int, typer.Option("--grace-s", min=0, help="How long the key before stays valid.")] = 86_400,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Issue a key, or the successor of one.

    The key is shown once and stored only as a hash. The key that the name had stays valid for --grace-s seconds.

    Examples:

    \b
      knowledge keys issue provider-wiki --source provider-wiki
      knowledge keys issue analyzers --role reader
    """
    request = IssueKey(name=name, role=role, source=source, grace_s=grace_s)

    async def work(client: OperatorClient) -> IssuedKey:
        return await client.issue_key(request)

    issued = operate(url, work)
    if as_json:
        print_json(issued)
    else:
        note("This is the only time that the key is shown:")
        results.print(issued.key)


@app.command("list")
def list_keys(url: Url = None, as_json: Json = False) -> None:
    """List whose keys there are, not the keys themselves.

    Examples:

    \b
      knowledge keys list
    """

    async def ask(client: OperatorClient) -> list[KeyRecord]:
        return await client.keys()

    found = operate(url, ask)
    if as_json:
        print_json(Keys(keys=found))
        return
    if not found:
        results.print("No key was issued; there is only the internal one.")
        return
    shown = table("name", "role", "source", "issued", "valid until")
    for key in found:
        until = f"{key.expires_at:%Y-%m-%d %H:%M}" if key.expires_at else ""
        shown.add_row(
            printable(key.name), key.role, printable(key.source or ""), f"{key.created_at:%Y-%m-%d %H:%M}", until
        )
    results.print(shown)


@app.command("revoke")
def revoke(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    url: Url = None,
) -> None:
    """Make every key of a name invalid.

    It takes half a minute at most until that is known everywhere.

    Examples:

    \b
      knowledge keys revoke provider-wiki --yes
    """
    if not yes:
        confirm(f"Revoke every key of {printable(name)}?")

    async def work(client: OperatorClient) -> None:
        await client.revoke_key(name)

    operate(url, work)
    note(f"the keys of {printable(name)} are revoked")
