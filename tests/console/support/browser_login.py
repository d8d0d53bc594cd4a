"""What a person does in a browser before the rest."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.console.support.scene import Scene


def signed_in(page: Page, stage: Scene, name: str, path: str = "/") -> None:
    """Sign in with the token of a person, and arrive at a page."""
    page.goto(path)
    page.get_by_label("Token").fill(stage.tokens[name])
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("header.top .me span")).to_have_text(name)
