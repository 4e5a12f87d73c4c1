"""Entries: clean values, and DNs that are equal however they are spelled."""

from __future__ import annotations

import pytest

from examples.providers.employee_dir.entries import MAX_VALUE_LENGTH, Entry, dn_key, line


@pytest.mark.parametrize(
    "spelling",
    [
        "UID=Ada.Lovelace,OU=People,DC=x",
        "uid = ada.lovelace , ou = people , dc = x",
        r"uid=ada\2elovelace,ou=people,dc=x",
        "uid=ADA.LOVELACE,ou=people,dc=x",
    ],
)
def test_spellings_of_one_dn_have_one_key(spelling: str) -> None:
    assert dn_key(spelling) == dn_key("uid=ada.lovelace,ou=people,dc=x")


@pytest.mark.parametrize(
    ("dn", "key"),
    [
        (r"cn=Lovelace\, Ada,dc=x", ("cn=lovelace, ada", "dc=x")),
        (r"cn=Lovelace\2C Ada,dc=x", ("cn=lovelace, ada", "dc=x")),
        (r"cn=back\\,dc=x", ("cn=back\\", "dc=x")),
        (r"cn=\C3\98rsted,dc=x", ("cn=ørsted", "dc=x")),
        ("cn=Ada  Lovelace", ("cn=ada lovelace",)),
        ("cn=a=b,dc=x", ("cn=a=b", "dc=x")),
    ],
)
def test_commas_and_escapes_inside_a_value_do_not_divide_it(dn: str, key: tuple[str, ...]) -> None:
    assert dn_key(dn) == key


def test_different_entries_have_different_keys() -> None:
    assert dn_key("uid=ada,ou=people,dc=x") != dn_key("uid=ada,ou=machines,dc=x")
    assert dn_key(r"cn=a\,b,dc=x") != dn_key("cn=a,b,dc=x")


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("  Ada \t Lovelace\n", "Ada Lovelace"),
        ("Ada\0Lovelace", "Ada Lovelace"),
        ("e\u0301", "é"),
        ("x" * 1000, "x" * MAX_VALUE_LENGTH),
        ("\r\n", ""),
    ],
)
def test_a_value_is_one_line(text: str, clean: str) -> None:
    assert line(text) == clean


def test_values_come_in_the_order_of_the_attributes_asked_for() -> None:
    entry = Entry.of("dc=x", [("cn", [b"Ada", b""]), ("displayName", [b"Ada L.", b"Ada"]), ("mail", [b"a@x"])])
    assert entry.values("displayname", "CN", "missing") == ["Ada L.", "Ada"]


@pytest.mark.parametrize(
    ("classes", "is_person"),
    [
        (["inetOrgPerson"], True),
        (["top", "PERSON"], True),
        (["user"], True),
        (["user", "computer"], False),
        (["account"], False),
        ([], False),
    ],
)
def test_a_person_has_the_class_of_people(classes: list[str], is_person: bool) -> None:
    assert Entry("dc=x", {"objectclass": tuple(classes)}).is_person is is_person
