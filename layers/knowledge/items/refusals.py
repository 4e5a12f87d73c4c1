"""What the database refuses by rule, as members of the closed set of errors; told apart by SQLSTATE alone."""

from __future__ import annotations

from spot_sdk.errors import Conflict, FirewallCrossed, Forbidden, KnowledgeError, NotFound, StoreUnavailable

_BY_SQLSTATE: dict[str, tuple[type[KnowledgeError], str]] = {
    "KL001": (FirewallCrossed, "no link crosses a compartment's firewall, in either direction"),
    "KL002": (Forbidden, "provenance is append-only"),
    "KL003": (Conflict, "only the gate leads to long-term"),
    "KL004": (Conflict, "an item of this id was deleted; an id is not used twice"),
    "KL005": (Conflict, "the item was changed meanwhile"),
    "22023": (
        StoreUnavailable,
        "the database has no Knowledge Layer; run `knowledge migrate`",
    ),  # there is no such role
    "23503": (NotFound, "what this belongs to is not there"),
    "23505": (Conflict, "this is there already"),
    "42501": (Forbidden, "the database's login may not do this; see docs/knowledge-layer.md for the roles"),
}


def refusal(sqlstate: str | None) -> KnowledgeError | None:
    """The refusal that an SQLSTATE stands for, or None where it is a failure."""
    found = _BY_SQLSTATE.get(sqlstate or "")
    return None if found is None else found[0](found[1])
