"""The pages for everyone: hostile text, small screens, assistive technology, light and dark."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from perdure.runtime.live_text.delta import LiveTextHeader
from tests.console.support.browser_login import signed_in
from tests.console.support.scene import (
    HOSTILE,
    Scene,
    console_intruder,
    console_payment,
    console_releaser,
    console_survey,
)

pytestmark = pytest.mark.slow
PATHS = (
    "/", "/sessions", "/sessions/release", "/sessions/intruder", "/sessions/release/at", "/sessions/release/branches",
    "/sessions/pay/recovery", "/sessions/pay/files", "/ledger?reach=all", "/fleet", "/doctor", "/audit",
    "/audit/waiting", "/no-such-page", "/policy?tool=run_command&command=rm", "/sessions/again/compare?with=release",
    "/sessions/fix/files", "/sessions/fix/usage", "/sessions/fix",
)  # fmt: skip
HIGHEST = 400  # pixels of a row of a table on a phone
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@pytest.fixture(scope="module", autouse=True)
def sessions(stage: Scene) -> None:
    stage.begin_fix("fix", stage.folder)
    stage.until("fix", "approval")
    (row,) = stage.run(stage.listed(stage.runtime.approvals(session="fix")))
    stage.run(stage.vote(row.id))
    stage.until("fix", "input")
    stage.begin(console_releaser.bind("release version 2 of the shop"), "release")
    stage.begin(console_intruder.bind("look around"), "intruder")
    stage.begin(console_payment.bind(cents=7), "pay")
    stage.begin(console_survey.bind(), "survey")
    for id, kind in (("release", "approval"), ("intruder", "input"), ("pay", "doubt"), ("survey", "input")):
        stage.until(id, kind)
    stage.run(stage.runtime.fork("release", at=5, id="again"))
    stage.until("again", "approval")


def complaints(page: Page, rules: Any) -> list[str]:
    """What axe-core finds on a page, serious or worse."""
    found: dict[str, Any] = Axe().run(page, options={"runOnly": rules, "resultTypes": ["violations"]}).response
    return [
        f"{one['id']}: {node['html'][:200]}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


@pytest.mark.parametrize(("scheme", "rules"), [("light", RULES), ("dark", RULES)])
def test_axe_finds_no_serious_violation(scheme: Any, rules: list[str], browser: Browser, stage: Scene) -> None:
    context = browser.new_context(base_url=stage.address, color_scheme=scheme)
    page = context.new_page()
    page.goto("/sign-in")
    assert complaints(page, rules) == []
    signed_in(page, stage, "ada")
    for path in PATHS:
        page.goto(path)
        assert (path, complaints(page, rules)) == (path, [])
    context.close()


def test_hostile_transcript_does_nothing(page: Page, stage: Scene) -> None:
    broken: list[str] = []
    page.on("console", lambda message: broken.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: broken.append(str(error)))
    page.on("dialog", lambda dialog: broken.append(dialog.message))
    signed_in(page, stage, "grace", "/sessions/intruder")
    said = page.locator(".message.assistant .said")
    expect(said).to_contain_text("<script>document.title = 'owned'</script>")
    expect(said.locator(".mark").first).to_have_text(r"\x1b")
    assert r"\u202e" in said.locator(".mark").all_inner_texts()
    expect(said).to_contain_text("more characters")
    assert said.locator("*:not(.mark):not(.cut)").count() == 0  # nothing in it became an element
    assert (page.title(), page.locator(".need.approval").count()) == ("intruder – Perdure", 0)
    own, around = said.bounding_box(), page.locator(".timeline").bounding_box()
    assert own is not None
    assert around is not None
    assert own["height"] < 600
    assert around["x"] <= own["x"]
    assert own["x"] + own["width"] <= around["x"] + around["width"]
    assert broken == []


def test_hostile_text_is_harmless_while_it_is_written(page: Page, stage: Scene) -> None:
    """A reply that is written now, that breaks off, and that is written again after the connection was lost."""
    session = stage.run(stage.runtime.get("survey"))
    signed_in(page, stage, "grace", "/sessions/survey")
    expect(page.locator("#live-state")).to_have_text("Live.")
    live = page.locator("#live-text")
    for call in ("call-1", "call-2"):
        file = stage.runtime.live_text.begin(session.uid, LiveTextHeader(call, session.cursor))
        assert file is not None
        for start in range(0, len(HOSTILE), 4000):
            file.append(HOSTILE[start : start + 4000])
        expect(live.locator(".cut")).to_have_text("… the rest is shown when it is recorded")
        assert {r"\x1b", r"\u202e"} <= set(live.locator(".mark").all_inner_texts())
        text = live.inner_text()
        assert ("\x1b" in text, "\u202e" in text, len(text) < 21_000) == (False, False, True)
        assert live.locator("*:not(.mark):not(.cut)").count() == 0
        box = live.bounding_box()
        assert box is not None
        assert box["height"] < 600
        assert (page.title(), page.locator("#needs .need.approval").count()) == ("survey – Perdure", 0)
        file.close(recorded=False)
        expect(live).to_be_hidden()
        expect(live).to_have_text("")


def test_phone_shows_each_page_without_scrolling_sideways(browser: Browser, stage: Scene) -> None:
    context = browser.new_context(base_url=stage.address, viewport={"width": 360, "height": 740}, has_touch=True)
    page = context.new_page()
    signed_in(page, stage, "ada", "/sign-in")
    for path in PATHS:
        page.goto(path)
        width, inner = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        small = page.evaluate(
            "[...document.querySelectorAll('main button')].filter((b) => b.offsetHeight < 44).map((b) => b.textContent)"
        )
        rows = page.evaluate(
            "[...document.querySelectorAll('.rows tbody tr, .rows td')].map((one) => one.offsetHeight)"
        )
        assert (path, width <= inner, small, max(rows, default=0) < HIGHEST) == (path, True, [], True)
    context.close()
