"""Each button of a session does what it says, on each database."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from perdure.domain.identity import Identity, acting
from perdure.domain.lease import Holder
from perdure.domain.wait import WaitKind
from perdure.store.moves import lease, wait
from perdure.store.moves import session as sessions
from tests.console.support.scene import console_broken, console_priced, console_releaser, console_survey
from tests.console.support.visit import Visit

pytestmark = pytest.mark.databases("sqlite", "postgres")
PATH = "/sessions/s"
RULE = """
default = "allow"

[[rule]]
name = "no-push"
answer = "ask"
reason = "others read it"
tool = "push"
[[rule.example]]
tool = "push"
expect = "ask"
"""


async def ready(visit: Visit) -> None:
    await visit.runtime.start(console_survey.bind(), id="s", queue="mine")


async def paused(visit: Visit) -> None:
    await ready(visit)
    await visit.runtime.pause("s")


async def running(visit: Visit) -> Holder:
    await ready(visit)
    uid = (await visit.runtime.get("s")).uid
    return await visit.runtime.store.write(lease.acquire(uid, "worker", nonce="n", ttl=3600 * 1_000_000))


async def talking(visit: Visit) -> None:
    await visit.runtime.start(console_priced.bind("Count."), id="s", queue="mine")
    await visit.runtime.run("s")


async def failed(visit: Visit) -> None:
    await visit.runtime.start(console_broken.bind(), id="s", queue="mine")
    assert (await visit.runtime.run("s")).status == "failed"


async def quarantined(visit: Visit) -> None:
    holder = await running(visit)
    await visit.runtime.store.write(wait.open_(holder, "q", WaitKind.QUARANTINE, detail={"crashes": 3}))
    assert await visit.runtime.store.write(wait.park(holder, ["q"])) == []


@pytest.mark.parametrize(
    ("begin", "button", "status", "event"),
    [
        (ready, "pause", "ready", "pause.requested"),
        (paused, "resume", "ready", "pause.requested"),
        (running, "interrupt", "running", "interrupt.requested"),
        (talking, "close", "done", "session.finished"),
        (failed, "retry", "ready", "session.retried"),
        (quarantined, "resume", "ready", "wait.resolved"),
        (ready, "cancel", "cancelled", "cancel.requested"),
    ],
)
async def test_a_button_of_a_session_does_what_it_says(
    begin: Callable[[Visit], Awaitable[Any]], button: str, status: str, event: str, visit: Visit
) -> None:
    await begin(visit)
    await visit.sign_in("grace")
    assert f'name="do" value="{button}"' in (await visit.client.get(PATH)).text
    answer = await visit.post(f"{PATH}/steer", at="/", do=button, back=PATH)
    assert (answer.status_code, answer.headers["location"].startswith(f"{PATH}?did=")) == (303, True)
    assert (await visit.runtime.get("s")).status == status
    found = [one async for one in visit.runtime.events("s") if one.kind == event]
    assert found[-1].actor == "grace"
    page = (await visit.client.get(PATH)).text
    assert (f'name="do" value="{button}"' in page) is (button == "interrupt")


async def test_an_unknown_button_changes_nothing(visit: Visit) -> None:
    await ready(visit)
    await visit.sign_in("grace")
    assert (await visit.post(f"{PATH}/steer", at="/", do="burn")).status_code == 422
    assert (await visit.runtime.get("s")).status == "ready"


async def test_a_quarantined_session_is_in_the_inbox(visit: Visit) -> None:
    await quarantined(visit)
    await visit.sign_in("grace")
    page = (await visit.client.get("/")).text
    assert "3 workers in a row were lost" in page
    assert "Let it continue" in page


@pytest.mark.parametrize("mode", ["queue", "steer"])
async def test_a_message_is_sent_in_its_mode(mode: str, visit: Visit) -> None:
    await talking(visit)
    await visit.sign_in("grace")
    assert f'name="mode" value="{mode}"' in (await visit.client.get(PATH)).text
    assert (await visit.post(f"{PATH}/send", at="/", text="more", mode=mode)).status_code == 303
    (found,) = [one async for one in visit.runtime.events("s") if one.kind == "inbox.received"]
    assert found.body["mode"] == mode


async def test_who_requested_an_approval_withdraws_it(visit: Visit) -> None:
    with acting(Identity.parse(visit.login("ada"))):
        await visit.runtime.start(console_releaser.bind("release"), id="s", queue="mine", owner="ada")
        await visit.runtime.run("s")
    (row,) = [one async for one in visit.runtime.approvals(session="s")]
    form = f"/approvals/{row.id}/withdraw"
    await visit.sign_in("grace")
    assert form not in (await visit.client.get("/")).text
    await visit.sign_in("ada")
    assert form in (await visit.client.get("/")).text
    assert (await visit.post(form, at="/")).status_code == 422
    assert (await visit.post(form, at="/", because="too early")).status_code == 303
    (row,) = [one async for one in visit.runtime.approvals(session="s")]
    assert (row.decision, row.withdrawn_because) == ("denied", "too early")


async def test_an_exemption_is_granted_shown_and_revoked(visit: Visit) -> None:
    await ready(visit)
    await visit.runtime.set_policy(RULE, because="first")
    await visit.sign_in("grace")
    wide = {"rule": "no-push", "because": "release day", "expires": "2h"}
    assert (await visit.post("/exemptions", at="/", **wide)).status_code == 403  # it would be for the whole store
    assert (await visit.post("/exemptions", at="/", session="s", uses="x", **wide)).status_code == 422
    assert (await visit.post("/exemptions", at="/", session="s", uses="2", **wide)).status_code == 303
    await visit.sign_in("ada")
    page = (await visit.client.get("/policy")).text
    for text in ("no-push", "one session", "release day", "0 of 2", "in 2h", "grace"):
        assert text in page
    (found,) = [one async for one in visit.runtime.exemptions(active=True)]
    path = f"/exemptions/{found.id}/revoke"
    assert path in page
    assert (await visit.post("/exemptions/x-none/revoke", at="/", because="over")).status_code == 404
    assert (await visit.post(path, at="/", because="over")).status_code == 303
    assert [one async for one in visit.runtime.exemptions(active=True)] == []
    assert "None is in force" in (await visit.client.get("/policy")).text


async def test_changes_between_versions_of_the_policy_are_shown(visit: Visit) -> None:
    await visit.runtime.set_policy(RULE, because="first")
    await visit.runtime.set_policy(RULE.replace("others read it", "others build on it"), because="second")
    await visit.sign_in("ada")
    page = (await visit.client.get("/policy?at=2&since=1")).text
    changed = page.split("Changes since version 1")[1].split("<h2>")[0]
    assert (changed.count('class="added"'), changed.count('class="removed"')) == (1, 1)
    assert "others build on it" in changed
    assert (await visit.client.get("/policy?at=2&since=9")).status_code == 404


async def test_the_list_says_what_sessions_wait_for(visit: Visit) -> None:
    await talking(visit)
    await visit.sign_in("grace")
    assert "for a message" in (await visit.client.get("/sessions")).text
    record = await visit.runtime.store.read(sessions.find, "s")
    assert record.status == "waiting"
