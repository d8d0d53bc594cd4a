"""Retry of a failed session in place: what ended it runs again, and nothing else is repeated."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure import Gate, IllegalMove, NotDone, Session, SessionFailed, StepFailed, program, tool
from perdure.control.verification import verify_sessions
from perdure.errors import ApprovalDenied
from perdure.store.moves import event
from tests.runtime.support.killed_calls import run_and_kill
from tests.runtime.support.scripted_world import Outside, World

pytestmark = pytest.mark.databases("sqlite", "postgres")


class Flaky:
    """A function that fails until it is repaired, and counts its calls."""

    def __init__(self) -> None:
        self.broken = True
        self.calls = 0

    def __call__(self) -> int:
        self.calls += 1
        if self.broken:
            raise ValueError("broken")
        return self.calls


async def repeat(world: World, id: str = "s") -> Any:
    """Retry a session in another process, and run it."""
    world.crash()
    await world.rt.retry(id, by="ada")
    return await world.again(id)


async def test_a_failed_step_runs_again_and_settled_effects_do_not(world: World) -> None:
    outside, flaky = Outside(), Flaky()
    act = outside.tool()

    @program
    async def steps(s: Session) -> list[int]:
        first = await s.step("first", lambda: 1)
        await s.do(act, n=1)
        second = await s.step("second", flaky)
        await s.do(act, n=2)
        return [first, second]

    assert (await world.run(steps.bind())).status == "failed"
    still = await repeat(world)
    assert (still.status, still.retries, flaky.calls) == ("failed", 1, 2)
    flaky.broken = False
    done = await repeat(world)
    assert (done.status, done.result, done.retries) == ("done", [1, 3], 2)
    assert len(outside.calls) == len(set(outside.keys)) == 2
    assert (await world.kinds()).count("session.retried") == 2
    world.verify()
    checked = world.rt.store.read_now(verify_sessions, "s", lambda _: None)
    assert checked.damaged == []


async def test_a_caught_error_is_replayed_and_not_repeated(world: World) -> None:
    caught, last = Flaky(), Flaky()

    @program
    async def catching(s: Session) -> str:
        try:
            await s.step("caught", caught)
            way = "main"
        except StepFailed:
            way = await s.step("other way", lambda: "other")
        await s.step("last", last)
        return way

    assert (await world.run(catching.bind())).status == "failed"
    caught.broken = last.broken = False
    assert (await repeat(world)).result == "other"
    assert (caught.calls, last.calls) == (1, 2)


async def test_a_proven_failure_is_done_again_with_another_key(world: World) -> None:
    outside = Outside("failed")
    act = outside.tool(retry=1)

    @program
    async def proven(s: Session) -> Any:
        return await s.do(act, n=1)

    assert (await world.run(proven.bind())).status == "failed"
    assert (await repeat(world)).status == "done"
    first, second = await world.effects()
    assert (first.state, second.state, second.generation) == ("failed", "acknowledged", 1)
    assert first.idempotency_key != second.idempotency_key
    assert first.position == second.position
    assert (await world.again()).status == "done"
    world.verify()


async def test_a_handler_that_acted_after_the_failure_does_not_stop_a_retry(world: World) -> None:
    outside, flaky = Outside(), Flaky()
    act = outside.tool()

    @program
    async def handling(s: Session) -> int:
        try:
            value = await s.step("work", flaky)
        except StepFailed:
            await s.do(act, n=0)
            raise
        await s.do(act, n=1)
        return value

    assert (await world.run(handling.bind())).status == "failed"
    flaky.broken = False
    assert (await repeat(world)).result == 2
    assert len(outside.calls) == 2


@pytest.mark.parametrize("bug", ["step", "code", "child", "person"])
async def test_a_failure_is_not_repeated_after_its_handler_acted_instead(world: World, bug: str) -> None:
    flaky, paid = Flaky(), []

    @tool(retry=1)
    def pay(bank: str) -> str:
        if flaky.broken and bank == "a":
            raise NotDone("the bank is closed")
        paid.append(bank)
        return bank

    @program
    async def instead(s: Session) -> str:
        return await s.do(pay, "b")

    @program
    async def paying(s: Session) -> str:
        try:
            return await s.do(pay, "a")
        except NotDone:
            if bug == "person":
                bank = str(await s.ask("Pay at b. Done?"))
            else:
                bank = await (s.child(instead.bind(), id="child") if bug == "child" else s.do(pay, "b"))
            if bug == "step":
                await s.step("receipt", flaky)
            elif flaky.broken:
                raise KeyError("receipt")  # noqa: B904 - a mistake in the handler
            return bank

    for asked in (await world.run(paying.bind())).waits:
        await world.rt.answer(asked.id, "b", by="ada")
        await world.again()
    assert (await world.rt.get("s")).status == "failed"
    flaky.broken = False
    assert ((await repeat(world)).result, paid) == ("b", [] if bug == "person" else ["b"])


async def test_a_failed_child_is_retried_although_its_error_was_replaced(world: World) -> None:
    flaky = Flaky()

    @program
    async def young(s: Session) -> int:
        return await s.step("work", flaky)

    @program
    async def old(s: Session) -> int:
        try:
            return await s.child(young.bind(), id="young")
        except SessionFailed:
            raise ValueError("no result")  # noqa: B904 - without its cause

    assert (await world.run(old.bind())).status == "failed"
    flaky.broken = False
    assert (await repeat(world)).result == 2


async def test_an_error_that_hides_its_cause_is_still_repeated_at_the_end(world: World) -> None:
    flaky = Flaky()

    @program
    async def hiding(s: Session) -> int:
        failed, value = False, 0
        try:
            value = await s.step("work", flaky)
        except StepFailed:
            failed = True
        if failed:
            raise RuntimeError("it did not work")
        return value

    assert (await world.run(hiding.bind())).status == "failed"
    flaky.broken = False
    assert (await repeat(world)).result == 2


async def test_an_error_of_the_program_itself_runs_its_code_again(world: World) -> None:
    broken = [True]

    @program
    async def own_error(s: Session) -> int:
        value = await s.step("one", lambda: 1)
        if broken:
            raise KeyError("missing")
        return value

    assert (await world.run(own_error.bind())).status == "failed"
    broken.clear()
    assert (await repeat(world)).result == 1
    assert (await world.kinds()).count("step.recorded") == 1


async def test_questions_and_plans_closed_by_a_failure_are_asked_again(world: World) -> None:
    outside, flaky = Outside(), Flaky()
    act = outside.tool(gate=Gate("merge"))

    async def work() -> int:
        while flaky.broken and len((await world.rt.get("s")).waits) < 2:
            await asyncio.sleep(0.01)
        return flaky()

    @program
    async def parallel(s: Session) -> list[Any]:
        async def ask() -> Any:
            async with s.scope("ask"):
                return await s.ask("which?")

        async def merge() -> Any:
            async with s.scope("merge"):
                return await s.do(act, n=1)

        async with asyncio.TaskGroup() as group:
            asked, merged = group.create_task(ask()), group.create_task(merge())
            await s.step("work", work)
        return [asked.result(), merged.result()]

    assert (await world.run(parallel.bind())).status == "failed"
    flaky.broken = False
    waiting = await repeat(world)
    assert sorted(one.kind for one in waiting.waits) == ["approval", "input"]
    await world.rt.answer(next(one.id for one in waiting.waits if one.kind == "input"), "this one")
    (asked,) = [one async for one in world.rt.approvals(session="s") if one.decision is None]
    await world.rt.approve(asked.id, by="grace", because="fine")
    done = await world.again()
    assert (done.status, done.result[0], len(outside.calls)) == ("done", "this one", 1)
    world.verify()


async def test_a_failed_child_is_retried_with_its_parent(world: World) -> None:
    flaky = Flaky()

    @program
    async def young(s: Session) -> int:
        return await s.step("work", flaky)

    @program
    async def old(s: Session) -> int:
        return await s.child(young.bind(), id="young")

    assert (await world.run(old.bind())).status == "failed"
    with pytest.raises(IllegalMove, match="is a child of session s"):
        await world.rt.retry("young")
    flaky.broken = False
    assert (await repeat(world)).result == 2
    assert len([one async for one in world.rt.sessions()]) == 2
    world.verify()
    world.verify("young")


async def test_a_refused_retry_leaves_the_child_failed(world: World) -> None:
    flaky = Flaky()

    @tool(gate=Gate("merge"))
    def merge() -> None: ...

    @program
    async def young(s: Session) -> int:
        return await s.step("work", flaky)

    @program
    async def old(s: Session) -> int:
        try:
            return await s.child(young.bind(), id="young")
        except SessionFailed:
            await s.do(merge)
            raise

    await world.run(old.bind())
    (asked,) = [one async for one in world.rt.approvals(session="s")]
    await world.rt.deny(asked.id, by="grace", because="too early")
    assert (await world.again()).status == "failed"
    with pytest.raises(IllegalMove, match="was denied"):
        await world.rt.retry("s")
    assert (await world.rt.get("young")).status == "failed"


class HostileError(NotDone):
    """Names records that do not exist, and raises when it is read."""

    def __init__(self, **details: Any) -> None:
        super().__init__("hostile", **details)
        self.read = 0

    @property
    def details(self) -> Any:
        raise RuntimeError("do not read this")

    @details.setter
    def details(self, _: Any) -> None: ...


@pytest.mark.parametrize(
    "error",
    [
        NotDone("unknown", effect="e-nowhere", step=99, wait="c-nowhere"),
        NotDone("odd", effect=7, step="x", wait=None),
        HostileError(),
        ExceptionGroup("group", [NotDone("in a group", effect="e-nowhere"), ValueError("x")]),
    ],
)
async def test_errors_that_name_no_record_do_not_prevent_a_retry(world: World, error: Exception) -> None:
    broken = [True]

    @program
    async def odd(s: Session) -> int:
        if broken:
            raise error
        return 1

    assert (await world.run(odd.bind())).status == "failed"
    broken.clear()
    assert (await repeat(world)).result == 1


async def test_a_branch_that_inherits_a_failed_child_is_not_retried(world: World) -> None:
    @program
    async def young_failure(s: Session) -> int:
        raise ValueError("no")

    @program
    async def old_failure(s: Session) -> int:
        return await s.child(young_failure.bind(), id="young")

    await world.run(old_failure.bind())
    await world.rt.fork("s", id="branch")
    assert (await world.again("branch")).status == "failed"
    with pytest.raises(IllegalMove, match="it inherited its failure"):
        await world.rt.retry("branch")


async def test_a_branch_of_a_retried_session_inherits_its_new_record(world: World) -> None:
    flaky = Flaky()

    @program
    async def inherited(s: Session) -> int:
        return await s.step("work", flaky)

    failed = await world.run(inherited.bind())
    flaky.broken = False
    assert (await repeat(world)).result == 2
    await world.rt.fork("s", id="after")
    assert (await world.again("after")).result == 2
    await world.rt.fork("s", at=failed.cursor, id="before")
    assert (await world.again("before")).status == "failed"
    with pytest.raises(IllegalMove, match="it inherited its failure"):
        await world.rt.retry("before")
    assert flaky.calls == 2


async def test_erasure_of_events_does_not_take_a_retry_back(world: World) -> None:
    flaky, done = Flaky(), []

    @tool(retry=1)
    def post() -> str:
        if flaky.broken:
            raise NotDone("the server is away")
        done.append(1)
        return "posted"

    @program
    async def posting(s: Session) -> str:
        return f"{await s.do(post)} {await s.ask('well?')}"

    assert (await world.run(posting.bind())).status == "failed"
    flaky.broken = False
    view = await repeat(world)
    await world.rt.store.write(event.erase(view.uid, "ada", range(1, view.cursor + 1), because="a test"))
    world.crash()
    await world.rt.answer(view.waits[0].id, "yes", by="ada")
    assert ((await world.again()).result, done) == ("posted yes", [1])


async def test_an_abandoned_effect_stays_abandoned(world: World) -> None:
    outside = Outside("raise")
    act = outside.tool()

    @program
    async def abandoned(s: Session) -> Any:
        return await s.do(act, n=1)

    await world.run(abandoned.bind())
    (effect,) = await world.effects()
    await world.rt.settle(effect.id, "abandon", by="grace", because="not worth it")
    assert (await world.again()).status == "failed"
    with pytest.raises(IllegalMove, match="was abandoned by grace") as refused:
        await world.rt.retry("s")
    assert "perdure fork s" in refused.value.hint
    assert (await world.rt.get("s")).status == "failed"


async def test_a_denied_effect_stays_denied(world: World) -> None:
    @tool(gate=Gate("merge"))
    def merge() -> None: ...

    @program
    async def denied(s: Session) -> None:
        try:
            await s.do(merge)
        except ApprovalDenied as error:
            raise ValueError("no merge") from error

    await world.run(denied.bind())
    (asked,) = [one async for one in world.rt.approvals(session="s")]
    await world.rt.deny(asked.id, by="grace", because="too early")
    assert (await world.again()).status == "failed"
    with pytest.raises(IllegalMove, match="was denied"):
        await world.rt.retry("s")


async def test_only_a_failed_session_is_retried_and_only_once(world: World) -> None:
    flaky = Flaky()

    @program
    async def once(s: Session) -> int:
        return await s.step("work", flaky)

    await world.run(once.bind())
    ends = await asyncio.gather(*(world.rt.retry("s") for _ in range(5)), return_exceptions=True)
    assert sorted(type(one).__name__ for one in ends) == ["IllegalMove"] * 4 + ["SessionView"]
    flaky.broken = False
    assert (await world.again()).status == "done"
    with pytest.raises(IllegalMove, match="is done, and only a failed session"):
        await world.rt.retry("s")


async def test_a_retried_session_fails_again_as_any_session(world: World) -> None:
    @program
    async def hopeless(s: Session) -> None:
        raise NotDone("no")

    await world.run(hopeless.bind())
    again = await repeat(world)
    assert (again.status, again.error["type"]) == ("failed", "NotDone")
    with pytest.raises(SessionFailed, match="no"):
        await world.rt.result("s")


RETRYING = """
    from perdure import Session, program

    @program
    async def killed_retry(s: Session) -> int:
        return await s.step("work", lambda: 7)

    await rt.retry("s")
    await rt.run("s")
"""


@pytest.mark.slow
@pytest.mark.parametrize("kill_at", range(1, 12, 2))
async def test_a_kill_in_the_middle_of_a_retry_loses_nothing(target: str, kill_at: int) -> None:
    begin = RETRYING.replace("lambda: 7", "lambda: 1 / 0").replace('retry("s")', 'start(killed_retry.bind(), id="s")')
    assert await run_and_kill(target, begin, 0) == 0
    await run_and_kill(target, RETRYING, kill_at)
    again = RETRYING.replace('await rt.retry("s")', 'view = await rt.get("s")').replace(
        'await rt.run("s")', 'view.status != "failed" or await rt.retry("s")\n    await rt.run("s")'
    )
    code = await run_and_kill(target, again, 0)
    assert code == 0
    checked = 'view = await rt.get("s")\nassert (view.status, view.result, view.retries) == ("done", 7, 1), view'
    assert await run_and_kill(target, checked, 0) == 0
