"""A runtime over a service: what it returns is what the runtime beside the store returns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

import perdure
from perdure import Conflict, Gate, NotAllowed, NotFound, Runtime, Session, SessionFailed, SessionWaiting, program, tool
from perdure.domain.notification import ChannelKind, Topic
from perdure.domain.principal import Role
from perdure.errors import ConfigError, NotAuthenticated, StoreUnavailable
from perdure.runtime.live_text.delta import LiveTextHeader
from perdure.runtime.live_text.file import LiveTextFile
from perdure.runtime.stream.events import QuestionOpened, StreamEvent, TextDelta
from perdure.store.moves import notification
from tests.client.support.cutting_proxy import CuttingProxy, cutting_proxy
from tests.client.support.service import self_signed, service
from tests.server.support.service import PATIENCE
from tests.server.support.tokens import a_token

pytestmark = pytest.mark.databases("sqlite", "postgres")


@tool(replay="escalate", gate=Gate("remote-merge", requester_may_decide=True))
def remote_merge(pr: int) -> str:
    return f"merged {pr}"


@program
async def remote_review(s: Session, pr: int, due: datetime | None = None) -> str:
    answer = await s.ask("Merge now?", choices=["yes", "no"])
    return f"{answer}: {await s.do(remote_merge, pr=pr)}"


@program
async def remote_fail(s: Session) -> None:
    raise ValueError("no luck")


@program
async def remote_save(s: Session) -> None:
    await s.save(b"a report", kind="report")


@asynccontextmanager
async def both(target: str, role: Role = Role.OWNER) -> AsyncIterator[tuple[Runtime, Runtime]]:
    """The runtime beside the store, and one over a service of it."""
    async with perdure.open(target) as here, service(here) as url:
        async with perdure.connect(url, await a_token(here, role), patience=PATIENCE) as there:
            yield here, there


@asynccontextmanager
async def through_proxy(target: str) -> AsyncIterator[tuple[Runtime, Runtime, CuttingProxy]]:
    async with perdure.open(target) as here, service(here) as url, cutting_proxy(url) as proxy:
        async with perdure.connect(proxy.address, await a_token(here, Role.OWNER), patience=PATIENCE) as there:
            yield here, there, proxy


async def test_session_goes_from_its_start_to_its_result(target: str) -> None:
    async with both(target) as (here, there):
        begun = await there.start(remote_review.bind(pr=7, due=datetime(2026, 1, 2, tzinfo=UTC)), id="r-7")
        assert (
            begun
            == await here.get("r-7")
            == await there.start(remote_review.bind(pr=7, due=datetime(2026, 1, 2, tzinfo=UTC)), id="r-7")
        )
        await here.run("r-7")
        with pytest.raises(SessionWaiting) as waiting:
            await there.complete("r-7")
        (asked,) = waiting.value.waits
        assert (await there.answer(asked.id, "yes")).answer == "yes"
        await here.run("r-7")
        (wanted,) = [one async for one in there.approvals()]
        assert [wanted] == [one async for one in here.approvals()]
        assert (await there.approve(wanted.id, by="ada", because="the tests pass")).decision == "approved"
        result = asyncio.ensure_future(there.result("r-7"))
        await here.run("r-7")
        assert await result == "yes: merged 7"
        assert await there.get("r-7") == await here.get("r-7")


async def test_records_are_those_of_the_runtime_beside_the_store(target: str) -> None:
    async with both(target) as (here, there):
        for number in range(3):
            await here.run((await here.start(remote_review.bind(pr=number), id=f"r-{number}")).id)
        await here.answer((await here.get("r-1")).waits[0].id, "yes")
        await here.run("r-1")
        assert [one async for one in there.sessions()] == [one async for one in here.sessions()]
        assert [one async for one in there.sessions(status="waiting", waiting_for="approval")] == [
            one async for one in here.sessions(status="waiting", waiting_for="approval")
        ]
        effects = [one async for one in here.effects()]
        assert [one async for one in there.effects(tool="remote_merge")] == effects
        assert await there.effect(effects[0].id) == await here.effect(effects[0].id)
        assert [one async for one in there.events("r-1", after=2)] == [one async for one in here.events("r-1", after=2)]
        assert await there.state_at("r-1", 3) == await here.state_at("r-1", 3)
        assert await there.recovery_plan("r-1") == await here.recovery_plan("r-1")
        briefs = [msgspec.to_builtins(await one.brief("r-1")) | {"now": 0} for one in (here, there)]
        assert briefs[0] == briefs[1]


async def test_requests_change_what_they_change_beside_the_store(target: str) -> None:
    async with both(target) as (here, there):
        await here.run((await here.start(remote_review.bind(pr=1), id="r")).id)
        assert (await there.pause("r")).uid == (await here.get("r")).uid
        assert (await there.rename("r", "Another title")).title == "Another title"
        branch = await there.fork("r", id="branch")
        assert (branch.id, branch.forked_from) == ("branch", (await here.get("r")).uid)
        assert (await there.cancel("branch")).status == "cancelled"
        assert (await there.archive("branch")).archived_at is not None
        with pytest.raises(SessionFailed, match="cancelled"):
            await there.result("branch")


async def test_many_sessions_are_started_retried_and_archived(target: str) -> None:
    async with both(target) as (here, there):
        bounds, ids = [remote_fail.bind() for _ in range(10)], [f"f-{number}" for number in range(10)]
        assert await there.start_many(bounds[:4], ids=ids[:4], queue="q") == ids[:4]
        assert await there.start_many(bounds, ids=ids, queue="q") == ids
        with pytest.raises(ConfigError, match="different ids"):
            await there.start_many(bounds, ids=["a"] * 10)
        for id in ids:
            await here.run(id)
        await here.run((await there.start(remote_fail.bind(), id="other")).id)
        assert [one async for one in there.failed()] == [one async for one in here.failed()]
        retried = await there.retry_all(queue="q", by="ada")
        assert (sorted(retried.changed), retried.refused) == (ids, {})
        assert [one.id async for one in there.failed()] == ["other"]
        assert (await there.archive_all(error="ValueError")).changed == ("other",)
        assert (await there.archive_all()).changed == ()


async def test_bulk_change_names_what_was_refused(target: str) -> None:
    async with perdure.open(target) as here, service(here) as url:
        await here.run((await here.start(remote_fail.bind(), id="f")).id)
        async with perdure.connect(url, await a_token(here, Role.AUDITOR)) as there:
            found = await there.retry_all()
        assert (found.changed, list(found.refused)) == ((), ["f"])
        assert (await here.get("f")).status == "failed"


async def test_token_rotates_and_revokes_itself_without_other_rights(target: str) -> None:
    async with perdure.open(target) as here, service(here) as url:
        text = await a_token(here, Role.WORKER)
        id = text.split("_")[1]
        async with perdure.connect(url, text) as there:
            made = await there.rotate_token(text, overlap="1h")
            with pytest.raises(Conflict, match="rotated already"):
                await there.rotate_token(id)
            with pytest.raises(NotAllowed):
                await there.rotate_token(made.view.id)
        assert {one.id: one.rotated_to async for one in here.tokens()}[id] == made.view.id
        async with perdure.connect(url, made.token) as there:
            assert (await there.revoke_token(made.view.id)).state == "revoked"
            with pytest.raises(NotAuthenticated):
                await there.get("x")


async def test_record_queues_and_schedules_are_changed_as_beside_the_store(target: str) -> None:
    async with both(target) as (here, there):
        await here.run((await here.start(remote_review.bind(pr=1), id="r")).id)
        task = await there.add_task("r", "Read the diff", priority=2)
        assert (
            [task] == [one async for one in there.tasks(session="r")] == [one async for one in here.tasks(session="r")]
        )
        fact = await there.set_fact("branch", "main", session="r")
        assert [fact] == [one async for one in here.facts(scope=fact.scope)]
        assert (await there.verify_fact("branch", session="r")).verified_at >= fact.verified_at
        assert (await there.forget_fact("branch", session="r")).value == "main"
        order = await there.add_order("Be brief.", name="brief")
        assert [order] == [one async for one in there.orders()]
        assert (await there.remove_order("brief")).value == "Be brief."
        queue = await there.set_queue("nightly", concurrency=3)
        assert (queue.concurrency, (await there.set_queue("nightly", concurrency=None)).concurrency) == (3, None)
        schedule = await there.add_schedule("hourly", remote_review.bind(pr=3), every="1h")
        assert [schedule] == [one async for one in there.schedules()] == [one async for one in here.schedules()]
        assert (await there.trigger_schedule("hourly")).program == "remote_review"
        assert (await there.remove_schedule("hourly")).name == "hourly"
        made = await there.add_principal("grace", roles=["approver"])
        assert made in [one async for one in here.principals()]
        token = await there.create_token("grace", scopes=["queue:nightly"])
        assert (await there.revoke_token(token.view.id)).revoked_at is not None
        assert (await there.remove_principal("grace")).name == "grace"
        assert (await there.doctor()).findings == (await here.doctor()).findings


async def test_policy_and_audits_are_those_beside_the_store(target: str) -> None:
    async with both(target) as (here, there):
        await here.run((await here.start(remote_review.bind(pr=1), id="w")).id)
        rows = [one.to_dict() async for one in there.audit("failed-runs", since="7d")]
        assert rows == [one.to_dict() async for one in here.audit("failed-runs", since="7d")]
        asked = [one.to_dict() async for one in there.audit("waiting")]
        assert asked == [one.to_dict() async for one in here.audit("waiting")]
        assert len(asked) == 1
        assert [one async for one in there.audit("waiting", limit=0)] == []
        made = await there.set_policy('default = "ask"\n', because="ask about everything")
        assert [made] == await there.policy_versions() == await here.policy_versions()
        assert (await there.get_policy()).source == (await here.get_policy()).source
        source = 'default = "deny"\n'
        assert await there.check_policy(source, against="7d") == await here.check_policy(source, against="7d")
        call: dict[str, Any] = {"tool": "run_command", "arguments": {"command": "ls"}, "session": "w"}
        assert await there.explain_policy(**call) == await here.explain_policy(**call)
        assert (await there.freeze_policy(because="an incident")).frozen_at is not None
        assert (await there.thaw_policy(because="it is over")).frozen_at is None


async def test_auditor_reads_the_feed_the_head_and_a_report(target: str, folder: Path) -> None:
    async with both(target, Role.AUDITOR) as (here, there):
        for number in range(2):
            await here.run((await here.start(remote_review.bind(pr=number), id=f"r-{number}")).id)
        events = [one async for one in there.audit_feed()]
        assert events == [one async for one in here.audit_feed()]
        assert [one async for one in there.audit_feed(after=events[-2].position)] == events[-1:]
        taken, kept = await here.audit_head(), await there.audit_head(folder / "kept.head")
        assert list(kept.ends()) == list(taken.ends())
        found = await here.audit_verify(folder / "kept.head")
        assert (found.findings, found.sessions) == ([], 2)
        assert "audit.head" in [one.kind async for one in here.audit_feed() if one.session is None]
        assert (await there.audit_report(since="1d")).count("<svg") == (await here.audit_report(since="1d")).count(
            "<svg"
        )
        assert (await there.verify("r-1")) == (await here.verify("r-1"))
        with pytest.raises(ConfigError, match="cannot be written"):
            await there.audit_head(folder / "missing" / "kept.head")


async def test_notifications_are_listed_tested_and_removed(target: str) -> None:
    async with both(target, Role.OPERATOR) as (here, there):
        await here.store.write(notification.put_channel("mail", ChannelKind.EMAIL, [Topic.APPROVAL], by="ada"))
        made = await there.test_notification("mail")
        assert [made] == [one async for one in there.notifications(channel="mail")]
        assert [one async for one in there.notification_channels()] == [
            one async for one in here.notification_channels()
        ]
        assert await there.retry_notifications() == 0
        with pytest.raises(NotFound):
            await there.retry_notifications("missing")
        assert await there.remove_notification_channel("mail")
        assert not await there.remove_notification_channel("mail")


async def test_stream_is_that_of_the_runtime_beside_the_store(target: str) -> None:
    async with through_proxy(target) as (here, there, proxy):
        await here.run((await here.start(remote_review.bind(pr=7), id="r")).id)
        asked_there = asyncio.Event()

        async def watch() -> list[StreamEvent]:
            seen: list[StreamEvent] = []
            async for one in there.stream("r"):
                seen = [*seen, one]
                if isinstance(one, QuestionOpened):
                    asked_there.set()
            return seen

        watching = asyncio.ensure_future(watch())
        await asyncio.wait_for(asked_there.wait(), PATIENCE)
        assert proxy.cut_streams() > 0
        await here.answer((await here.get("r")).waits[0].id, "yes")
        await here.run("r")
        (asked,) = [one async for one in here.approvals()]
        await here.approve(asked.id, by="ada")
        await here.run("r")
        assert await asyncio.wait_for(watching, PATIENCE) == [one async for one in here.stream("r")]


async def test_stream_has_the_live_text_of_the_model(target: str) -> None:
    async with both(target) as (here, there):
        view = await here.start(remote_review.bind(pr=7), id="r")
        await here.run("r")
        cursor = (await here.get("r")).cursor
        found = there.stream("r", after=cursor)
        folder = await asyncio.to_thread(lambda: here.live_text.folder)
        assert folder is not None
        folder.mkdir(exist_ok=True)
        file = await asyncio.to_thread(LiveTextFile, folder / view.uid, LiveTextHeader("call", cursor))
        await asyncio.to_thread(file.append, "Hello")
        try:
            first = await asyncio.wait_for(anext(found), PATIENCE)
        finally:
            file.close(recorded=True)
            await found.aclose()
        assert isinstance(first, TextDelta)
        assert first.text == "Hello"


async def test_sessions_are_searched_and_archived_ones_left_out(target: str) -> None:
    async with both(target) as (here, there):
        for id in ("alpha", "beta", "Alphabet"):
            await here.start(remote_fail.bind(), id=id, title="A title")
        await here.cancel("alpha")
        await here.archive("alpha")
        for rt in (here, there):
            assert {one.id async for one in rt.sessions(search="ALPHA")} == {"alpha", "Alphabet"}
            assert {one.id async for one in rt.sessions(search="ALPHA", archived="without")} == {"Alphabet"}
            assert {one.id async for one in rt.sessions(archived="only")} == {"alpha"}


async def test_artifact_is_checked_against_its_digest(target: str, folder: Path) -> None:
    async with perdure.open(target, artifacts=folder / "kept") as here, service(here) as url:
        await here.complete((await here.start(remote_save.bind(), id="s")).id)
        async with perdure.connect(url, await a_token(here, Role.OWNER)) as there:
            (kept,) = [one async for one in there.artifacts(session="s")]
            assert await there.artifact(kept.digest) == b"a report"


async def test_errors_are_those_of_the_library(target: str) -> None:
    async with both(target) as (here, there):
        with pytest.raises(NotFound):
            await there.get("missing")
        await there.start(remote_review.bind(pr=1), id="r")
        with pytest.raises(Conflict):
            await there.start(remote_review.bind(pr=2), id="r")
        with pytest.raises(ConfigError):
            await there.start(remote_review.bind(pr=1), queue="")
        await here.run((await here.start(remote_fail.bind(), id="f")).id)
        with pytest.raises(SessionFailed, match="no luck"):
            await there.result("f")
        with pytest.raises(ConfigError, match="no store"):
            there.store.read_now(lambda _: None)


async def test_token_decides_what_may_be_done(target: str) -> None:
    async with both(target, Role.AUDITOR) as (here, there):
        await here.start(remote_review.bind(pr=1), id="r")
        assert (await there.get("r")).id == "r"
        with pytest.raises(NotAllowed):
            await there.cancel("r")
    async with perdure.open(target) as here, service(here) as url, perdure.connect(url, "prd_wrong") as there:
        with pytest.raises(NotAuthenticated, match="it is wrong, expired or revoked") as raised:
            await there.get("r")
        assert "PERDURE_TOKEN" in raised.value.hint
        encrypted = url.replace("http://", "https://")
        async with perdure.connect(encrypted, "prd_wrong", patience=0.0) as there:
            with pytest.raises(StoreUnavailable) as unreachable:
                await there.get("r")
        assert unreachable.value.hint == "The service has no TLS there: use http://."


async def test_unix_socket_needs_no_token(target: str, folder: Path) -> None:
    async with perdure.open(target) as here, service(here, str(folder / "sock")) as url:
        await here.start(remote_review.bind(pr=1), id="r")
        async with perdure.open(url) as there:
            assert (await there.get("r")).id == "r"


async def test_lost_answer_is_asked_for_again_and_carried_out_once(target: str) -> None:
    async with through_proxy(target) as (here, there, proxy):
        proxy.lose_answers = 1
        begun = await there.start(remote_review.bind(pr=7))  # without an id, a second start is another session
        assert [one.id async for one in here.sessions()] == [begun.id]
        proxy.lose_answers = 2
        renamed = await there.rename(begun.id, "Another title")
        proxy.lose_answers = 1
        assert (await there.fork(begun.id)).forked_from == begun.uid
        assert len([one async for one in here.sessions()]) == 2
        assert renamed.title == "Another title"
        assert len(set(proxy.keys)) == 3  # one for each call
        assert len(proxy.keys) == 7


async def test_each_call_has_a_key_of_its_own(target: str) -> None:
    async with through_proxy(target) as (_here, there, proxy):
        first, second = [await there.start(remote_review.bind(pr=7)) for _ in range(2)]
        assert first.uid != second.uid
        assert len(set(proxy.keys)) == 2


async def test_service_that_is_gone_is_named_after_the_patience(target: str) -> None:
    async with perdure.open(target) as here, service(here) as url:
        pass
    async with perdure.connect(url, "prd_any", patience=0.2) as there:
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            await there.get("r")


async def test_followed_events_have_no_gap_over_cut_connections(target: str) -> None:
    async with through_proxy(target) as (here, there, proxy):
        await here.run((await here.start(remote_review.bind(pr=7), id="r")).id)
        seen: list[int] = []

        async def follow() -> None:
            async for event in there.events("r", follow=True):
                seen.append(event.number)
                if event.kind == "session.finished":
                    return

        following = asyncio.ensure_future(follow())
        for number in range(20):
            await here.rename("r", f"Title {number}")
            if number % 4 == 1:
                proxy.cut_streams()
        await here.answer((await here.get("r")).waits[0].id, "yes")
        await here.run("r")
        (wanted,) = [one async for one in here.approvals()]
        await here.approve(wanted.id, by="ada")
        await here.run("r")
        await asyncio.wait_for(following, PATIENCE)
        assert seen == list(range(1, (await here.get("r")).cursor + 1))


async def test_tls_is_verified_against_the_given_certificates(target: str, folder: Path) -> None:
    certificate, key = self_signed(folder)
    async with perdure.open(target) as here, service(here, tls=(certificate, key)) as url:
        token = await a_token(here, Role.OWNER)
        await here.start(remote_review.bind(pr=1), id="r")
        async with perdure.connect(url, token, ca=certificate) as there:
            assert (await there.get("r")).id == "r"
        async with perdure.connect(url, token, patience=0.2) as there:
            with pytest.raises(StoreUnavailable, match="cannot be reached"):
                await there.get("r")
