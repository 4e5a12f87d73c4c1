"""What the store is told of a directory: of the example company, and of entries that are out to confuse."""

from __future__ import annotations

import pytest

from examples.providers.employee_dir.documents import SOURCE, documents
from examples.providers.employee_dir.entries import Entry
from examples.providers.employee_dir.ldif import read_ldif
from examples.providers.employee_dir.people import Directory
from examples.providers.employee_dir.rules import Rules
from examples.providers.employee_dir.settings import EXAMPLE_LDIF
from examples.providers.listing import Listing
from spot_sdk.documents import KnowledgeDocument
from spot_sdk.tag_expression import parse
from tests.unit.providers.made_up import person

BOSS = "uid=ada,ou=people,dc=co,dc=example"


def listing(rules: Rules, *entries: Entry, chunk_chars: int = 900) -> Listing:
    return documents(Directory.of(entries, rules), rules, chunk_chars)


@pytest.fixture(scope="module")
def company(rules: Rules) -> dict[str, KnowledgeDocument]:
    told = listing(rules, *(entry for entry in read_ldif(EXAMPLE_LDIF) if entry.is_person))
    assert told.remarks == []
    assert [document.id for document in told.documents] == sorted(document.id for document in told.documents)
    assert {document.source for document in told.documents} == {SOURCE}
    return {document.id: document for document in told.documents}


@pytest.mark.parametrize(
    ("tags", "count"),
    [
        ("employee", 43),
        ("employee+executive", 5),
        ("director", 8),
        ("employee+executive|director", 13),
        ("shared_mailbox", 5),
        ("service_account", 2),
        ("org_chart", 19),
        ("employee+finance", 8),
        ("employee+r_and_d+engineering", 3),
        ("employee+human_resources+hr", 3),
    ],
)
def test_the_example_company_by_tag(company: dict[str, KnowledgeDocument], tags: str, count: int) -> None:
    expression = parse(tags)
    assert expression is not None
    assert sum(expression.matches(document.tags) for document in company.values()) == count


def test_an_employee(company: dict[str, KnowledgeDocument]) -> None:
    document = company["employee:tobias.hallgrimsson@halmere.example"]
    assert document.content == (
        "Tobias Hallgrímsson is Chief Financial Officer; Company Secretary in Executive Office, Halifax. "
        "Their e-mail address is tobias.hallgrimsson@halmere.example. Reports to Aurelia Nkemelu."
    )
    assert document.tags == ["employee", "executive", "executive_office"]
    assert document.metadata == {
        "email": "tobias.hallgrimsson@halmere.example",
        "emails": ["tobias.hallgrimsson@halmere.example"],
        "name": "Tobias Hallgrímsson",
        "names": ["Tobias Hallgrímsson"],
        "title": "Chief Financial Officer",
        "titles": ["Chief Financial Officer", "Company Secretary"],
        "dept": "Executive Office",
        "manager_email": "aurelia.nkemelu@halmere.example",
        "location": "Halifax",
        "employee_number": "1187",
        "employee_type": "employee",
    }


def test_a_second_name_and_a_second_address_are_told(company: dict[str, KnowledgeDocument]) -> None:
    assert company["employee:lin.xu@halmere.example"].metadata["names"] == ["Lin Xu (林旭)", "Lin Xu", "林旭"]
    assert "Lin Xu (林旭) is Service Desk Analyst" in company["employee:lin.xu@halmere.example"].content
    solveig = company["employee:solveig.pham@halmere.example"]
    assert "solveig.pham@halmere.example or solveig.aune@halmere.example." in solveig.content
    assert "employee:solveig.aune@halmere.example" not in company


def test_a_mailbox_is_no_employee(company: dict[str, KnowledgeDocument]) -> None:
    document = company["mailbox:payroll@halmere.example"]
    assert document.content == (
        "Payroll is a shared mailbox, read by several people. Questions about pay slips. Changes of account are made "
        "in the portal only. Its e-mail address is payroll@halmere.example. Looked after by Chidera Halvorsen."
    )
    assert document.tags == ["shared_mailbox"]


def test_an_org_chart(company: dict[str, KnowledgeDocument]) -> None:
    document = company["org-chart:emile.okamura@halmere.example#chunk-0"]
    assert document.content == (
        "Émile Okamura (Director of Research and Development) leads a team in R&D. Émile Okamura reports to "
        "Renaud Ishikawa (Chief Technology Officer), who reports to Aurelia Nkemelu (Chief Executive Officer). "
        "2 people report directly to Émile Okamura: Aparna Desrosiers (Flow Laboratory Manager), "
        "Łukasz Beaulieu (Principal Scientist, Ultrasonics)."
    )
    assert document.tags == ["org_chart", "engineering", "r_and_d"]
    assert document.metadata["parent_id"] == "org-chart:emile.okamura@halmere.example"


def test_a_large_team_is_told_in_several_charts_that_each_say_whose(rules: Rules) -> None:
    team = [person(f"u{number:03}", title="Software Engineer", manager=BOSS) for number in range(80)]
    told = listing(rules, person("ada", title="CTO"), *team, chunk_chars=600)
    charts = [document for document in told.documents if "org_chart" in document.tags]
    assert len(charts) > 3
    assert [chart.metadata["chunk_index"] for chart in charts] == list(range(len(charts)))
    assert all(len(chart.content) <= 600 for chart in charts)
    assert all(chart.content.startswith("Ada (CTO) leads a team. 80 people report directly") for chart in charts)
    named = [name for chart in charts for name in chart.content.split(": ")[1].rstrip(".").split(", ")]
    assert named == [f"U{number:03} (Software Engineer)" for number in range(80)]


@pytest.mark.parametrize(
    ("department", "tag"),
    [
        ("Executive", "department:executive"),
        ("Director", "department:director"),
        ("Employee", "department:employee"),
        ("Policy", "department:policy"),
        ("Shared Mailbox", "department:shared_mailbox"),
        ("Finance", "finance"),
        ("R&D", "r_and_d"),
        ("IT Security", "it_security"),
    ],
)
def test_a_department_makes_nobody_what_they_are_not(rules: Rules, department: str, tag: str) -> None:
    (document,) = listing(rules, person("eve", ou=department)).documents
    assert document.tags[0] == "employee"
    assert document.tags[-1] == tag
    assert not {"executive", "director", "policy", "shared_mailbox"} & set(document.tags)


def test_a_department_of_signs_only_labels_nobody(rules: Rules) -> None:
    (document,) = listing(rules, person("eve", ou="***")).documents
    assert document.tags == ["employee"]
    assert document.metadata["dept"] == "***"


def test_a_mailbox_called_like_an_executive_is_none(rules: Rules) -> None:
    (document,) = listing(rules, person("ceo", under="ou=mailboxes", title="Chief Executive Officer")).documents
    assert document.tags == ["shared_mailbox"]


def test_people_without_an_address_are_told_and_mailboxes_without_one_left_out(rules: Rules) -> None:
    told = listing(
        rules, person("ada", mail=[], employeeNumber="7"), person("backup", under="ou=services", mail=[]), person("eve")
    )
    assert [document.id for document in told.documents] == ["employee:7", "employee:eve@co.example"]
    assert told.remarks == [
        "1 people without an address: 7",
        "1 mailboxes or service accounts without an address, left out: backup",
    ]


def test_shared_addresses_and_unknown_managers_are_remarked(rules: Rules) -> None:
    told = listing(rules, person("ada"), person("bob", mail="ada@co.example", manager="uid=gone,dc=co"))
    assert [document.id for document in told.documents] == ["employee:ada@co.example", "employee:bob"]
    assert told.remarks == [
        "1 entries with an address that another has, known by number or account: bob",
        "1 entries whose manager is not listed: bob",
    ]


def test_what_no_document_may_hold_is_cleaned_and_costs_nobody_a_place(rules: Rules) -> None:
    told = listing(
        rules,
        person(
            "eve",
            cn="Eve\0\x1b[31m\nIgnore this",
            title=[f"{'long ' * 200}{number}" for number in range(100)],
            ou=["\t"],
            l="\u2028",
        ),
    )
    (document,) = told.documents
    assert document.metadata["name"] == "Eve [31m Ignore this"
    assert len(document.metadata["titles"]) == 1  # equal once they are cut to a sensible length
    assert "dept" not in document.metadata
    KnowledgeDocument.model_validate(document.model_dump())


def test_the_largest_entry_fits_into_a_document(rules: Rules) -> None:
    several = [f"{number:03}{chr(0x1F600) * 400}" for number in range(200)]
    (document,) = listing(
        rules,
        person(
            "eve",
            cn=several,
            title=several,
            ou=several,
            l=several,
            mail=[f"{number:03}{'x' * 239}@co.example" for number in range(200)],
            employeeNumber=several,
            employeeType=several,
        ),
    ).documents
    assert len(document.metadata["emails"]) == 100


def test_a_promotion_changes_one_document_and_those_that_name_it(rules: Rules) -> None:
    def told(title: str) -> dict[str, KnowledgeDocument]:
        entries = [person("ada", title="CEO"), person("bob", title=title, manager=BOSS), person("eve", manager=BOSS)]
        return {document.id: document for document in listing(rules, *entries).documents}

    before, after = told("Engineer"), told("Director of Engineering")
    assert {id_ for id_ in after if after[id_] != before[id_]} == {
        "employee:bob@co.example",
        "org-chart:ada@co.example#chunk-0",
    }
    assert "director" in after["employee:bob@co.example"].tags
