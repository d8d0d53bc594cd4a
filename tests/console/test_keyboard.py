"""Everything with the keyboard alone."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.console.support.browser_login import signed_in
from tests.console.support.scene import Scene, console_payment, console_releaser

pytestmark = pytest.mark.slow
MOST = 60  # keys until something must be reached


def ready(page: Page) -> None:
    """Wait until the script of the page reads keys."""
    expect(page.locator("body[data-script]")).to_have_count(1)


def press_until(page: Page, key: str, wanted: Locator) -> None:
    """Press a key until something has the focus."""
    ready(page)
    expect(wanted).to_have_count(1)
    for _ in range(MOST):
        if wanted.evaluate("one => one === document.activeElement"):
            return
        page.keyboard.press(key)
    raise AssertionError(f"{key} does not reach it")


def go(page: Page, key: str, heading: str) -> None:
    ready(page)
    page.keyboard.press("g")
    page.keyboard.press(key)
    expect(page.locator("h1")).to_contain_text(heading)


def test_keys_approve_a_call(page: Page, stage: Scene) -> None:
    stage.begin(console_releaser.bind("release"), "approve", title="Release by keys")
    stage.until("approve", "approval")
    signed_in(page, stage, "grace", "/ledger")
    go(page, "i", "Inbox")
    press_until(page, "j", page.locator(".need.approval", has_text="Release by keys"))
    page.keyboard.press("y")
    page.keyboard.type("it was tested")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").first).to_contain_text("Your approval is recorded")
    stage.until("approve", "input")


def test_keys_settle_a_doubt(page: Page, stage: Scene) -> None:
    stage.begin(console_payment.bind(cents=5), "settle", title="Pay by keys")
    stage.until("settle", "doubt")
    signed_in(page, stage, "grace", "/doctor")
    go(page, "i", "Inbox")
    card = page.locator(".need.doubt", has_text="Pay by keys")
    press_until(page, "j", card)
    press_until(page, "Tab", card.get_by_label("It happened"))
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    press_until(page, "Tab", card.get_by_label("How you know"))
    page.keyboard.type("the bank lost it")
    press_until(page, "Tab", card.get_by_role("button", name="Settle"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").first).to_contain_text("The verdict is recorded")
    (effect,) = stage.run(stage.listed(stage.runtime.effects(session="settle")))
    assert (effect.state, effect.verdict) == ("failed", "abandon")


def test_keys_branch_a_session(page: Page, stage: Scene) -> None:
    stage.begin(console_releaser.bind("release"), "branch", title="Branch by keys")
    stage.until("branch", "approval")
    signed_in(page, stage, "ada", "/fleet")
    go(page, "s", "Sessions")
    press_until(page, "j", page.locator("tr[data-item]", has_text="Branch by keys"))
    page.keyboard.press("o")
    expect(page.locator("h1")).to_contain_text("Branch by keys")
    press_until(page, "j", page.locator("#timeline li.message.user"))
    page.keyboard.press("o")
    expect(page.locator("#state h2").first).to_have_text("After event 3")
    press_until(page, "Tab", page.get_by_role("button", name="Branch from event 3"))
    page.keyboard.press("Enter")
    expect(page.get_by_text("This is the new branch.")).to_be_visible()
    go(page, "h", "Branch by keys")
    expect(page.get_by_role("slider", name="Event")).to_be_visible()


@pytest.mark.parametrize(
    ("key", "heading"),
    [
        ("s", "Sessions"),
        ("l", "Ledger"),
        ("f", "Fleet"),
        ("p", "Policy"),
        ("a", "Audit"),
        ("d", "Doctor"),
        ("i", "Inbox"),
    ],
)
def test_keys_open_each_page_and_are_listed(key: str, heading: str, page: Page, stage: Scene) -> None:
    signed_in(page, stage, "ada", "/doctor")
    ready(page)
    expect(page.locator(".keys")).to_be_visible()
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys")
    expect(keys).to_contain_text(heading, ignore_case=True)
    page.keyboard.press("Escape")
    expect(keys).to_be_hidden()
    go(page, key, heading)
