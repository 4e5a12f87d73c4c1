"""A week in the life of the example company: after each day's sync the store is what the sources are, exactly."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path

import psycopg
import pytest
from psycopg.rows import dict_row

from examples.providers.employee_dir.app import provider as directory_provider
from examples.providers.employee_dir.app import reader as directory_reader
from examples.providers.employee_dir.settings import EXAMPLE_LDIF
from examples.providers.listing import Deadline
from examples.providers.service import Provider, SyncOrder
from examples.providers.wiki.app import provider as wiki_provider
from examples.providers.wiki.pages import read_wiki
from examples.providers.wiki.settings import EXAMPLE_HANDBOOK, wiki
from knowledge import wiring
from spot_sdk.documents import KnowledgeDocument
from spot_sdk.knowledge import KnowledgeClient
from tests.contract.lambda_transport import LambdaTransport

pytestmark = pytest.mark.anyio

KEY = "key-of-the-week"
CHUNK_CHARS = 2_000  # of the model that the test database is made for
MONDAY = date(2026, 11, 30)


class Company:
    """The company's sources on disk, and what happens to them day by day."""

    def __init__(self, folder: Path) -> None:
        self.today = MONDAY
        self.ldif = folder / "directory.ldif"
        self.handbook = folder / "handbook"
        shutil.copy(EXAMPLE_LDIF, self.ldif)
        shutil.copytree(EXAMPLE_HANDBOOK, self.handbook)
        self.environment = {"EMPLOYEE_DIR_LDIF": str(self.ldif), "WIKI_PATH": str(self.handbook)}

    def providers(self, connect: Callable[[], KnowledgeClient]) -> dict[str, Provider]:
        environment = self.environment | {"SPOT_KNOWLEDGE_URL": "http://store.test/api/v1/knowledge"}
        return {
            "directory": directory_provider(environment, connect),
            "wiki": wiki_provider(environment, connect),
        }

    def documents(self) -> dict[str, KnowledgeDocument]:
        """What the sources hold now."""
        deadline = Deadline.after(60)
        listings = (
            directory_reader(self.environment)(CHUNK_CHARS, deadline),
            read_wiki(wiki(self.environment), CHUNK_CHARS, deadline),
        )
        return {document.id: document for listing in listings for document in listing.documents}

    def next_day(self) -> None:
        self.today += timedelta(days=1)

    def joins(self, uid: str, name: str, title: str) -> None:
        given, _, surname = name.partition(" ")
        self.ldif.write_text(
            f"{self.ldif.read_text().rstrip()}\n\n"
            f"dn: uid={uid},ou=people,dc=halmere,dc=example\nobjectClass: inetOrgPerson\nuid: {uid}\ncn: {name}\n"
            f"givenName: {given}\nsn: {surname}\nmail: {uid}@halmere.example\ntitle: {title}\nou: Finance\n"
        )

    def leaves(self, uid: str) -> None:
        entries = self.ldif.read_text().split("\n\n")
        staying = [entry for entry in entries if not re.search(rf"^dn: uid={re.escape(uid)},", entry, re.MULTILINE)]
        assert len(staying) == len(entries) - 1
        self.ldif.write_text("\n\n".join(staying))

    def changes(self, old: str, new: str) -> None:
        text = self.ldif.read_text()
        assert old in text
        self.ldif.write_text(text.replace(old, new))

    def writes(self, page: str, paragraphs: int) -> None:
        body = "\n\n".join(
            f"## Part {n}\n\n" + f"On {self.today} paragraph {n} of {page} says this. " * 30 for n in range(paragraphs)
        )
        (self.handbook / page).write_text(f"---\ntitle: {page}\nupdated: {self.today}\n---\n\n# {page}\n\n{body}\n")

    def deletes(self, page: str) -> None:
        (self.handbook / page).unlink()

    def an_address(self) -> tuple[str, str]:
        """Uid and title of somebody who is no manager, so that leaving is simple."""
        entries = self.ldif.read_text().split("\n\n")
        managers = {uid for entry in entries for uid in re.findall(r"^manager: uid=([^,]+),", entry, re.MULTILINE)}
        for entry in entries:
            found = re.search(r"^dn: uid=([^,]+),ou=people", entry, re.MULTILINE)
            title = re.search(r"^title: (.+)$", entry, re.MULTILINE)
            if found and title and found[1] not in managers:
                return found[1], title[1]
        raise AssertionError("everybody manages somebody")


@pytest.fixture
def company(tmp_path: Path) -> Company:
    return Company(tmp_path)


@pytest.fixture
def connect(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], KnowledgeClient]]:
    for name, value in {
        "DATABASE_URL": database_url,
        "EMBEDDING_BACKEND": "hash",
        "SPOT_INTERNAL_API_KEY": KEY,
    }.items():
        monkeypatch.setenv(name, value)
    wiring.reset()
    yield lambda: KnowledgeClient("http://store.test/api/v1/knowledge", KEY, transport=LambdaTransport())
    wiring.reset()


def stored(url: str) -> dict[str, dict[str, object]]:
    with psycopg.connect(url, row_factory=dict_row) as connection:
        rows = connection.execute("SELECT id, content, tags, metadata, source, expires_at FROM knowledge_documents")
        return {row["id"]: row for row in rows}


def expected(company: Company) -> dict[str, dict[str, object]]:
    fields = {"id", "content", "tags", "metadata", "source", "expires_at"}
    return {id_: document.model_dump(include=fields) for id_, document in company.documents().items()}


async def test_after_each_day_the_store_is_what_the_sources_are(
    company: Company, connect: Callable[[], KnowledgeClient], database_url: str
) -> None:
    providers = company.providers(connect)

    async def sync_all() -> dict[str, tuple[int, int, int, int]]:
        counts = {}
        for name, provider in providers.items():
            result, _ = await provider.sync(SyncOrder())
            assert result.status == "succeeded", result.error
            counts[name] = (result.created, result.updated, result.removed, result.embedded)
        assert stored(database_url) == expected(company)
        return counts

    monday = await sync_all()
    assert monday["directory"][0] > 40
    assert monday["wiki"][0] > 20
    assert await sync_all() == {"directory": (0, 0, 0, 0), "wiki": (0, 0, 0, 0)}

    company.next_day()  # Tuesday: somebody joins, a long page appears
    company.joins("nia.abara", "Nia Abara", "Treasury Analyst")
    company.writes("fleet.md", paragraphs=12)
    tuesday = await sync_all()
    assert tuesday["directory"][0] >= 1
    assert tuesday["wiki"][0] >= 5
    assert tuesday["wiki"][1:3] == (0, 0)

    company.next_day()  # Wednesday: the page shrinks, somebody gets another title
    company.writes("fleet.md", paragraphs=2)
    company.changes("title: Treasury Analyst", "title: Treasurer")
    wednesday = await sync_all()
    assert wednesday["wiki"][2] >= 3
    assert wednesday["directory"][0] == 0

    company.next_day()  # Thursday: the listing breaks off; nothing may change
    before = stored(database_url)
    kept = company.ldif.read_bytes()
    company.ldif.write_bytes(kept[: len(kept) // 2] + b"\nmail:: not base64!\n")
    with pytest.raises(Exception, match=r"directory\.ldif"):
        await providers["directory"].sync(SyncOrder())
    assert stored(database_url) == before
    company.ldif.write_bytes(kept)

    company.next_day()  # Friday: somebody leaves, somebody is renamed with a new address, the page grows again
    uid, _ = company.an_address()
    company.leaves(uid)
    company.changes("nia.abara", "nia.lindqvist")
    company.writes("fleet.md", paragraphs=9)
    friday = await sync_all()
    assert friday["directory"][2] >= 2
    assert not any("nia.abara" in id_ for id_ in stored(database_url))

    company.next_day()  # Saturday: the page goes, two others swap their names
    company.deletes("fleet.md")
    pages = sorted(company.handbook.rglob("*.md"))[:2]
    texts = [page.read_text() for page in pages]
    for page, text in zip(pages, reversed(texts), strict=True):
        page.write_text(text)
    saturday = await sync_all()
    assert saturday["wiki"][2] >= 3

    company.next_day()  # Sunday: nothing happens, and nothing is done
    assert await sync_all() == {"directory": (0, 0, 0, 0), "wiki": (0, 0, 0, 0)}
