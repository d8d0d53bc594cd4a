"""Pictures of the console in a browser, of a store with sessions that wait for people. The models are scripted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect

from tests.console.support.browser_login import signed_in
from tests.console.support.scene import Scene, console_payment, console_releaser, console_survey

WIDE = {"width": 1180, "height": 760}
PHONE = {"width": 390, "height": 780}
PAGES = {
    "console-inbox": "/",
    "console-session": "/sessions/fix-cart",
    "console-history": "/sessions/release-1/at?number=9",
    "console-branches": "/sessions/release-1/compare?with=release-1-again",
    "console-usage": "/sessions/fix-cart/usage",
}


def prepare(stage: Scene, folder: Path) -> None:
    """Sessions that wait for people, and one that was released and has a branch."""
    stage.begin(console_releaser.bind("Release version 2 of the shop."), "release-1", title="Release version 2")
    stage.until("release-1", "approval")
    (row,) = stage.run(stage.listed(stage.runtime.approvals(session="release-1")))
    stage.run(stage.vote(row.id))
    stage.until("release-1", "input")
    stage.run(stage.runtime.fork("release-1", at=5, id="release-1-again"))
    stage.until("release-1-again", "approval")
    stage.begin_fix("fix-cart", folder)
    stage.begin(console_payment.bind(cents=1200), "pay-invoice-7", title="Pay invoice 7")
    stage.begin(console_survey.bind(), "merge-change", title="Merge the change")
    for id, kind in (("fix-cart", "approval"), ("pay-invoice-7", "doubt"), ("merge-change", "input")):
        stage.until(id, kind)


def take_all(browser: Browser, stage: Scene, folder: Path) -> None:
    """Every picture of the documentation."""
    wide = visitor(browser, stage, viewport=WIDE)
    for name, path in PAGES.items():
        take(wide, path, folder / f"{name}.png")
    take(visitor(browser, stage, viewport=PHONE, color_scheme="dark"), "/", folder / "console-phone.png")


def visitor(browser: Browser, stage: Scene, **options: Any) -> Page:
    page = browser.new_context(base_url=stage.address, **options).new_page()
    signed_in(page, stage, "grace")
    return page


def take(page: Page, path: str, file: Path) -> None:
    page.goto(path)
    expect(page.locator("h1").first).to_be_visible()
    if page.locator("body").get_attribute("data-live"):
        expect(page.locator("#live-state")).to_have_text("Live.")
    page.screenshot(path=file)
