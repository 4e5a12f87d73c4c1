"""Take the pictures of the console in docs/images, of a running stack with the example company (`make screenshots`).

.venv/bin/python tools/screenshots.py [--home .knowledge] [--to docs/images]
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from local.home import Home
from local.settings import CHECKOUT

MAIL = CHECKOUT / "examples" / "company" / "mails" / "06-executive-freemail.eml"
QUESTION = (
    "/console/query?text=Who+may+approve+a+payment+to+a+new+bank+account%3F&tags=policy%2Bfinance&strategy=hybrid"
)
WIDE, PHONE = {"width": 1200, "height": 900}, {"width": 390, "height": 800}


def take(page: Page, to: Path) -> None:
    """All pictures, one after the other."""

    def picture(name: str) -> None:
        page.wait_for_load_state("networkidle")
        page.screenshot(path=to / f"{name}.png")

    picture("overview")
    page.goto(QUESTION)
    picture("query-lab")
    page.goto("/console/mail")
    page.locator("input[type=file]").set_input_files(MAIL)
    page.get_by_role("button", name="Check").click()
    page.get_by_role("region", name="Phishing").wait_for()
    picture("mail-check")
    page.emulate_media(color_scheme="dark")
    page.goto("/console/dashboard")
    page.locator("canvas").first.wait_for()
    picture("dashboard-dark")
    page.set_viewport_size(PHONE)
    page.goto("/console/documents?tags=executive")
    picture("documents-phone")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, default=CHECKOUT / ".knowledge", help="KNOWLEDGE_HOME of the stack")
    parser.add_argument("--to", type=Path, default=CHECKOUT / "docs" / "images")
    arguments = parser.parse_args()
    home = Home(arguments.home.absolute())
    running = home.running_stack()
    if running is None:
        parser.error(f"no stack runs in {home.path}: make up")
    arguments.to.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_context(base_url=running.url, viewport=WIDE, color_scheme="light").new_page()
        page.goto("/console")
        page.get_by_label("Internal key").fill(home.api_key())
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url("**/console")
        take(page, arguments.to)
        browser.close()


if __name__ == "__main__":
    main()
