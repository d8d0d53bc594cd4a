"""A rolling deploy: a session is handed back by code that its records do not fit, and waits for other code."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import perdure
from perdure import ProgramChanged, Runtime, Session, SessionWaiting, program, tool
from perdure.domain.wait import Wait, WaitKind
from perdure.runtime.deploy import code_fit
from perdure.runtime.run import execute
from perdure.store.move import Move
from perdure.store.moves import event, queue, wait
from perdure.store.store import open_store
from tests.runtime.support.killed_calls import run_and_kill
from tests.seed import kill_points

pytestmark = pytest.mark.databases("sqlite", "postgres")
DONE: list[int] = []
FITS = {"v1": 1, "v2": 2, "v3": 3, "v4": 1}  # the argument of the first call, by version


@tool(replay="idempotent")
def deploy_act(n: int) -> int:
    DONE.append(n)
    return n


@program
async def deployed(s: Session) -> int:
    version = s._run.runtime.worker.code_version
    first = await s.do(deploy_act, n=FITS[version])
    await s.ask("continue?")
    return first + await s.do(deploy_act, n=10)


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    DONE.clear()


@contextmanager
def code(target: str, version: str) -> Iterator[Runtime]:
    """A process with a version of the code."""
    with open_store(target) as store:
        runtime = Runtime(store, by="ada")
        runtime.worker_about = {"code_version": version}
        yield runtime
        runtime.close()


async def begin(target: str, **options: Any) -> None:
    """A session that began under v1 and is ready again."""
    with code(target, "v1") as rt:
        await rt.start(deployed.bind(), id="s", **options)
        view = await rt.run("s")
        assert view.code_version == "v1"
        await rt.answer(view.waits[0].id, 1)


async def program_wait(rt: Runtime) -> Wait:
    view = await rt.get("s")
    [asked] = view.waits
    assert (view.status, asked.kind, asked.ref) == ("waiting", "program", "deployed")
    return asked


async def test_session_is_handed_back_once_by_each_version(target: str) -> None:
    await begin(target)
    for version, tried in (("v2", {"v2"}), ("v3", {"v2", "v3"})):
        with code(target, version) as rt:
            with pytest.raises(ProgramChanged, match="deploy_act"):
                await rt.run("s")
            assert (await program_wait(rt)).versions_tried == tried
            cursor = (await rt.get("s")).cursor
            with pytest.raises(SessionWaiting, match=r"do not fit .*v2.* It began under v1"):
                await rt.complete("s")
            assert (await rt.get("s")).cursor == cursor, "a version that was tried does not try again"
    with code(target, "v1") as rt:
        assert (await rt.complete("s")).result == 11
    assert DONE == [1, 10]


async def test_later_version_that_fits_completes_the_session(target: str) -> None:
    await begin(target)
    with code(target, "v2") as rt, pytest.raises(ProgramChanged):
        await rt.run("s")
    with code(target, "v4") as rt:
        view = await rt.complete("s")
        assert (view.result, view.code_version) == (11, "v1")
    assert DONE == [1, 10]


async def test_changed_call_under_the_first_version_leaves_the_session_ready(target: str) -> None:
    await begin(target)
    with code(target, "v1") as rt, pytest.MonkeyPatch.context() as patch:
        patch.setitem(FITS, "v1", 5)
        with pytest.raises(ProgramChanged):
            await rt.run("s")
        assert (await rt.get("s")).status == "ready"


async def test_worker_hands_back_a_session_that_its_own_version_cannot_run(target: str) -> None:
    await begin(target)
    with code(target, "v1") as rt, pytest.MonkeyPatch.context() as patch:
        patch.setitem(FITS, "v1", 5)
        async with perdure.Worker(rt) as worker:
            await worker.idle()
        assert (await program_wait(rt)).versions_tried == {"v1"}
    with code(target, "v1") as rt:
        with pytest.raises(SessionWaiting):
            await rt.complete("s")
        await rt.resume("s")
        assert (await rt.complete("s")).result == 11
    assert DONE == [1, 10]


async def test_session_that_began_without_a_version_is_handed_back(target: str) -> None:
    await begin(target)
    with code(target, "v1") as rt:
        rt.store.write_now(forget_version((await rt.get("s")).uid))
    with code(target, "v2") as rt:
        with pytest.raises(ProgramChanged):
            await rt.run("s")
        assert (await program_wait(rt)).versions_tried == {"v2"}
        assert (await rt.get("s")).code_version is None


def forget_version(uid: str) -> Any:
    sql = "update session set code_version = null where uid = ?"
    return Move("test", "plain", lambda tx: tx.execute(sql, [uid]))


async def test_recorded_step_of_another_type_is_handed_back(target: str) -> None:
    shape: dict[str, type] = {"of": int}

    @program
    async def steps(s: Session) -> str:
        def count() -> Any:
            return 7

        count.__annotations__["return"] = shape["of"]
        got = await s.step("count", count)
        await s.ask("continue?")
        return str(got)

    with code(target, "v1") as rt:
        await rt.start(steps.bind(), id="s")
        await rt.answer((await rt.run("s")).waits[0].id, 1)
    shape["of"] = str
    with code(target, "v2") as rt:
        with pytest.raises(ProgramChanged, match="count"):
            await rt.run("s")
        assert (await rt.get("s")).waits[0].versions_tried == {"v2"}
    shape["of"] = int
    with code(target, "v1") as rt:
        assert (await rt.complete("s")).result == "7"


async def test_worker_hands_back_and_a_worker_of_the_first_version_completes(target: str) -> None:
    await begin(target)
    with code(target, "v2") as new, code(target, "v1") as old:
        async with perdure.Worker(new) as worker, asyncio.timeout(60):
            await worker.idle()
            assert (await program_wait(new)).versions_tried == {"v2"}
            assert not worker.failed
            async with perdure.Worker(old):
                assert await new.result("s") == 11
            lines = [line async for line in new.events("s") if line.kind == "lease.acquired"]
            uid = (await new.get("s")).uid
            handed_back = new.store.read_now(wait.of_kind, uid, WaitKind.PROGRAM)
    assert len(handed_back) == 1, "it was not taken by the newer version again"
    assert len(lines) >= 3
    assert DONE == [1, 10]


async def test_running_worker_is_told_of_a_session_that_was_handed_back(target: str) -> None:
    await begin(target, queue="paused")
    with code(target, "v1") as old, code(target, "v2") as new:
        new.store.write_now(queue.set_limits("paused", "ada", paused=True))  # no worker claims it
        async with perdure.Worker(old) as worker, asyncio.timeout(30):  # it looks by itself once a minute
            await worker.idle()
            with pytest.raises(ProgramChanged):
                await new.run("s")
            while (await new.get("s")).status != "ready":
                await asyncio.sleep(0.01)


async def test_worker_does_not_wake_sessions_of_other_queues(target: str) -> None:
    await begin(target)
    with code(target, "v1") as old, code(target, "v2") as new:
        with pytest.raises(ProgramChanged):
            await new.run("s")
        async with perdure.Worker(old, queues=["other"]) as worker:
            await worker.idle()
        assert (await program_wait(new)).resolved_at is None


async def test_pinned_session_runs_only_under_its_version(target: str) -> None:
    await begin(target, pin=True)
    with code(target, "v4") as rt:
        async with perdure.Worker(rt) as worker:
            await worker.idle()
            assert (await rt.get("s")).status == "ready", "a worker of another version does not claim it"
        with pytest.raises(SessionWaiting, match="waits for code of version v1, to which it is pinned"):
            await rt.complete("s")
        view = await rt.unpin("s")
        assert (view.status, view.pinned_at) == ("ready", None)
        assert (await rt.unpin("s")).cursor == view.cursor
        assert (await rt.complete("s")).result == 11
    assert DONE == [1, 10]


async def test_pinned_session_that_was_handed_back_continues_under_its_version(target: str) -> None:
    await begin(target, pin=True)
    with code(target, "v4") as rt:
        assert (await rt.run("s")).waits[0].detail["pinned"] == "v1"
    with code(target, "v1") as rt:
        async with perdure.Worker(rt), asyncio.timeout(60):
            assert await rt.result("s") == 11


async def test_cancelled_session_ends_instead_of_being_handed_back(target: str) -> None:
    await begin(target)
    with code(target, "v2") as rt:
        cancelling = cancel_before_hand_back(rt)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(code_fit, "hand_back", cancelling)
            patch.setattr(execute, "hand_back", cancelling)
            with pytest.raises(ProgramChanged):
                await rt.run("s")
        assert (await rt.get("s")).status == "ready"
        assert (await rt.run("s")).status == "cancelled"


def cancel_before_hand_back(rt: Runtime) -> Any:
    """Cancel the session after its program has ended and before it is handed back."""
    hand_back = code_fit.hand_back

    async def run(run: Any, error: ProgramChanged) -> bool:
        await rt.cancel("s")
        return await hand_back(run, error)

    return run


async def test_parent_waits_for_a_child_that_was_handed_back(target: str) -> None:
    @program
    async def parent(s: Session) -> int:
        return await s.child(deployed.bind(), id="s")

    with code(target, "v1") as rt:
        await rt.start(parent.bind(), id="p")
        await rt.run("p")
        await rt.answer((await rt.get("s")).waits[0].id, 1)
    with code(target, "v2") as rt:
        view = await rt.run("p")
        assert [one.kind for one in view.waits] == ["child"]
        assert (await program_wait(rt)).versions_tried == {"v2"}
    with code(target, "v1") as rt:
        assert (await rt.complete("p")).result == 11
    assert DONE == [1, 10]


async def test_branch_begins_under_the_version_of_its_origin(target: str) -> None:
    await begin(target)
    with code(target, "v2") as rt:
        branch = await rt.fork("s", id="b")
        assert branch.code_version == "v1"
        with pytest.raises(ProgramChanged):
            await rt.run("b")
        assert (await rt.get("b")).waits[0].versions_tried == {"v2"}


@pytest.mark.slow
async def test_kill_during_hand_back_leaves_the_session_to_its_version(target: str) -> None:
    calls = """
    from tests.runtime.deploy import test_code_fit
    rt.worker_about = {"code_version": "v2"}
    try:
        await rt.run("s")
    except perdure.ProgramChanged:
        pass
    """
    await begin(target)
    for kill_at in kill_points(60, every=3):
        ended = await run_and_kill(target, calls, kill_at)
        if ended == 0:
            break
        with code(target, "v2") as rt:
            view = await rt.get("s")
            assert view.status in ("ready", "running", "waiting")
            if view.status == "waiting":
                assert (await program_wait(rt)).versions_tried == {"v2"}
                break
    with code(target, "v1") as rt:
        assert (await rt.complete("s")).result == 11
        assert rt.store.read_now(event.verify, (await rt.get("s")).uid).cursor > 0
    assert DONE == [1, 10]
