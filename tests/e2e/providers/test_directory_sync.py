"""The employee directory from a real directory server to a real store: people come, change and leave."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from examples.providers.employee_dir import app
from examples.providers.employee_dir.ldif import read_ldif
from examples.providers.employee_dir.settings import EXAMPLE_LDIF
from examples.providers.listing import Deadline
from spot_sdk.knowledge import KnowledgeClient
from tests.e2e.providers.conftest import COMPANY, KEY, PEOPLE, URL, public_data
from tests.e2e.providers.slapd import Slapd

pytestmark = [
    pytest.mark.anyio,
    # What ldap3 2.9 still takes from pyasn1 when it is imported.
    pytest.mark.filterwarnings("ignore:(tagMap|typeMap) is deprecated:DeprecationWarning"),
]

Connect = Callable[[], KnowledgeClient]
StartSlapd = Callable[..., Slapd]
STORE = {"SPOT_KNOWLEDGE_URL": URL, "SPOT_INTERNAL_API_KEY": KEY}
COUNTS = ("created", "updated", "unchanged", "removed", "held")


class Service:
    """The provider as the platform sees it, reading one server."""

    def __init__(self, store: Connect, **environment: str) -> None:
        self._provider = app.provider({**STORE, **environment}, connect=store)
        self._environment = environment

    async def sync(self) -> httpx.Response:
        transport = httpx.ASGITransport(self._provider.app())
        async with httpx.AsyncClient(transport=transport, base_url="http://provider") as platform:
            return await platform.post("/internal/sync", headers={"X-Internal-API-Key": KEY})

    async def counts(self) -> dict[str, int]:
        answer = await self.sync()
        assert answer.status_code == 200, answer.text
        return {name: answer.json()[name] for name in COUNTS if answer.json()[name]}

    def documents(self) -> dict[str, tuple[str, list[str], dict[str, Any]]]:
        """What the directory amounts to now."""
        listing = app.reader(self._environment)(2000, Deadline.after(60))
        return {document.id: (document.content, document.tags, document.metadata) for document in listing.documents}


def stored(database_url: str) -> dict[str, tuple[str, list[str], dict[str, Any]]]:
    with psycopg.connect(database_url) as connection:
        rows = connection.execute("SELECT id, content, tags, metadata FROM knowledge_documents").fetchall()
    return {id_: (content, tags, metadata) for id_, content, tags, metadata in rows}


def runs(database_url: str) -> list[tuple[str, str]]:
    """Status and reason of every run, in their order."""
    with psycopg.connect(database_url) as connection:
        return connection.execute("SELECT status, error FROM knowledge_sync_runs ORDER BY id").fetchall()


def dn(uid: str) -> str:
    return f"uid={uid},ou=people,{COMPANY}"


async def test_the_store_follows_the_company(company: Slapd, store: Connect, database_url: str) -> None:
    service = Service(store, **company.environment)
    assert await service.counts() == {"created": 69}
    assert await service.counts() == {"unchanged": 69}

    with company.administer() as directory:  # somebody joins the board's office
        directory.add(
            dn("ada.lovelace"),
            "inetOrgPerson",
            {
                "cn": "Ada Lovelace",
                "sn": "Lovelace",
                "mail": "Ada.Lovelace@halmere.example",
                "title": "Chief Analyst",
                "manager": dn("aurelia.nkemelu"),
            },
        )
    assert await service.counts() == {"created": 1, "updated": 1, "unchanged": 68}
    assert (
        "Ada Lovelace (Chief Analyst)" in stored(database_url)["org-chart:aurelia.nkemelu@halmere.example#chunk-0"][0]
    )

    with company.administer() as directory:  # and is promoted
        directory.modify(dn("ada.lovelace"), {"title": [("MODIFY_REPLACE", ["Chief Information Officer"])]})
    assert await service.counts() == {"updated": 2, "unchanged": 68}
    assert stored(database_url)["employee:ada.lovelace@halmere.example"][1] == ["employee", "executive"]

    with company.administer() as directory:  # marries, and has another name, address and DN
        directory.modify_dn(dn("ada.lovelace"), "uid=ada.king")
        directory.modify(
            dn("ada.king"),
            {"cn": [("MODIFY_REPLACE", ["Ada King"])], "mail": [("MODIFY_REPLACE", ["ada.king@halmere.example"])]},
        )
    assert await service.counts() == {"created": 1, "updated": 1, "unchanged": 68, "removed": 1}

    with company.administer() as directory:  # a manager leaves, and nobody has told the two below her
        directory.delete(dn("ebba.quintero"))
    gone = {"employee:ebba.quintero@halmere.example", "org-chart:ebba.quintero@halmere.example#chunk-0"}
    assert gone <= stored(database_url).keys()
    answer = await service.sync()
    assert answer.json()["removed"] == 2
    assert any("whose manager is not listed" in remark for remark in answer.json()["remarks"])
    assert not gone & stored(database_url).keys()

    assert stored(database_url) == service.documents()
    assert {status for status, _ in runs(database_url)} == {"succeeded"}


async def test_the_server_and_its_export_are_one_source(company: Slapd, store: Connect) -> None:
    assert await Service(store, EMPLOYEE_DIR_LDIF=str(EXAMPLE_LDIF)).counts() == {"created": 69}
    assert await Service(store, **company.environment).counts() == {"unchanged": 69}


async def test_a_listing_cut_short_is_a_failed_run_that_removes_nothing(
    slapd: StartSlapd, store: Connect, database_url: str
) -> None:
    people = public_data("directory-pseudonymised", "people.ldif")
    whole = slapd(PEOPLE, [people])
    assert await Service(store, **whole.environment).counts() == {"created": 200}
    limited = slapd(PEOPLE, [people], limits="sizelimit size.soft=50 size.hard=50 size.prtotal=50")
    before = stored(database_url)
    answer = await Service(store, **limited.environment, EMPLOYEE_DIR_LDAP_PAGE_SIZE="20").sync()
    assert answer.status_code == 502
    assert "sizeLimitExceeded (4); the server cut the listing short" in answer.json()["detail"]
    assert stored(database_url) == before
    status, reason = runs(database_url)[-1]
    assert status == "failed"
    assert "sizeLimitExceeded" in reason


async def test_a_server_that_dies_in_the_middle_is_a_failed_run_that_removes_nothing(
    company: Slapd, store: Connect, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service(store, **company.environment, EMPLOYEE_DIR_LDAP_PAGE_SIZE="10")
    assert await service.counts() == {"created": 69}
    before = stored(database_url)
    pages: list[None] = []

    def kill_before_page_3(_: Deadline) -> None:
        pages.append(None)
        if len(pages) == 3:
            company.kill()

    monkeypatch.setattr(Deadline, "check", kill_before_page_3)
    answer = await service.sync()
    assert len(pages) == 3
    assert (answer.status_code, answer.json()["code"]) == (502, "source_failed")
    assert stored(database_url) == before
    assert [status for status, _ in runs(database_url)] == ["succeeded", "failed"]


@pytest.mark.parametrize("change", ["filter", "password", "empty"])
async def test_a_change_that_hides_everybody_removes_nobody(
    company: Slapd, store: Connect, database_url: str, change: str
) -> None:
    assert await Service(store, **company.environment).counts() == {"created": 69}
    hiding = {
        "filter": {"EMPLOYEE_DIR_LDAP_FILTER": "(title=Receptionist)"},
        "password": {"EMPLOYEE_DIR_LDAP_BIND_PASSWORD": "changed"},
        "empty": {"EMPLOYEE_DIR_LDAP_FILTER": "(objectClass=device)"},
    }
    answer = await Service(store, **{**company.environment, **hiding[change]}).sync()
    assert len(stored(database_url)) == 69
    if change == "password":
        assert answer.status_code == 502
    else:
        assert answer.json()["status"] == "partial"
        assert answer.json()["held"] == {"filter": 68, "empty": 69}[change]
        assert answer.json()["message"]


async def test_planet_express(slapd: StartSlapd, store: Connect, database_url: str, tmp_path: Path) -> None:
    folder = public_data("ldif-planetexpress")
    suffix = "dc=planetexpress,dc=com"
    root = tmp_path / "root.ldif"
    root.write_text(f"dn: {suffix}\nobjectClass: dcObject\nobjectClass: organization\no: Planet Express\n")
    people = sorted(folder.glob("[01]0_people*.ldif"))
    assert len(people) == 8
    rules = tmp_path / "rules.yaml"
    shipped = app.directory({}).rules.read_text()
    rules.write_text(
        shipped.replace("title: [title]", "title: [title, employeeType]").replace("- ^(co-)?founder", "- ^owner")
    )
    server = slapd(suffix, [root, *people])
    service = Service(store, **server.environment, EMPLOYEE_DIR_RULES=str(rules))
    counts = await service.counts()
    documents = stored(database_url)
    assert documents == service.documents()
    crew = {metadata["name"]: (tags, metadata) for _, tags, metadata in documents.values()}
    assert counts == {"created": len(documents)}
    assert len(documents) == 7
    professor_tags, professor = crew["Professor Farnsworth"]
    assert "executive" in professor_tags
    assert professor["titles"] == ["Professor", "Owner", "Founder"]
    assert professor["emails"] == ["professor@planetexpress.com", "hubert@planetexpress.com"]
    assert sum("executive" in tags for tags, _ in crew.values()) == 1


def test_every_export_of_the_public_data_can_be_read() -> None:
    for path in [*public_data("ldif-planetexpress").glob("[013]0_*.ldif")]:
        assert len(read_ldif(path)) == 1
