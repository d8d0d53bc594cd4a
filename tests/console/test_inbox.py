"""A person in a browser decides, and the session continues while they watch."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.console.support.browser_login import signed_in
from tests.console.support.scene import Scene, console_payment, console_releaser, console_survey

pytestmark = pytest.mark.slow


def begin_release(stage: Scene, id: str) -> None:
    stage.begin(console_releaser.bind("release version 2 of the shop"), id, title=f"Release {id}")
    stage.until(id, "approval")


def test_a_person_approves_and_watches_the_session_continue(page: Page, stage: Scene) -> None:
    begin_release(stage, "watched")
    signed_in(page, stage, "grace")
    card = page.locator(".need.approval", has_text="Release watched")
    expect(card).to_contain_text("console_deploy")
    expect(card).to_contain_text("service:shop")
    card.get_by_role("link", name="Release watched").click()
    expect(page.locator("#live-state")).to_have_text("Live.")
    page.locator(".need.approval textarea[name=because]").fill("the tests pass")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("status").first).to_contain_text("Your approval is recorded")
    expect(page.locator("#timeline")).to_contain_text("Version 2 of the shop is live.")  # without loading it again
    expect(page.locator(".need.approval")).to_have_count(0)
    (row,) = stage.run(stage.listed(stage.runtime.approvals(session="watched")))
    assert row.decision == "approved"


def test_an_approval_appears_in_an_open_inbox_and_leaves_it(page: Page, stage: Scene) -> None:
    signed_in(page, stage, "grace")
    expect(page.locator("#live-state")).to_have_text("Live.")
    begin_release(stage, "arrives")
    card = page.locator(".need.approval", has_text="Release arrives")
    expect(card).to_be_visible()
    (row,) = stage.run(stage.listed(stage.runtime.approvals(session="arrives")))
    stage.run(stage.vote(row.id))
    expect(card).to_have_count(0)


def test_keys_alone_deny_with_a_reason(page: Page, stage: Scene) -> None:
    begin_release(stage, "keyboard")
    page.goto("/")
    expect(page.get_by_label("Token")).to_be_focused()
    page.keyboard.type(stage.tokens["grace"])
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("Inbox")
    expect(page.locator("#live-state")).to_have_text("Live.")
    card = page.locator(".need.approval", has_text="Release keyboard")
    focus(page, card)
    page.keyboard.press("n")
    page.keyboard.type("not on a Friday")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").first).to_contain_text("Your denial is recorded")
    stage.until("keyboard", "input")
    events = stage.run(stage.listed(stage.runtime.events("keyboard")))
    (voted,) = [one.body for one in events if one.kind == "approval.voted"]
    assert (voted["decision"], voted["because"]) == ("denied", "not on a Friday")


def focus(page: Page, card: Locator) -> None:
    """Move to a card with the keyboard."""
    for _ in range(page.locator("[data-item]").count() + 1):
        if card.evaluate("one => one === document.activeElement"):
            return
        page.keyboard.press("j")
    raise AssertionError("the keyboard does not reach the card")


def test_keys_decide_nothing_that_was_not_chosen(page: Page, stage: Scene) -> None:
    for id in ("taken", "kept"):
        begin_release(stage, id)
    signed_in(page, stage, "grace")
    expect(page.locator("#live-state")).to_have_text("Live.")
    page.keyboard.press("y")
    expect(page.locator("#announcement")).to_have_text("First choose an approval with j and k.")
    assert page.locator("button.armed").count() == 0
    taken = page.locator(".need.approval", has_text="Release taken")
    focus(page, taken)
    (row,) = stage.run(stage.listed(stage.runtime.approvals(session="taken")))
    stage.run(stage.vote(row.id))
    expect(taken).to_have_count(0)
    expect(page.locator("#announcement")).to_contain_text("Decided elsewhere: approval console_deploy")
    expect(page.locator("h1")).to_be_focused()
    page.keyboard.press("y")
    page.keyboard.press("Enter")
    assert page.locator("button.armed").count() == 0
    (row,) = stage.run(stage.listed(stage.runtime.approvals(session="kept")))
    assert row.decision is None
    stage.run(stage.vote(row.id))


def test_a_typed_reason_stays_when_the_approval_was_decided_elsewhere(page: Page, stage: Scene) -> None:
    begin_release(stage, "typed")
    signed_in(page, stage, "grace")
    expect(page.locator("#live-state")).to_have_text("Live.")
    card = page.locator(".need.approval", has_text="Release typed")
    card.get_by_label("Reason").fill("a long story")
    (row,) = stage.run(stage.listed(stage.runtime.approvals(session="typed")))
    stage.run(stage.vote(row.id))
    expect(card).to_contain_text("This was decided elsewhere.")
    expect(card.get_by_role("button", name="Approve")).to_be_disabled()
    expect(card.get_by_label("Reason")).to_have_value("a long story")


def test_a_person_settles_a_doubt(page: Page, stage: Scene) -> None:
    stage.begin(console_payment.bind(cents=1200), "pay")
    stage.until("pay", "doubt")
    signed_in(page, stage, "grace")
    card = page.locator(".need.doubt")
    expect(card).to_contain_text("the bank did not answer")
    card.get_by_label("It happened").check()
    card.get_by_label("How you know").fill("it is on the statement")
    card.get_by_text("Reference and result").click()
    card.get_by_label("Result as JSON").fill('"receipt 7"')
    card.get_by_role("button", name="Settle").click()
    stage.until("pay", status="done")
    assert stage.run(stage.runtime.get("pay")).result == "receipt 7"


def test_what_was_typed_survives_a_refusal(page: Page, stage: Scene) -> None:
    stage.begin(console_payment.bind(cents=5), "refused")
    stage.until("refused", "doubt")
    signed_in(page, stage, "grace")
    card = page.locator(".need.doubt", has_text="refused")
    card.get_by_label("It happened").check()
    card.get_by_label("How you know").fill("a long story about the bank")
    card.get_by_text("Reference and result").click()
    card.get_by_label("Result as JSON").fill("{not json")
    card.get_by_role("button", name="Settle").click()
    expect(page.get_by_role("alert")).to_contain_text("not JSON")
    expect(page.locator("main")).to_contain_text("a long story about the bank")
    stage.run(stage.cancel("refused"))


def test_pages_and_forms_work_without_script(browser: Browser, stage: Scene) -> None:
    begin_release(stage, "plain")
    stage.begin(console_survey.bind(), "asked")
    stage.until("asked", "input")
    context = browser.new_context(base_url=stage.address, java_script_enabled=False)
    page = context.new_page()
    signed_in(page, stage, "grace")
    page.locator(".need.input").get_by_role("button", name="yes").click()
    expect(page.get_by_text("The answer is recorded.")).to_be_visible()
    stage.until("asked", status="done")
    page.locator(".need.approval", has_text="Release plain").get_by_role("button", name="Approve").click()
    expect(page.get_by_text("Your approval is recorded.")).to_be_visible()
    stage.until("plain", "input")
    page.get_by_role("link", name="Sessions").click()
    page.get_by_role("link", name="Release plain").click()
    expect(page.locator("#timeline")).to_contain_text("Version 2 of the shop is live.")
    page.get_by_label("Message", exact=True).fill("thank you")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_text("The message is sent.")).to_be_visible()
    cancel = page.get_by_role("button", name="Cancel for good")
    expect(cancel).to_be_hidden()
    page.get_by_text("Cancel this session").click()
    cancel.click()
    expect(page.get_by_text("The session was asked to end.")).to_be_visible()
    stage.until("plain", status="cancelled")
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_url(re.compile("/sign-in$"))
    context.close()


def test_one_who_may_not_vote_sees_why(page: Page, stage: Scene) -> None:
    begin_release(stage, "barred")
    signed_in(page, stage, "ada")
    card = page.locator(".need.approval", has_text="Release barred")
    expect(card).to_contain_text("ada requested approval")
    expect(card.get_by_role("button")).to_have_count(0)
    (row,) = stage.run(stage.listed(stage.runtime.approvals(session="barred")))
    stage.run(stage.vote(row.id))
