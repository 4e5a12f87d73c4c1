"""The console in a real browser, before the example company: every page, every action, and documents that mean harm."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

from cli.database import stack_variables
from knowledge.db.connection import Database
from knowledge.items.layer import KnowledgeLayer
from knowledge.items.model import ItemDraft
from knowledge.items.session import AgentClass, Session
from local.home import Home
from local.settings import CHECKOUT, child_environment

CHROMIUM = shutil.which("chromium")
MAILS = CHECKOUT / "examples" / "company" / "mails"
PATIENCE_MS = 60_000
HOSTILE = '"><img src=x onerror=alert(1)><script>alert(2)</script>{{ 7 * 7 }}'
PAGES = ("", "/query?text=payment&tags=policy", "/documents", "/mail", "/dashboard", "/slow", "/items")

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium"),
]


class Stack(NamedTuple):
    url: str
    key: str
    spot_path: Path


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """`knowledge up`, as a person starts it, with a document in it that means harm."""
    home = Home(tmp_path_factory.mktemp("console") / "home")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    environment = child_environment(
        KNOWLEDGE_HOME=str(home.path), PORT=str(port), EMBEDDING_BACKEND="hash", CONSOLE_GRANTS="home"
    )
    command = [sys.executable, "-c", "from cli.main import main; main()", "up"]
    with subprocess.Popen(command, env=environment, cwd=CHECKOUT, stderr=subprocess.PIPE, text=True) as up:
        try:
            assert up.stderr is not None
            said = ""
            for line in up.stderr:
                said += line
                if "Ctrl-C stops everything" in line:
                    break
            running = home.running_stack()
            assert running is not None, said
            found = Stack(running.url, home.api_key(), home.spot_path)
            document = {
                "id": f"harm:{HOSTILE}",
                "content": f"A harmful payment {HOSTILE}",
                "tags": ["policy"],
                "metadata": {"title": HOSTILE, "more": {HOSTILE: [HOSTILE]}},
                "source": HOSTILE,
            }
            httpx.post(
                f"{running.knowledge_url}/upsert", json=document, headers={"X-Internal-API-Key": found.key}
            ).raise_for_status()
            store_items(stack_variables((home, running))["DATABASE_URL"])
            yield found
        finally:
            up.send_signal(signal.SIGINT)
            up.communicate(timeout=120)


def store_items(dsn: str) -> None:
    """One item that operators see, which means harm, and one that they do not."""
    owner = Session("justine", AgentClass.OWNER)
    database = Database(lambda: dsn, application_name="test")
    layer = KnowledgeLayer.on(database)
    for compartment in ("home", "work"):
        layer.compartments.add(compartment, owner)
        layer.store.store(
            ItemDraft(
                type="fact",
                title=f"Boiler {compartment} {HOSTILE}",
                summary=HOSTILE,
                body={HOSTILE: HOSTILE},
                compartment=compartment,
                tags=[HOSTILE],
            ),
            owner,
        )
    database.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, stack: Stack) -> Iterator[Page]:
    """A page of somebody who is signed in. Whatever the browser complains of fails the test."""
    context = browser.new_context(base_url=stack.url)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: (complaints.append(f"dialog {dialog.message}"), dialog.dismiss()))
    page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
    page.on("request", lambda sent: complaints.append(sent.url) if not sent.url.startswith(stack.url) else None)
    page.goto("/console")
    page.get_by_label("Internal key").fill(stack.key)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/console")
    yield page
    context.close()
    assert complaints == []


def test_nobody_sees_anything_without_the_key(browser: Browser, stack: Stack) -> None:
    page = browser.new_context(base_url=stack.url).new_page()
    page.goto("/console/documents?tags=policy")
    expect(page).to_have_url(re.compile(r"/console/sign-in\?next="))
    page.get_by_label("Internal key").fill("a guess")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("not a valid internal key")
    page.get_by_label("Internal key").fill(stack.key)
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(f"{stack.url}/console/documents?tags=policy")
    page.get_by_role("button", name="Sign out").click()
    page.goto("/console")
    expect(page).to_have_url(re.compile("/console/sign-in"))
    page.context.close()


def test_the_overview_shows_counts_providers_and_ages(page: Page) -> None:
    expect(page.get_by_role("region", name="Providers")).to_contain_text("employee-dir")
    expect(page.get_by_role("row", name=re.compile("^wiki "))).to_contain_text("in order")
    expect(page.get_by_role("cell", name="policy").first).to_be_visible()


def test_a_sync_is_started_and_followed_to_its_end(page: Page) -> None:
    row = page.locator("#provider-wiki")
    before = page.request.get("/console/provider?id=wiki").text()
    runs = len(re.findall(r'<th scope="row">\d+', before))
    page.get_by_role("button", name="Sync wiki now").click()
    expect(row.get_by_text("in order")).to_be_visible(timeout=PATIENCE_MS)
    expect(row.get_by_text("as before")).to_be_visible()
    page.goto("/console/provider?id=wiki")
    assert page.get_by_role("rowheader").count() > min(runs, 9)


def test_the_query_lab_points_at_the_column_of_a_wrong_expression(page: Page) -> None:
    page.get_by_role("link", name="Query lab").click()
    page.get_by_label("Tags").press_sequentially("policy+|hr", delay=10)
    expect(page.locator("#tags-problem")).to_contain_text("column 8")
    page.get_by_label("Tags").fill("policy|hr")
    expect(page.locator("#tags-problem .wrong")).to_have_count(0)


def test_the_query_lab_answers_and_says_how(page: Page) -> None:
    page.get_by_role("link", name="Query lab").click()
    page.get_by_label("Text").fill("who may approve a payment to a new bank account")
    page.get_by_label("Tags").fill("policy+finance")
    page.get_by_label("Strategy").select_option("hybrid")
    page.get_by_role("button", name="Ask").click()
    first = page.locator(".results li").first
    expect(first).to_contain_text("lexical")
    expect(first.get_by_role("link")).to_contain_text(re.compile("payment|vendor|bank", re.IGNORECASE))
    expect(page.get_by_role("row", name=re.compile("^dense "))).to_be_visible()
    page.get_by_label("Top k").fill("1")
    page.get_by_role("button", name="Ask").click()
    expect(page.locator(".results li")).to_have_count(1)
    page.get_by_label("Tags").fill("nothing_has_this")
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_text("Nothing matches.")).to_be_visible()


@pytest.mark.parametrize("how", ["Expire", "Delete"])
def test_a_document_is_found_read_and_ended_after_a_question(page: Page, stack: Stack, how: str) -> None:
    name = f"end:{how}"
    httpx.post(
        f"{stack.url}/api/v1/knowledge/upsert",
        json={"id": name, "content": f"to be ended by {how}", "source": "test"},
        headers={"X-Internal-API-Key": stack.key},
    ).raise_for_status()
    page.get_by_role("link", name="Documents").click()
    page.get_by_label("Id begins with").fill("end:")
    page.get_by_role("button", name="Show").click()
    page.get_by_role("link", name=name).click()
    expect(page.locator("pre").first).to_contain_text(f"to be ended by {how}")
    page.get_by_role("link", name=how).click()
    page.get_by_role("link", name="Keep it").click()
    expect(page.get_by_role("link", name=how)).to_be_visible()
    page.get_by_role("link", name=how).click()
    page.get_by_role("button", name=how).click()
    expect(page.get_by_role("status")).to_contain_text("found no more")
    assert page.request.get(f"/console/document?id={name}").status == 404


def test_a_mail_is_read_and_what_is_broken_in_it_said(page: Page, tmp_path: Path) -> None:
    mail = tmp_path / "mail.eml"
    mail.write_bytes(b'From: "Chief" <x@evil.example>\r\nReply-To: y@other.example\r\nSubject: a\x00b\r\n\r\nPay now.')
    page.get_by_role("link", name="Mail check").click()
    page.locator("input[type=file]").set_input_files(mail)
    page.get_by_role("button", name="Check").click()
    facts = page.locator("dl.facts")
    expect(facts).to_contain_text("x@evil.example")
    expect(facts).to_contain_text("y@other.example")
    expect(facts).to_contain_text("control characters")
    expect(page.locator("pre")).to_contain_text("Pay now.")


def test_a_forged_mail_is_told_with_the_documents_that_show_it(page: Page) -> None:
    page.get_by_role("link", name="Mail check").click()
    page.locator("input[type=file]").set_input_files(MAILS / "06-executive-freemail.eml")
    page.get_by_role("button", name="Check").click()
    verdict = page.get_by_role("region", name="Phishing")
    expect(verdict).to_contain_text("confidence")
    verdict.get_by_role("link").first.click()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.locator("pre").first).not_to_be_empty()


def test_items_of_the_compartments_in_sight_are_found_and_read(page: Page) -> None:
    page.get_by_role("link", name="Items").click()
    expect(page.get_by_label("Compartment").locator("option")).to_have_count(2)
    expect(page.locator("main tbody tr")).to_have_count(1)
    page.get_by_label("Text").fill("boiler")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("columnheader", name="Semantic")).to_be_visible()
    page.locator("main tbody a").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Boiler home {HOSTILE}")
    expect(page.locator("pre")).to_contain_text("onerror")


def test_the_dashboard_draws_the_templates_widgets(page: Page) -> None:
    page.get_by_role("link", name="Query lab").click()
    page.get_by_label("Text").fill("a question that is measured")
    page.get_by_role("button", name="Ask").click()
    page.get_by_role("link", name="Dashboard").click()
    queries = page.get_by_role("region", name="Queries: seconds")
    expect(queries.locator("canvas")).to_be_visible(timeout=PATIENCE_MS)
    expect(queries.locator(".hint")).to_contain_text("p95")


def test_what_documents_hold_is_text_and_nothing_else(page: Page, stack: Stack) -> None:
    """The page fixture fails when a dialog opens or a script complains."""
    for path in ("/console", "/console/documents?prefix=harm:", "/console/query?text=harmful+payment&strategy=hybrid"):
        page.goto(path)
        assert page.locator("img").count() == 0
        assert page.evaluate("document.scripts.length") == len(page.locator("head script").all())
    page.goto("/console/documents?prefix=harm:")
    page.locator("main table a").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    expect(page.locator("pre").last).to_contain_text("onerror")
    page.goto("/console/query", wait_until="load")
    page.goto(f"/console/query?text={HOSTILE.replace('#', '')}&tags={HOSTILE}&strategy={HOSTILE}&top_k={HOSTILE}")
    expect(page.get_by_label("Text")).to_have_value(HOSTILE)
    assert "49" not in page.locator("main").inner_text().replace(HOSTILE, "")


def test_a_form_that_another_site_could_send_changes_nothing(page: Page) -> None:
    answer = page.request.post("/console/document/end", form={"id": "x", "how": "delete"})
    assert answer.status == 403
    answer = page.request.post("/console/sync", form={"id": "wiki", "form_token": "0" * 64})
    assert answer.status == 403


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PAGES)
def test_no_page_has_a_serious_accessibility_fault(page: Page, path: str, scheme: Any) -> None:
    page.emulate_media(color_scheme=scheme)
    page.goto(f"/console{path}")
    found = Axe().run(page).response["violations"]
    serious = [
        (fault["id"], [node["html"][:120] for node in fault["nodes"][:3]])
        for fault in found
        if fault["impact"] in ("serious", "critical")
    ]
    assert serious == []


@pytest.mark.parametrize("path", PAGES)
def test_a_phone_shows_each_page_without_scrolling_sideways(page: Page, path: str) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(f"/console{path}")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_pages_can_be_walked_by_keyboard(page: Page) -> None:
    page.goto("/console")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    page.goto("/console")
    for _ in range(3):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/console/query"))


def test_the_console_weighs_less_than_300_kilobytes(page: Page) -> None:
    weighed: list[int] = []
    page.on("response", lambda answer: weighed.append(len(answer.body())))
    page.goto("/console/dashboard", wait_until="networkidle")
    page.goto("/console", wait_until="networkidle")
    assert 10_000 < sum(weighed) < 300_000


def test_a_failed_sync_tells_its_reason_on_the_first_page(page: Page, stack: Stack) -> None:
    said = stack.spot_path.read_text()
    stack.spot_path.write_text(re.sub(r"http://127\.0\.0\.1:\d+", "http://127.0.0.1:1", said))
    try:
        page.goto("/console")
        row = page.locator("#provider-wiki")
        page.get_by_role("button", name="Sync wiki now").click()
        expect(row.get_by_text("failed", exact=True)).to_be_visible(timeout=PATIENCE_MS)
        expect(row.locator(".reason")).to_contain_text("cannot reach")
        row.get_by_role("link", name="wiki").click()
        expect(page.locator("main tbody tr").first).to_contain_text("failed")
    finally:
        stack.spot_path.write_text(said)
