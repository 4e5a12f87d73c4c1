"""The rules that ship, on titles that people really have, and rules files that are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.providers.employee_dir.rules import Rank, Rules, read_rules
from examples.providers.employee_dir.settings import PACKAGE
from examples.providers.settings import SettingsError
from tests.unit.providers.made_up import person


@pytest.mark.parametrize(
    "title",
    [
        "Chief Executive Officer",
        "Chief Information Security Officer",
        "CEO, co-founder, Board of Directors",
        "Interim CFO",
        "VP, Talent & People",
        "Senior Vice President Sales",
        "Vice President",
        "President",
        "Managing Director",
        "General Counsel",
        "Co-Founder",
        "Member of the Board",
        "Chief of Staff to CEO, Sales Ops & Strategy",
    ],
)
def test_executives(rules: Rules, title: str) -> None:
    assert rules.executive.includes([title], [])


@pytest.mark.parametrize(
    "title",
    [
        "Executive Assistant to the CEO",
        "Executive Business Partner, CTO and VP People & Talent",
        "Account Executive",
        "Assistant to the Chief Financial Officer",
        "Chief Engineer",
        "Commercial Counsel",
        "Cargo Handler",
        "Vice Principal",
    ],
)
def test_titles_that_only_sound_like_it(rules: Rules, title: str) -> None:
    assert not rules.executive.includes([title], [])


@pytest.mark.parametrize(
    ("title", "is_director"),
    [
        ("Director of Finance", True),
        ("director, field gtm", True),
        ("Plant Director", True),
        ("Regional Director of Sales, East", True),
        ("Managing Director", True),
        ("Deputy Director of Finance", False),
        ("Assistant to the Director", False),
        ("Secretary of the Managing Director", False),
        ("Directory Administrator", False),
        ("Board of Directors", False),
    ],
)
def test_directors(rules: Rules, title: str, is_director: bool) -> None:
    assert rules.director.includes([title], []) is is_director


def test_any_of_several_titles_counts() -> None:
    assert Rank(titles=["^ceo$"]).includes(["Engineer", "CEO"], [])


@pytest.mark.parametrize("identity", ["Ada@co.example", "ada", "1042"])
def test_an_executive_may_be_named_whatever_the_title(identity: str) -> None:
    rank = Rank(people=["ada@CO.example", "ADA", "1042"])
    assert rank.includes(["Gardener"], [identity])
    assert not rank.includes(["Gardener"], ["ada@co.example.org", "10422"])


@pytest.mark.parametrize(
    ("entry", "kind"),
    [
        (person("ada"), "person"),
        (person("ada", employeeType="employee"), "person"),
        (person("ap", employeeType="Shared Mailbox"), "shared_mailbox"),
        (person("ap", msExchRecipientTypeDetails="4"), "shared_mailbox"),
        (person("ap", under="OU=Mailboxes,ou=it"), "shared_mailbox"),
        (person("scan", employeeType="service account"), "service_account"),
        (person("scan", under="ou=services"), "service_account"),
        (person("scan", under="ou=customer services"), "person"),
        (person("scan", ou="services"), "person"),
    ],
)
def test_what_is_a_person_and_what_is_none(rules: Rules, entry, kind: str) -> None:
    assert rules.kind(entry) == kind


def test_every_attribute_that_a_rule_looks_at_is_asked_for(rules: Rules) -> None:
    wanted = rules.wanted_attributes()
    assert {"objectClass", "mail", "manager", "employeeType", "msExchRecipientTypeDetails"} <= set(wanted)
    assert len(wanted) == len(set(wanted))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda text: text.replace("people: []", "poeple: []", 1), "executive.poeple"),
        (lambda text: text.replace("^general counsel", "(general counsel"), "executive.titles.6: .*not a regular expr"),
        (lambda text: text.replace("finance: [", "R&D: ["), "departments.*not a tag"),
        (lambda text: text.replace("describe: [shared_mailbox]", "describe: [everybody]"), "describe.0"),
        (lambda text: text + "\n  - [", "rules.yaml"),
        (lambda _: "", "rules.yaml"),
    ],
)
def test_a_wrong_rules_file_is_refused_with_the_place(tmp_path: Path, change, complaint: str) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(change((PACKAGE / "rules.yaml").read_text()))
    with pytest.raises(SettingsError, match=complaint):
        read_rules(path)


def test_a_rules_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"none\.yaml: No such file"):
        read_rules(tmp_path / "none.yaml")
