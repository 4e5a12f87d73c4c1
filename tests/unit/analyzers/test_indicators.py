"""Each rule: what it finds, what it cites, and whom it leaves alone."""

from __future__ import annotations

from typing import Any

import pytest

from examples.analyzers.rules.indicators import Finding, findings
from examples.analyzers.rules.known import Known, look_up, own_domains
from examples.analyzers.rules.requests import requests_in
from examples.analyzers.rules.settings import rules
from examples.analyzers.rules.view import MailView
from examples.analyzers.rules.weights import PHISHING, SUSPICIOUS, label, score
from spot_sdk.documents import KnowledgeDocument
from spot_sdk.testing import FakeKnowledgeClient

pytestmark = pytest.mark.anyio

SETTINGS = rules({})
LEXICON = SETTINGS.lexicon()
FREEMAIL = SETTINGS.freemail_domains()


def employee(name: str, address: str, *tags: str, **facts: Any) -> KnowledgeDocument:
    return KnowledgeDocument(
        id=f"employee:{address}",
        content=f"{name} works here. Their e-mail address is {address}.",
        tags=["employee", *tags],
        metadata={"name": name, "email": address} | facts,
        source="directory",
    )


VERA = employee("Vera Lind", "vera.lind@tidewater.example", "executive", title="CEO")
OMAR = employee("Omar Castel", "omar.castel@tidewater.example")
DANA = employee("Dana Obi", "dana.obi@tidewater.example", "director")
SAMI = employee("Sami Roth", "sami.roth@tidewater.example").model_copy(
    update={"content": "Sami Roth writes from s.alternative@tidewater.example as well."}
)
GIFTS = KnowledgeDocument(
    id="policy:gifts",
    content="Nobody may ask by mail to buy gift cards or vouchers and to send the codes.",
    tags=["policy"],
    source="wiki",
)
VENDOR = KnowledgeDocument(
    id="wiki:vendors",
    content="Our foundry writes from accounts.office@castings-north.example, and we pay monthly.",
    tags=["wiki_page"],
    source="wiki",
)
REPORT = KnowledgeDocument(
    id="incident:1",
    content="The forger wrote from boss.office@quickmail.test to three of us.",
    tags=["incident_report"],
    source="wiki",
)


@pytest.fixture
def store() -> FakeKnowledgeClient:
    return FakeKnowledgeClient([VERA, OMAR, DANA, SAMI, GIFTS, VENDOR, REPORT])


def mail(address: str, name: str = "", text: str = "Hello", **changes: Any) -> MailView:
    view = MailView(name, address, (), address, ("omar.castel@tidewater.example",), text, "pass")
    return view._replace(**changes)


async def found(store: FakeKnowledgeClient, view: MailView) -> list[Finding]:
    asked = requests_in(view.text, LEXICON)
    return findings(view, await look_up(store, view, asked, FREEMAIL), asked, FREEMAIL)


def codes(each: list[Finding]) -> list[str]:
    return [finding.code for finding in each]


def verdict(each: list[Finding]) -> str:
    return label(score(finding.weight for finding in each))


async def test_somebody_known_from_their_own_address_raises_nothing(store: FakeKnowledgeClient) -> None:
    for name in ("Vera Lind", "Lind, Vera", "", "Vera Lind (CEO)"):
        assert await found(store, mail("vera.lind@tidewater.example", name)) == []
    assert await found(store, mail("s.alternative@tidewater.example", "Sami Roth")) == []
    assert await found(store, mail("accounts.office@castings-north.example", "Accounts")) == []


async def test_a_stranger_who_claims_nothing_raises_nothing(store: FakeKnowledgeClient) -> None:
    view = mail("vera.cranmore@cranmore.example", "Vera Cranmore", reply_to=("x@other.example",), authentication="fail")
    assert await found(store, view) == []


async def test_an_executives_name_on_free_mail_is_enough(store: FakeKnowledgeClient) -> None:
    each = await found(store, mail("office77@gmail.com", "Vera Lind"))
    assert codes(each) == ["name_of_known_person"]
    assert verdict(each) == "phishing"
    assert [one.id for one in each[0].documents] == [VERA.id]
    assert "Vera Lind (CEO)" in each[0].says
    assert "free mail" in each[0].says


@pytest.mark.parametrize(("name", "code"), [("Omar Castel", "other"), ("Dana Obi", "director")])
async def test_the_name_of_anybody_else_is_suspicious_until_a_request_comes_with_it(
    store: FakeKnowledgeClient, name: str, code: str
) -> None:
    each = await found(store, mail("private@gmail.com", name))
    assert verdict(each) == "suspicious"
    each = await found(store, mail("private@gmail.com", name, "Please buy gift cards and send me the codes."))
    assert verdict(each) == "phishing"
    assert [one.id for one in each[-1].documents] == [GIFTS.id]


async def test_a_display_name_with_a_known_address_in_it(store: FakeKnowledgeClient) -> None:
    each = await found(store, mail("notice@ledger.test", "Omar Castel <omar.castel@tidewater.example>"))
    assert codes(each) == ["address_in_display_name"]
    assert verdict(each) == "phishing"
    each = await found(store, mail("omar.castel@tidewater.example", "omar.castel@tidewater.example"))
    assert each == []


async def test_an_address_that_spells_an_executives_name(store: FakeKnowledgeClient) -> None:
    known = Known(
        of_sender=[
            VERA.model_copy(update={"score": 0.9, "evidence": _evidence("name", "exact", "Vera Lind", "vera lind")})
        ]
    )
    each = findings(mail("vera.lind.ceo@gmail.com"), known, [], FREEMAIL)
    assert codes(each) == ["name_in_address"]
    assert verdict(each) == "suspicious"


async def test_an_imitated_domain_with_and_without_one_of_our_people(store: FakeKnowledgeClient) -> None:
    each = await found(store, mail("vera.lind@t1dewater.example"))
    assert codes(each) == ["lookalike_address"]
    assert each[0].documents[0].id == VERA.id
    each = await found(store, mail("billing@tidewater-pay.example"))
    assert codes(each) == ["lookalike_domain"]
    assert each[0].documents, "an employee shows which domain is ours"
    assert verdict(each) == "phishing"


async def test_almost_somebodys_address_in_our_own_domain(store: FakeKnowledgeClient) -> None:
    forged = mail("vera.lnid@tidewater.example", "Vera Lind", authentication="unknown")
    assert verdict(await found(store, forged)) == "phishing"
    newcomer = mail("vera.lindt@tidewater.example", "Vera Lindt")
    assert verdict(await found(store, newcomer)) == "clean"


async def test_a_known_contact_is_imitated(store: FakeKnowledgeClient) -> None:
    each = await found(store, mail("accounts.office@casting-north.example"))
    assert codes(each) == ["lookalike_contact"]
    assert [one.id for one in each[0].documents] == [VENDOR.id]


async def test_a_report_about_an_attack_vouches_for_nobody(store: FakeKnowledgeClient) -> None:
    each = await found(store, mail("boss.office@quickmail.test", "Vera Lind"))
    assert verdict(each) == "phishing"


async def test_answers_that_go_elsewhere(store: FakeKnowledgeClient) -> None:
    vera = mail("vera.lind@tidewater.example", "Vera Lind")
    for address, code in {
        "vera.lind@gmail.com": ["reply_to_elsewhere"],
        "vera.lind@tidewater.test": ["reply_to_lookalike"],
        "omar.castel@tidewater.example": [],
        "team@lists.tidewater.example": [],
        "accounts.office@castings-north.example": [],
    }.items():
        each = await found(store, vera._replace(reply_to=(address,)))
        assert codes(each) == code, address
        assert verdict(each) == ("phishing" if code else "clean")


async def test_our_domain_that_fails_authentication(store: FakeKnowledgeClient) -> None:
    for address in ("vera.lind@tidewater.example", "information.technology.desk@tidewater.example"):
        each = await found(store, mail(address, authentication="fail"))
        assert codes(each) == ["authentication_failed"]
        assert each[0].documents
    assert await found(store, mail("who@else.test", authentication="fail")) == []


async def test_an_envelope_of_others_matters_until_it_is_authenticated(store: FakeKnowledgeClient) -> None:
    vera = mail("vera.lind@tidewater.example", envelope="bounce@sender.test")
    assert await found(store, vera) == []
    each = await found(store, vera._replace(authentication="unknown"))
    assert codes(each) == ["return_path_elsewhere"]
    assert await found(store, vera._replace(authentication="unknown", envelope="")) == []


async def test_what_nobody_asks_for_counts_from_a_colleague_too(store: FakeKnowledgeClient) -> None:
    each = await found(store, mail(VERA.metadata["email"], text="Please buy gift cards and send me the codes."))
    assert codes(each) == ["request_gift_cards"]
    assert verdict(each) == "clean", "one sign of a mailbox that was taken over is no proof"


async def test_a_request_that_no_policy_speaks_of_breaks_none() -> None:
    store = FakeKnowledgeClient([VERA, OMAR])
    assert await found(store, mail("x@y.test", text="Please buy gift cards and send me the codes.")) == []


async def test_a_mail_without_a_sender_is_not_judged_by_one(store: FakeKnowledgeClient) -> None:
    assert await found(store, mail("", name="Vera Lind")) == []


def test_own_domains_come_from_the_many_and_never_from_free_mail() -> None:
    contractor = employee("Ivo Katz", "ivo@contractor.test")
    private = employee("Ada Fog", "ada.fog@gmail.com")
    staff = [employee(f"A{n} B{n}", f"a{n}.b@tidewater.example") for n in range(10)]
    assert set(own_domains([*staff, contractor, private], FREEMAIL)) == {"tidewater.example"}
    assert set(own_domains([private, private], FREEMAIL)) == set()
    assert set(own_domains([], FREEMAIL)) == set()


def test_scores_grow_with_each_finding_and_stay_below_one() -> None:
    assert score([]) == 0
    assert score([0.3]) < score([0.3, 0.1]) < score([0.3, 0.1, 0.9]) < 1
    assert (label(PHISHING), label(SUSPICIOUS), label(0.0)) == ("phishing", "suspicious", "clean")


def _evidence(field: str, match: str, stored: str, asked: str) -> dict[str, Any]:
    from spot_sdk.documents import Evidence

    return Evidence.model_validate(
        {"field": field, "match": match, "stored": stored, "asked": asked, "similarity": 1.0}
    )
