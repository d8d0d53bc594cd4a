"""Actions of the console over HTTP: what is checked before anything is done."""

from __future__ import annotations

import pytest

from tests.console.support.scene import console_deploy, console_payment, console_releaser, console_wire
from tests.console.support.visit import Visit

pytestmark = pytest.mark.databases("sqlite", "postgres")


async def test_a_vote_names_the_call_that_was_seen(visit: Visit) -> None:
    await visit.runtime.start(console_releaser.bind("release"), id="release", queue="mine", owner="ada")
    await visit.runtime.run("release")
    (row,) = [one async for one in visit.runtime.approvals(session="release")]
    await visit.sign_in("grace")
    path = f"/approvals/{row.id}/vote"
    for digest in ("", "0" * 64):
        answer = await visit.post(path, at="/", decision="approved", digest=digest)
        assert answer.status_code == 409
    assert [one.decision async for one in visit.runtime.approvals(session="release")] == [None]
    answer = await visit.post(path, at="/", decision="approved", digest=row.intent_digest)
    assert answer.status_code == 303
    assert [one.decision async for one in visit.runtime.approvals(session="release")] == ["approved"]
    events = [one async for one in visit.runtime.events("release")]
    (voted,) = [one.body for one in events if one.kind == "approval.voted"]
    assert voted["identity"] == visit.login("grace")


async def test_a_shown_call_is_that_of_the_ledger(visit: Visit) -> None:
    await visit.runtime.start(console_releaser.bind("release"), id="release", queue="mine", owner="ada")
    await visit.runtime.run("release")
    await visit.sign_in("grace")
    page = (await visit.client.get("/")).text
    for text in (console_deploy.name, "service:shop", "deploys"):
        assert text in page


async def test_a_doubt_is_shown_with_the_answers_of_its_probe(visit: Visit) -> None:
    await visit.runtime.start(console_wire.bind(cents=3), id="wire", queue="mine")
    await visit.runtime.run("wire")
    await visit.sign_in("grace")
    page = (await visit.client.get("/")).text
    assert "the probe about attempt 1" in page
    assert page.count("unknown: The bank shows no") == 1
    assert "\x1b" not in page
    page = (await visit.client.get("/sessions/wire/recovery")).text
    assert "A person is asked" in page
    assert "#need-" in page.split("Say what happened")[0]
    assert "Let it continue" not in page


async def test_a_paused_session_continues_from_its_recovery_plan(visit: Visit) -> None:
    await visit.runtime.start(console_payment.bind(cents=3), id="pay", queue="mine")
    await visit.runtime.pause("pay")
    await visit.sign_in("grace")
    assert "Let it continue" in (await visit.client.get("/sessions/pay/recovery")).text


@pytest.mark.parametrize(
    ("fields", "said"),
    [({"verdict": "perhaps", "because": "x"}, "Say what happened"), ({"verdict": "absent"}, "needs a reason"),
     ({"verdict": "happened", "because": "kept", "result": "{"}, "kept")],
)  # fmt: skip
async def test_a_wrong_form_settles_nothing(visit: Visit, fields: dict[str, str], said: str) -> None:
    await visit.runtime.start(console_payment.bind(cents=3), id="pay", queue="mine")
    await visit.runtime.run("pay")
    (effect,) = [one async for one in visit.runtime.effects(session="pay")]
    await visit.sign_in("grace")
    answer = await visit.post(f"/effects/{effect.id}/settle", at="/", **fields)
    assert (answer.status_code, said in answer.text) == (422, True)
    assert (await visit.runtime.get("pay")).waits[0].kind == "doubt"


async def test_the_same_message_sent_twice_is_one(visit: Visit) -> None:
    await visit.runtime.start(console_releaser.bind("release"), id="release", queue="mine")
    await visit.sign_in("grace")
    for _ in range(2):
        answer = await visit.post(
            "/sessions/release/send", at="/", text="hello", message_id="m-1", back="/sessions?q=a"
        )
        assert answer.headers["location"] == "/sessions?q=a&did=sent"
    found = [one async for one in visit.runtime.events("release") if one.kind == "inbox.received"]
    assert len(found) == 1


@pytest.mark.parametrize("content", [b"\xff=\xfe", b"&".join(b"a=1" for _ in range(500)), b"a=" + b"x" * (1 << 21)])
async def test_a_form_that_is_no_form_is_refused(visit: Visit, content: bytes) -> None:
    await visit.sign_in("grace")
    headers = {"content-type": "application/x-www-form-urlencoded"}
    answer = await visit.client.post("/sessions/x/steer", content=content, headers=headers)
    assert answer.status_code in (400, 413)
    answer = await visit.client.post("/sessions/x/steer", content=b"{}", headers={"content-type": "application/json"})
    assert answer.status_code == 415


@pytest.mark.parametrize("kind", ["fork", "rewind"])
async def test_a_branch_is_made_by_the_person_and_run_by_workers(visit: Visit, kind: str) -> None:
    await visit.runtime.start(console_releaser.bind("release"), id="release", queue="mine", owner="ada")
    waiting = await visit.runtime.run("release")
    await visit.sign_in("grace")
    form = {"form_token": await visit.form_token("/"), "at": str(waiting.cursor), "do": kind}
    answer = await visit.client.post("/sessions/release/fork", data=form)
    assert answer.status_code == 303
    (branch,) = [one async for one in visit.runtime.sessions() if one.id != "release"]
    events = [one async for one in visit.runtime.events(branch.id)]
    assert {one.actor for one in events} == {"grace"}
    assert branch.status == "ready"
