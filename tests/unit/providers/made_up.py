"""Made-up entries of a directory."""

from __future__ import annotations

from examples.providers.employee_dir.entries import Entry


def person(uid: str, under: str = "ou=people", **attributes: str | list[str]) -> Entry:
    """An entry with this uid; a name and an address are made up unless given (``mail=[]`` for none)."""
    values = {"cn": uid.title(), "mail": f"{uid}@co.example", "uid": uid, "objectClass": "inetOrgPerson", **attributes}
    return Entry.of(
        f"uid={uid},{under},dc=co,dc=example",
        [
            (name, [text.encode() for text in ([value] if isinstance(value, str) else value)])
            for name, value in values.items()
        ],
    )
