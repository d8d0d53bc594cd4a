"""Time travel, branches and files in a browser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.console.support.browser_login import signed_in
from tests.console.support.scene import Scene, console_releaser

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def release(stage: Scene) -> None:
    """A session whose deployment was approved."""
    stage.begin(console_releaser.bind("release version 2 of the shop"), "release")
    stage.until("release", "approval")
    (row,) = stage.run(stage.listed(stage.runtime.approvals(session="release")))
    stage.run(stage.vote(row.id))
    stage.until("release", "input")


def event_of(stage: Scene, kind: str) -> int:
    events = stage.run(stage.listed(stage.runtime.events("release")))
    return max(one.number for one in events if one.kind == kind)


def test_a_person_scrubs_through_time(page: Page, stage: Scene) -> None:
    planned, done = event_of(stage, "approval.voted") - 1, event_of(stage, "effect.acknowledged")
    signed_in(page, stage, "grace", "/sessions/release/at")
    slider, state = page.get_by_role("slider", name="Event"), page.locator("#state")
    expect(state.locator(".badge.acknowledged").first).to_be_visible()
    slider.fill(str(planned))
    expect(state).to_contain_text(f"After event {planned}")
    expect(state.locator("li", has_text="console_deploy").locator(".badge.planned")).to_be_visible()
    expect(page.locator("#happened .effect .badge").first).to_have_text("planned")  # as it was then
    slider.focus()
    for _ in range(done - planned):
        page.keyboard.press("ArrowRight")
    expect(state).to_contain_text(f"After event {done}")
    expect(state.locator("li", has_text="console_deploy").locator(".badge.planned")).to_have_count(0)
    assert page.url.endswith(f"number={done}")


def test_a_person_forks_and_compares_branches(page: Page, stage: Scene) -> None:
    before = event_of(stage, "effect.planned") - 1
    signed_in(page, stage, "grace", f"/sessions/release/at?number={before}")
    page.get_by_role("button", name=f"Branch from event {before}").click()
    expect(page.get_by_text("This is the new branch.")).to_be_visible()
    branch = page.locator("header.session code").inner_text()
    stage.until(branch, "approval")
    page.get_by_role("link", name="Branches").click()
    expect(page.locator("svg.graph g")).to_have_count(2)
    expect(page.locator("svg.graph .here")).to_contain_text(branch)
    page.locator("svg.graph").get_by_role("link", name="Compare with release").click()
    expect(page.locator("main")).to_contain_text(f"Both share every event up to {before}.")
    left, right = page.locator(".sides > section").all()
    expect(left.locator(".effect .badge").first).to_have_text("differs")
    expect(left.locator(".effect .who .badge").first).to_have_text("planned")
    expect(right.locator(".differs", has_text="Version 2 of the shop is live.")).to_contain_text("only here")
    expect(right.locator(".differs", has_text="for an approval")).to_have_count(0)
    expect(right).to_contain_text("Version 2 of the shop is live.")


def test_files_and_recovery_say_what_there_is(page: Page, stage: Scene) -> None:
    signed_in(page, stage, "grace", "/sessions/release/files")
    expect(page.locator(".empty")).to_contain_text("works in no folder")
    page.get_by_role("link", name="Recovery").click()
    expect(page.locator(".empty")).to_have_text("Every effect is settled.")


def test_an_edit_is_approved_as_a_diff_and_found_in_the_files(page: Page, stage: Scene, folder: Path) -> None:
    stage.begin_fix("fix", folder)
    stage.until("fix", "approval")
    page.set_viewport_size({"width": 1180, "height": 760})
    signed_in(page, stage, "grace", "/sessions/fix")
    card = page.locator(".need.approval")
    expect(card.get_by_role("button", name="Approve")).to_be_in_viewport()
    expect(card.locator(".diff .removed code")).to_have_text("    return max(prices)")
    expect(card.locator(".diff .added code")).to_have_text("    return sum(prices)")
    expect(card).to_contain_text("path:cart.py")
    assert re.search("[0-9a-f]{64}", card.inner_text()) is None
    card.get_by_text("More arguments").click()
    assert len(re.findall("[0-9a-f]{64}", card.inner_text())) == 2
    card.get_by_label("Approve").select_option("this")
    card.get_by_role("button", name="Approve").click()
    stage.until("fix", "input")
    page.goto("/sessions/fix")
    expect(page.locator("#plan li.done")).to_have_count(3)
    page.get_by_role("link", name="Files").click()
    expect(page.locator("summary code")).to_have_text("cart.py")
    expect(page.locator(".diff .added")).to_have_text("3+    return sum(prices)")
    expect(page.locator(".diff .cut")).to_have_count(0)
