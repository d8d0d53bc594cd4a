"""Retries of a session without a person: after its failure it waits, and only what ended it runs again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure import ApprovalDenied, Gate, Session, program, tool
from perdure.cli.text.waits import describe_wait, summarize_waits
from perdure.clock import SECOND
from perdure.runtime.queries import SessionView, waiting_sentence
from perdure.store.moves import session_retry
from tests.runtime.support.killed_calls import run_and_kill
from tests.runtime.support.scripted_world import Outside, World
from tests.seed import kill_points

pytestmark = pytest.mark.databases("sqlite", "postgres")


class Flaky:
    """A function that fails so many times."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.calls = 0

    def __call__(self) -> int:
        self.calls += 1
        if self.calls <= self.failures:
            raise ValueError(f"failure {self.calls}")
        return self.calls


async def after_the_wait(world: World, id: str = "s") -> SessionView:
    """Let the time of the open wait pass, and run the session."""
    (asked,) = (await world.rt.get(id)).waits
    world.clock.advance(seconds=((asked.due_at or 0) - world.clock.now()) / SECOND)
    return await world.again(id)


async def test_a_failed_program_waits_and_runs_again_until_it_succeeds(world: World) -> None:
    outside, flaky = Outside(), Flaky(2)
    act = outside.tool()

    @program
    async def steps(s: Session) -> int:
        await s.do(act, n=1)
        second = await s.step("second", flaky)
        await s.do(act, n=2)
        return second

    first = await world.run(steps.bind(), retries=3)
    (asked,) = first.waits
    assert (first.status, first.retries, first.error, asked.id, asked.kind) == ("waiting", 1, None, "retry-1", "timer")
    assert (asked.detail["retry"], asked.detail["of"], asked.detail["error"]["code"]) == (1, 3, "step-failed")
    assert (await world.again()).status == "waiting"
    second = await after_the_wait(world)
    assert (second.status, second.retries, second.waits[0].id) == ("waiting", 2, "retry-2")
    assert (second.waits[0].due_at or 0) - world.clock.now() > (asked.due_at or 0) - asked.since
    done = await after_the_wait(world)
    assert (done.status, done.result, done.retries, flaky.calls) == ("done", 3, 2, 3)
    assert len(outside.calls) == len(set(outside.keys)) == 2
    world.verify()


async def test_a_session_fails_when_no_retry_is_left(world: World) -> None:
    @program
    async def broken(s: Session) -> None:
        raise ValueError("no")

    await world.run(broken.bind(), retries=1)
    failed = await after_the_wait(world)
    assert (failed.status, failed.retries, failed.error["message"]) == ("failed", 1, "no")
    assert (await world.run(broken.bind(), "without")).status == "failed"
    await world.rt.retry("s")  # a person gives it one more run
    assert (await world.again()).status == "failed"
    world.verify()


async def test_complete_waits_for_retries(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_retry, "FIRST_DELAY", 0)
    flaky = Flaky(2)

    @program
    async def steps(s: Session) -> int:
        return await s.step("flaky", flaky)

    started = await world.rt.start(steps.bind(), retries=2)
    assert (await world.rt.complete(started.id)).result == 3


async def test_a_person_need_not_wait_for_a_retry(world: World) -> None:
    flaky = Flaky(1)

    @program
    async def steps(s: Session) -> int:
        return await s.step("flaky", flaky)

    await world.run(steps.bind(), retries=2)
    assert (await world.rt.retry("s", by="ada")).status == "ready"
    assert (await world.again()).result == 2


async def test_the_next_retry_is_described(world: World) -> None:
    @program
    async def broken(s: Session) -> None:
        raise ValueError("no")

    view = await world.run(broken.bind(), retries=3)
    (asked,) = view.waits
    world.clock.advance(seconds=((asked.due_at or 0) - world.clock.now()) / SECOND - 40.5)
    with_tx = world.rt.store.read_now
    assert with_tx(lambda tx: summarize_waits(tx, [asked]))[0] == "retry 1 of 3 in 40s"
    assert with_tx(lambda tx: describe_wait(tx, view, asked)).what == "retry 1 of 3 in 40s, after ValueError: no"
    assert "waits for retry 1 of 3, at " in waiting_sentence(view)


async def test_what_a_retry_must_not_repeat_fails_immediately(world: World) -> None:
    @tool(gate=Gate("deploy"))
    def deploy() -> None: ...

    @program
    async def denied(s: Session) -> None:
        await s.do(deploy)

    @program
    async def wrapped(s: Session) -> None:
        try:
            await s.do(deploy)
        except ApprovalDenied as error:
            raise RuntimeError("not allowed") from error

    @program
    async def unstorable(s: Session) -> Any:
        return object()

    for id, bound in (("denied", denied.bind()), ("wrapped", wrapped.bind())):
        view = await world.run(bound, id, retries=3)
        await world.rt.deny(view.waits[0].id, by="ada", because="no")
        ended = await world.again(id)
        assert (ended.status, ended.retries) == ("failed", None), id
    assert (await world.run(unstorable.bind(), "unstorable", retries=3)).status == "failed"


async def test_a_cancelled_session_is_not_retried(world: World) -> None:
    @program
    async def broken(s: Session) -> None:
        await s.step("ask to stop", stop)
        raise ValueError("no")

    async def stop() -> None:
        await world.rt.cancel("s")

    ended = await world.run(broken.bind(), retries=3)
    assert ended.status in ("failed", "cancelled")
    waiting = await world.rt.start(later.bind(), id="later", retries=3)
    await world.again("later")
    await world.rt.cancel("later")
    assert (await world.rt.get(waiting.id)).status == "cancelled"


@program
async def later(s: Session) -> None:
    raise ValueError("no")


async def test_a_parent_learns_only_of_a_failure_that_is_not_retried(world: World) -> None:
    flaky = Flaky(3)

    @program
    async def child(s: Session) -> int:
        return await s.step("flaky", flaky)

    @program
    async def parent(s: Session) -> int:
        return await s.child(child.bind())

    started = await world.rt.start(parent.bind(), id="s", retries=3)
    failed = await world.again()
    (asked,) = failed.waits
    assert (failed.status, asked.id) == ("waiting", "retry-1")  # a child has no retries of its own
    (made,) = [one async for one in world.rt.sessions() if one.parent_uid == started.uid]
    assert (made.status, made.retries) == ("ready", 1)
    await after_the_wait(world)
    assert (await world.rt.get("s")).retries == 2
    await after_the_wait(world)
    done = await after_the_wait(world)
    assert (done.status, done.result, flaky.calls) == ("done", 4, 4)
    world.verify()
    world.verify(made.id)


async def test_delays_double_up_to_a_limit_and_differ_between_sessions() -> None:
    delays = [session_retry.delay("a" * 32, number) for number in range(1, 60)]
    assert 7 * SECOND < delays[0] < 13 * SECOND < delays[1]
    assert max(delays) <= session_retry.LONGEST_DELAY * 5 // 4
    assert len({session_retry.delay(f"{number:032}", 1) for number in range(20)}) > 10


RETRIES = """
@perdure.tool(replay="probe")
def mark(call: perdure.Call, path: str) -> None:
    with open(path, "a") as file:
        file.write(call.key + "\\n")

@mark.probe
def _(call: perdure.Call, path: str) -> perdure.Outcome:
    found = os.path.exists(path) and call.key in open(path).read()
    return perdure.Outcome.happened(None) if found else perdure.Outcome.absent()

def once(path):
    if not os.path.exists(path):
        open(path, "w").close()
        raise ValueError("first")
    return 7

@perdure.program
async def killed_child(s: perdure.Session, folder: str) -> int:
    return await s.step("once", lambda: once(folder + "/child"))

@perdure.program
async def killed_retry(s: perdure.Session, folder: str) -> int:
    await s.do(mark, path=folder + "/marks")
    found = await s.child(killed_child.bind(folder))
    return found + await s.step("once", lambda: once(folder + "/parent"))

from perdure.store.moves import session_retry
session_retry.FIRST_DELAY = 0
FOLDER = {folder!r}
await rt.start(killed_retry.bind(FOLDER), id="s", retries=4)
await rt.complete("s")
"""
CHECKED = """
view = await rt.get("s")
assert (view.status, view.result) == ("done", 14), view
assert len(open(FOLDER + "/marks").readlines()) == 1
assert (await rt.verify()).damaged == []
"""


@pytest.mark.slow
@pytest.mark.parametrize("kill_at", kill_points(90, every=30))
async def test_a_kill_in_the_middle_of_retries_repeats_nothing(target: str, folder: Path, kill_at: int) -> None:
    calls = RETRIES.replace("{folder!r}", repr(str(folder)))
    await run_and_kill(target, calls, kill_at)
    assert await run_and_kill(target, calls + CHECKED, 0) == 0
