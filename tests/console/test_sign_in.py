"""Who gets into the console: sign-in, its cookie, its forms, and the rights behind it."""

from __future__ import annotations

import re

import httpx
import pytest

from perdure.clock import SECOND
from perdure.console.login import cookies
from perdure.domain.identity import Identity, acting
from perdure.domain.sign_in import LIFETIME
from perdure.errors import ConfigError
from perdure.server.settings import ServerSettings, check_sign_in
from perdure.store.moves import sign_in
from perdure.testing import ManualClock
from tests.console.support.scene import console_survey
from tests.console.support.visit import TOKEN, Visit, visiting

pytestmark = pytest.mark.databases("sqlite", "postgres")


async def test_sign_in_gives_a_cookie_that_is_not_the_token(visit: Visit) -> None:
    assert (await visit.client.get("/")).headers["location"] == "/sign-in?next=/"
    await visit.form_token()
    before = visit.jar
    answer = await visit.sign_in("ada")
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    (cookie,) = answer.headers.get_list("set-cookie")
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; ")[1:])
    secret = visit.jar["perdure"]
    assert secret != before["perdure"]  # one that was planted before is worth nothing
    assert visit.tokens["ada"] not in answer.text + cookie
    row = await visit.runtime.store.read(sign_in.get, cookies.stored(secret))
    assert row is not None
    assert row.identity.startswith("token:")
    assert secret not in str(row)
    page = await visit.client.get("/")
    assert page.status_code == 200
    assert "ada" in page.text
    assert secret not in page.text


async def test_cookie_is_secure_where_there_is_tls(target: str, clock: ManualClock) -> None:
    async with visiting(target, clock, behind_proxy=True) as visit:
        (cookie,) = (await visit.sign_in("ada")).headers.get_list("set-cookie")
        assert cookie.startswith("__Host-perdure=")
        assert "Secure" in cookie.split("; ")


@pytest.mark.parametrize("text", ["", "prd_", "prd_0000000000_" + "A" * 43, "x" * 5000])
async def test_wrong_token_signs_in_nowhere(visit: Visit, text: str) -> None:
    answer = await visit.post("/sign-in", token=text)
    assert answer.status_code == 401
    assert "not valid" in answer.text
    assert (await visit.client.get("/")).status_code == 303


async def test_sign_in_ends_with_the_token_and_with_time(visit: Visit) -> None:
    await visit.sign_in("grace")
    assert (await visit.client.get("/")).status_code == 200
    (id,) = [one.id async for one in visit.runtime.tokens() if one.principal == "grace"]
    await visit.runtime.revoke_token(id)
    assert (await visit.client.get("/")).status_code == 303
    await visit.sign_in("ada")
    assert (await visit.client.get("/")).status_code == 200
    visit.clock.advance(seconds=LIFETIME / SECOND)
    assert (await visit.client.get("/")).status_code == 303


async def test_sign_in_ends_when_its_token_expires(visit: Visit) -> None:
    visit.tokens["soon"] = (await visit.runtime.create_token("grace", scopes=["*"], expires="1h")).token
    await visit.sign_in("soon")
    visit.clock.advance(seconds=3599)
    assert (await visit.client.get("/")).status_code == 200
    visit.clock.advance(seconds=1)
    assert (await visit.client.get("/")).status_code == 303


async def test_signing_out_makes_the_cookie_worthless(visit: Visit) -> None:
    await visit.sign_in("ada")
    kept = visit.jar["perdure"]
    answer = await visit.post("/sign-out", at="/")
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
    assert visit.jar == {}
    visit.client.cookies.set("perdure", kept)
    assert (await visit.client.get("/")).status_code == 303


async def test_a_form_of_another_browser_does_nothing(visit: Visit) -> None:
    async with httpx.AsyncClient(transport=visit.client._transport, base_url=visit.client.base_url) as other:
        found = TOKEN.search((await other.get("/sign-in")).text)
    assert found is not None
    await visit.sign_in("ada")
    with acting(Identity.parse("token:ada")):
        await visit.runtime.start(console_survey.bind(), id="survey", queue="mine")
    for given in ({}, {"form_token": ""}, {"form_token": "0" * 64}, {"form_token": found[1]}):
        answer = await visit.client.post("/sessions/survey/steer", data={"do": "cancel", **given})
        assert answer.status_code == 403
    assert (await visit.runtime.get("survey")).status == "ready"
    assert (await visit.post("/sessions/survey/steer", at="/", do="cancel")).status_code == 303
    assert (await visit.runtime.get("survey")).status == "cancelled"


@pytest.mark.parametrize(
    "headers",
    [{"origin": "http://evil.example"}, {"origin": "http://127.0.0.1:8080"}, {"origin": "null"},
     {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}],
)  # fmt: skip
async def test_a_page_of_another_site_changes_nothing(visit: Visit, headers: dict[str, str]) -> None:
    await visit.sign_in("ada")
    await visit.runtime.start(console_survey.bind(), id="survey")
    answer = await visit.post("/sessions/survey/steer", at="/", headers=headers, do="cancel")
    assert answer.status_code == 403
    assert (await visit.runtime.get("survey")).status == "ready"


async def test_a_foreign_host_is_refused(visit: Visit) -> None:
    for host in ("evil.example", "127.0.0.1.evil.example", "[::1", "localhost.evil.example:7180"):
        assert (await visit.client.get("/sign-in", headers={"host": host})).status_code == 421
    for host in ("localhost:7180", "[::1]:7180", "10.0.0.7"):
        assert (await visit.client.get("/sign-in", headers={"host": host})).status_code == 200


@pytest.mark.parametrize(
    "wanted", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", "/a\nb"]
)
async def test_sign_in_leads_only_to_pages_of_the_service(visit: Visit, wanted: str) -> None:
    answer = await visit.post("/sign-in", token=visit.tokens["ada"], back=wanted)
    assert answer.headers["location"] == "/"


async def test_what_one_may_not_see_is_not_there(visit: Visit) -> None:
    for id, queue in (("secret-plan", "theirs"), ("own-plan", "mine")):
        await visit.runtime.start(console_survey.bind(), id=id, queue=queue)
    await visit.sign_in("grace")
    listed = (await visit.client.get("/sessions")).text
    assert ("secret-plan" in listed, "own-plan" in listed) == (False, True)
    pages = [(await visit.client.get(f"/sessions/{id}")) for id in ("secret-plan", "no-such-plan")]
    assert [one.status_code for one in pages] == [404, 404]
    hidden, absent = [re.sub(r"secret-plan|no-such-plan|request <code>\w+", "", one.text) for one in pages]
    assert hidden == absent
    for path in ("/sessions/secret-plan/live", "/sessions/secret-plan/steer", "/sessions/secret-plan/send"):
        method = "get" if path.endswith("live") else "post"
        data = {"form_token": await visit.form_token("/"), "do": "cancel", "text": "hello"}
        answer = await getattr(visit.client, method)(path, **({} if method == "get" else {"data": data}))
        assert answer.status_code == 404
    assert (await visit.runtime.get("secret-plan")).cancel_requested_at is None


async def test_pages_allow_no_inline_script_and_no_frame(visit: Visit) -> None:
    await visit.sign_in("ada")
    await visit.runtime.start(console_survey.bind(), id="survey")
    for path in ("/", "/sign-in", "/sessions", "/sessions/survey", "/no-such-page"):
        answer = await visit.client.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert re.search(r"<script(?! src)|<style|\sstyle=|\son[a-z]+=", answer.text) is None
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"


async def test_link_from_another_site_keeps_the_sign_in(visit: Visit) -> None:
    """The browser withholds the cookie then; a page that loads itself again gets it."""
    await visit.sign_in("ada")
    kept = dict(visit.client.cookies)
    visit.client.cookies.clear()
    answer = await visit.client.get("/", headers={"sec-fetch-site": "cross-site"})
    assert (answer.status_code, 'http-equiv="refresh"' in answer.text) == (200, True)
    assert "set-cookie" not in answer.headers
    visit.client.cookies.update(kept)
    assert (await visit.client.get("/")).status_code == 200


async def test_peer_of_a_forwarded_socket_signs_in_with_a_form(target: str, clock: ManualClock) -> None:
    async with visiting(target, clock, peer=4711) as visit:
        await visit.runtime.set_principal("grace", logins=["os:4711"])
        assert (await visit.client.get("/")).status_code == 303  # being there is not enough: other pages could ask too
        assert (await visit.client.get("/sign-in", headers={"host": "evil.example:7180"})).status_code == 421
        assert "Continue as grace" in (await visit.client.get("/sign-in")).text
        assert (await visit.post("/sign-in", **{"as": "peer"})).status_code == 303
        assert (await visit.client.get("/")).status_code == 200
        kept = visit.jar["perdure"]
    async with visiting(
        target, clock, is_known=True
    ) as visit:  # by the port, the cookie of that socket is worth nothing
        visit.client.cookies.set("perdure", kept)
        assert (await visit.client.get("/")).status_code == 303


async def test_proxy_names_the_user_in_its_header(target: str, clock: ManualClock) -> None:
    async with visiting(target, clock, behind_proxy=True, user_header="X-User") as visit:
        await visit.runtime.set_principal("grace", logins=["oidc:grace-at-work"])
        visit.client.headers["x-user"] = "grace-at-work"
        assert "Continue as grace" in (await visit.client.get("/sign-in")).text
        assert (await visit.post("/sign-in", **{"as": "peer"})).status_code == 303
        assert (await visit.client.get("/")).status_code == 200
        for other in ("stranger", ""):
            visit.client.headers["x-user"] = other
            assert (await visit.client.get("/")).status_code == 303  # the cookie is for that user only
        visit.client.headers["x-user"] = "stranger"
        assert (await visit.post("/sign-in", **{"as": "peer"})).status_code == 401


@pytest.mark.parametrize("settings", [{}, {"behind_proxy": True}])
async def test_header_of_a_user_counts_only_where_it_is_named(
    settings: dict[str, bool], target: str, clock: ManualClock
) -> None:
    async with visiting(target, clock, **settings) as visit:
        await visit.runtime.set_principal("grace", logins=["oidc:grace-at-work"])
        visit.client.headers["x-user"] = "grace-at-work"
        assert "Continue as" not in (await visit.client.get("/sign-in")).text
        assert (await visit.post("/sign-in", **{"as": "peer"})).status_code == 401


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"oidc_issuer": "https://login.example"}, "a provider and a client"),
        ({"oidc_issuer": "http://login.example", "oidc_client": "c"}, "no address|not an address"),
        ({"oidc_issuer": "https://login.example", "oidc_client": "c", "behind_proxy": True}, "address that browsers"),
        ({"oidc_issuer": "https://l.example", "oidc_client": "c", "oidc_secret_file": "/no/such"}, "cannot be read"),
        ({"user_header": "X-User"}, "any client could write"),
        ({"user_header": "X User", "behind_proxy": True}, "not the name of a header"),
        ({"public_url": "javascript:alert(1)"}, "not an address"),
    ],
)
def test_unsafe_ways_to_sign_in_are_refused(wrong: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_sign_in(ServerSettings(**wrong))  # type: ignore[arg-type]
