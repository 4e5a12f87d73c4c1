"""Who is who and who reports to whom, in directories as they are: with doubles, circles, and people who left."""

from __future__ import annotations

import pytest

from examples.providers.employee_dir.entries import Entry
from examples.providers.employee_dir.people import Directory, Member
from examples.providers.employee_dir.rules import Rules
from tests.unit.providers.made_up import person


def manager(uid: str) -> str:
    return f"uid={uid},ou=people,dc=co,dc=example"


def keys(members: list[Member]) -> list[str]:
    return [member.key.partition("@")[0] for member in members]


def by_key(directory: Directory) -> dict[str, Member]:
    return dict(zip(keys(directory.members), directory.members, strict=True))


def test_lines_of_reporting_are_followed_to_the_top(rules: Rules) -> None:
    directory = Directory.of(
        [person("eve", manager=manager("Bob")), person("bob", manager=manager("ada")), person("ada")], rules
    )
    members = by_key(directory)
    assert keys(directory.chain(members["eve"])) == ["bob", "ada"]
    assert directory.chain(members["ada"]) == []
    assert keys([*directory.reports(members["ada"])]) == ["bob"]


def test_reports_are_sorted_by_name_whatever_the_order_of_the_listing(rules: Rules) -> None:
    team = [person(uid, manager=manager("ada")) for uid in ("zoe", "max", "ann")]
    one, other = (
        Directory.of(entries, rules) for entries in ([person("ada"), *team], [*reversed(team), person("ada")])
    )
    assert keys([*one.reports(by_key(one)["ada"])]) == ["ann", "max", "zoe"]
    assert one.members == other.members
    assert one.reports(by_key(one)["ada"]) == other.reports(by_key(other)["ada"])


@pytest.mark.parametrize("ring", [["ada"], ["ada", "bob"], ["ada", "bob", "eve"]])
def test_a_circle_of_managers_ends(rules: Rules, ring: list[str]) -> None:
    entries = [person(uid, manager=manager(boss)) for uid, boss in zip(ring, [*ring[1:], ring[0]], strict=True)]
    directory = Directory.of(entries, rules)
    for member in directory.members:
        assert len(directory.chain(member)) == len(ring) - 1
        assert member not in directory.reports(member)


def test_a_manager_who_is_not_listed_is_told_and_nobodys_manager(rules: Rules) -> None:
    directory = Directory.of([person("ada", manager=manager("gone"))], rules)
    assert directory.manager(directory.members[0]) is None
    assert keys(directory.unknown_managers()) == ["ada"]


def test_mailboxes_and_machines_are_nobodys_reports(rules: Rules) -> None:
    box = person("payroll", under="ou=mailboxes", manager=manager("ada"))
    directory = Directory.of([person("ada"), box], rules)
    members = by_key(directory)
    assert directory.reports(members["ada"]) == []
    assert directory.manager(members["payroll"]) is members["ada"]


@pytest.mark.parametrize(
    ("attributes", "key"),
    [
        ({"mail": "Ada@CO.example"}, "ada@co.example"),
        ({"mail": ["first@co.example", "second@co.example"]}, "first@co.example"),
        ({"mail": [], "proxyAddresses": ["smtp:old@co.example", "SMTP:New@co.example", "SIP:x@co"]}, "new@co.example"),
        ({"mail": [], "employeeNumber": "1042"}, "1042"),
        ({"mail": "no address", "employeeNumber": "1042"}, "1042"),
        ({"mail": []}, "ada"),
        ({"mail": f"{'x' * 244}@co.example"}, "ada"),
    ],
)
def test_the_key_is_the_address_or_the_number_or_the_account(rules: Rules, attributes: dict, key: str) -> None:
    assert [member.key for member in Directory.of([person("ada", **attributes)], rules).members] == [key]


def test_an_entry_with_nothing_of_its_own_is_known_by_its_place(rules: Rules) -> None:
    one, same, other = (
        Directory.of([Entry(dn, {"cn": ("Ada",)})], rules).members[0].key
        for dn in ("cn=Ada,ou=a,dc=x", "CN=ada, OU=a, DC=x", "cn=Ada,ou=b,dc=x")
    )
    assert one == same != other
    assert len(one) < 64


def test_an_address_that_two_share_goes_to_one_and_both_are_kept(rules: Rules) -> None:
    entries = [
        person("bob", mail="TEAM@co.example", employeeNumber="7"),
        person("ada", mail="team@co.example", employeeNumber="8"),
    ]
    for listing in (entries, entries[::-1]):
        directory = Directory.of(listing, rules)
        assert {member.account: member.key for member in directory.members} == {"ada": "team@co.example", "bob": "7"}


def test_an_entry_listed_twice_counts_once(rules: Rules) -> None:
    assert len(Directory.of([person("ada"), person("ada")], rules).members) == 1


def test_names_and_titles_and_addresses_may_be_several(rules: Rules) -> None:
    (ada,) = Directory.of(
        [
            person(
                "ada",
                cn=["Ada Lovelace", "Ada Byron"],
                displayName="Ada L.",
                title=["Analyst", "Countess"],
                mail=["ADA@co.example", "ada.byron@co.example", "ada@co.example"],
            )
        ],
        rules,
    ).members
    assert ada.names == ["Ada L.", "Ada Lovelace", "Ada Byron"]
    assert ada.titles == ["Analyst", "Countess"]
    assert ada.emails == ["ada@co.example", "ada.byron@co.example"]


def test_only_the_purpose_of_mailboxes_is_read(rules: Rules) -> None:
    entries = [
        person("ada", description="initial password: hunter2"),
        person("scan", under="ou=services", description="pw hunter2"),
        person("payroll", under="ou=mailboxes", description="Questions about pay slips"),
    ]
    assert {member.account: member.purpose for member in Directory.of(entries, rules).members} == {
        "ada": None,
        "scan": None,
        "payroll": "Questions about pay slips",
    }
