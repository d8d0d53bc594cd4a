"""One change of many sessions: what the preview shows, and what the form then does."""

from __future__ import annotations

import html
import re

import httpx
import pytest
from playwright.sync_api import Page, expect

from perdure.ids import digest
from tests.console.support.browser_login import signed_in
from tests.console.support.scene import Scene, console_broken, console_payment, console_releaser, console_survey
from tests.console.support.visit import Visit

FIELD = re.compile(r'<input type="hidden" name="(key|digest|sessions)" value="([^"]*)">')


def fields_of(page: httpx.Response, change: str) -> dict[str, str]:
    """What the form of a preview sends."""
    assert page.status_code == 200, page.text
    return {name: html.unescape(value) for name, value in FIELD.findall(page.text)} | {"do": change}


def parts(page: str) -> tuple[str, str]:
    """What a preview would change, and what it leaves alone."""
    taken, _, left = page.partition('<section id="left">')
    return taken, left


async def started(visit: Visit, *ids: str, queue: str = "mine") -> dict[str, str]:
    return {id: (await visit.runtime.start(console_payment.bind(cents=3), id=id, queue=queue)).uid for id in ids}


async def statuses(visit: Visit) -> dict[str, str]:
    return {one.id: one.status async for one in visit.runtime.sessions()}


@pytest.mark.databases("sqlite", "postgres")
async def test_a_preview_changes_nothing_and_its_form_changes_what_it_showed(visit: Visit) -> None:
    uids = await started(visit, "pay-1", "pay-2", "pay-3")
    await visit.runtime.cancel("pay-3")
    await visit.sign_in("grace")
    listed = (await visit.client.get("/sessions")).text
    assert all(f'name="pick" value="{uid}" form="bulk"' in listed for uid in uids.values())
    page = await visit.client.get("/bulk", params={"do": "cancel", "pick": [uids["pay-1"], uids["pay-3"]]})
    taken, left = parts(page.text)
    assert "Cancel 1 session?" in taken
    assert "pay-1" in taken
    assert "pay-3" not in taken
    assert "pay-2" not in page.text
    assert "pay-3" in left
    assert "It has ended: it is cancelled." in left
    assert (await statuses(visit))["pay-1"] == "ready"
    form = fields_of(page, "cancel")
    for _ in range(2):  # the same form sent again is answered again
        answer = await visit.post("/bulk", at="/sessions", **form)
        assert "Cancel: 1 session done" in answer.text
        assert "Left alone" not in answer.text
    assert await statuses(visit) == {"pay-1": "cancelled", "pay-2": "ready", "pay-3": "cancelled"}
    asked = [one async for one in visit.runtime.events("pay-1") if one.kind == "cancel.requested"]
    assert [one.actor for one in asked] == ["grace"]


@pytest.mark.databases("sqlite", "postgres")
async def test_a_session_that_changed_since_the_preview_is_named_and_left_alone(visit: Visit) -> None:
    uids = await started(visit, "pay-1", "pay-2")
    await visit.sign_in("grace")
    page = await visit.client.get("/bulk", params={"do": "pause", "pick": list(uids.values())})
    await visit.runtime.rename("pay-1", "This one is needed")
    answer = await visit.post("/bulk", at="/sessions", **fields_of(page, "pause"))
    taken, left = parts(answer.text)
    assert "Pause: 1 session done" in taken
    assert "pay-2" in taken
    assert "pay-1" in left
    assert "It has changed since it was read" in left
    requests = {one.id: one.pause_requested_at async for one in visit.runtime.sessions()}
    assert requests["pay-1"] is None
    assert requests["pay-2"] is not None


@pytest.mark.databases("sqlite", "postgres")
async def test_a_forged_id_reaches_no_session_that_the_caller_may_not_see(visit: Visit) -> None:
    uids = await started(visit, "pay-1") | await started(visit, "secret-1", queue="other")
    await visit.sign_in("grace")
    page = await visit.client.get("/bulk", params={"do": "cancel", "pick": list(uids.values())})
    assert "secret-1" not in page.text
    assert uids["secret-1"] not in page.text
    lines = ",".join([f"{uid} {(await visit.runtime.get(uid)).cursor}" for uid in uids.values()])
    forged = {"do": "cancel", "key": "k-1", "sessions": lines}
    assert (await visit.post("/bulk", at="/sessions", digest="0" * 64, **forged)).status_code == 409
    answer = await visit.post("/bulk", at="/sessions", digest=digest(f"bulk cancel k-1\n{lines}"), **forged)
    assert "Cancel: 1 session done" in answer.text
    assert "there is no such session" in answer.text
    assert "secret-1" not in answer.text
    assert await statuses(visit) == {"pay-1": "cancelled", "secret-1": "ready"}


async def test_all_that_fit_the_filters_are_chosen_beyond_one_page(visit: Visit) -> None:
    await started(visit, *(f"pay-{number}" for number in range(53)))
    await started(visit, "other", queue="other")
    await visit.sign_in("ada")
    page = await visit.client.get("/bulk", params={"do": "pause", "all": "yes", "queue": "mine"})
    found = await visit.client.get("/bulk", params={"do": "pause", "all": "yes", "q": "pay", "queue": "mine"})
    for one in (page, found):
        assert "Pause 53 sessions?" in one.text
        assert "other</a>" not in one.text
    answer = await visit.post("/bulk", at="/sessions", **fields_of(page, "pause"))
    assert "Pause: 53 sessions done" in answer.text
    page = await visit.client.get("/bulk", params={"do": "resume", "all": "yes", "status": "ready"})
    assert "Resume 53 sessions?" in page.text
    answer = await visit.post("/bulk", at="/sessions", **fields_of(page, "resume"))
    assert "Resume: 53 sessions done" in answer.text
    assert not [one.id async for one in visit.runtime.sessions() if one.pause_requested_at is not None]


async def test_failed_sessions_are_retried_and_ended_ones_archived(visit: Visit) -> None:
    await visit.runtime.start(console_broken.bind(), id="broken", queue="mine")
    await visit.runtime.run("broken")
    await visit.runtime.start(console_releaser.bind("release"), id="release", queue="mine")
    await visit.sign_in("grace")
    taken, left = parts((await visit.client.get("/bulk?do=archive&all=yes")).text)
    assert "broken" in taken
    assert "release" in left
    assert "does not only wait for a message" in left
    page = await visit.client.get("/bulk?do=retry&all=yes")
    assert "Retry 1 session?" in page.text
    assert "only a failed session is retried" in page.text
    await visit.post("/bulk", at="/sessions", **fields_of(page, "retry"))
    assert (await statuses(visit))["broken"] == "ready"


async def test_wrong_forms_are_refused_and_change_nothing(visit: Visit) -> None:
    uid = (await started(visit, "pay-1"))["pay-1"]
    await visit.sign_in("grace")
    assert (await visit.client.get(f"/bulk?do=remove&pick={uid}")).status_code == 422
    assert (await visit.post("/bulk", at="/sessions", do="cancel")).status_code == 409
    for lines in ("x", f"{uid} -1", f"{uid} 1 1", f"{uid[:6]} 1"):
        given = {"do": "cancel", "key": "k", "sessions": lines, "digest": digest(f"bulk cancel k\n{lines}")}
        answer = await visit.post("/bulk", at="/sessions", **given)
        assert "session done" not in answer.text.replace("0 sessions done", "")
    assert await statuses(visit) == {"pay-1": "ready"}


def test_a_choice_in_a_browser_survives_live_changes_of_the_list(stage: Scene, page: Page) -> None:
    for id in ("survey-1", "survey-2"):
        stage.begin(console_survey.bind(), id)
        stage.until(id, "input")
    signed_in(page, stage, "grace", "/sessions")
    expect(page.locator("#live-state")).to_have_text("Live.")
    page.get_by_label("Choose survey-1").check()
    page.locator("h1").click()  # what has the focus is not replaced
    stage.run(stage.runtime.rename("survey-1", "Another title"))
    expect(page.get_by_label("Choose Another title")).to_be_checked()
    page.get_by_role("button", name="Cancel …").click()
    expect(page.locator("#taken tbody tr")).to_have_count(1)
    page.get_by_role("button", name="Cancel 1 session").click()
    expect(page.locator("#changed li")).to_have_text("survey-1")
    assert [stage.run(stage.runtime.get(id)).status for id in ("survey-1", "survey-2")] == ["cancelled", "waiting"]
