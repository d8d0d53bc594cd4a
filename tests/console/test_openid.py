"""Sign-in with OpenID Connect at a real provider, in a browser; and what is refused."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from perdure.console.login.openid import CALLBACK
from perdure.server.settings import ServerSettings
from tests.console.support.provider import provider
from tests.console.support.scene import Scene

pytestmark = pytest.mark.slow
SECRET = "a secret of the test client"


@pytest.fixture(scope="module")
def stage(empty_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """The service, with a provider at which grace is `grace-at-work`."""
    folder = tmp_path_factory.mktemp("openid")
    made = Scene(str(shutil.copy(empty_file, folder)), folder)
    (folder / "secret").write_text(f"{SECRET}\n")
    with provider(made.address + CALLBACK, SECRET) as issuer:
        made.settings = ServerSettings(
            oidc_issuer=issuer, oidc_client="perdure", oidc_secret_file=str(folder / "secret")
        )
        with made.running():
            made.run(made.runtime.set_principal("grace", logins=["oidc:grace-at-work"], by="ada"))
            yield made


def log_in(page: Page, name: str) -> None:
    """Begin at the console, and log in with the pages of the provider."""
    page.goto("/sessions")
    page.get_by_role("link", name="Sign in with OpenID Connect").click()
    page.locator("input[name=login]").fill(name)
    page.locator("input[name=password]").fill("anything")
    page.get_by_role("button", name="Sign-in").click()
    page.get_by_role("button", name="Continue").click()


def test_a_person_signs_in_at_the_provider(page: Page, stage: Scene) -> None:
    log_in(page, "grace-at-work")
    expect(page).to_have_url(re.compile("/sessions$"))
    expect(page.locator("header.top .me span")).to_have_text("grace")
    kept = {str(one.get("name")) for one in page.context.cookies(stage.address)}
    assert ("perdure" in kept, "perdure-oidc" in kept) == (True, False)
    stage.run(stage.runtime.remove_principal("grace", login="oidc:grace-at-work", by="ada"))
    page.reload()
    expect(page.get_by_label("Token")).to_be_visible()  # the sign-in ended with the login
    stage.run(stage.runtime.set_principal("grace", logins=["oidc:grace-at-work"], by="ada"))


def test_a_subject_that_is_no_principal_signs_in_nowhere(page: Page, stage: Scene) -> None:
    log_in(page, "stranger")
    expect(page.locator(".problem")).to_contain_text("oidc:stranger is no login of a principal")
    page.goto("/")
    expect(page.get_by_label("Token")).to_be_visible()


def begun(client: httpx.Client) -> httpx.URL:
    """Begin a sign-in; returns where it leads."""
    answer = client.get("/sign-in/oidc")
    (cookie,) = answer.headers.get_list("set-cookie")
    assert {"HttpOnly", "SameSite=lax", "Max-Age=600"} <= set(cookie.split("; "))
    return httpx.URL(answer.headers["location"])


def test_an_answer_must_fit_what_was_begun(stage: Scene) -> None:
    with httpx.Client(base_url=stage.address) as client, httpx.Client(base_url=stage.address) as other:
        asked = begun(client)
        assert (asked.params["code_challenge_method"], asked.params["scope"]) == ("S256", "openid")
        state = asked.params["state"]
        begun(other)
        not_begun, failed = "was not begun in this browser", "sign-in at the provider failed"
        for one, params, said in (
            (client, {"code": "c"}, not_begun),
            (client, {"code": "c", "state": "forged"}, not_begun),
            (other, {"code": "c", "state": state}, not_begun),  # begun in another browser
            (client, {"code": "c", "state": state, "iss": "https://evil.example"}, "Another provider"),
            (client, {"error": "access_denied", "state": state}, "refused: access_denied"),
            (client, {"code": "forged", "state": state}, failed),
        ):
            answer = one.get(CALLBACK, params=params)
            assert (params, answer.status_code, said in answer.text) == (params, 403, True)
            assert "perdure=" not in answer.headers.get("set-cookie", "")
