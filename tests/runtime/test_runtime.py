"""The runtime as a user holds it: starting, running, looking, and what `perdure.run` promises."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import (
    ConfigError,
    Conflict,
    ForkedProcess,
    LeaseHeld,
    NotFound,
    Session,
    SessionFailed,
    SessionWaiting,
    program,
    tool,
)
from perdure.domain.event import Event
from perdure.runtime.definitions.program import PROGRAMS
from perdure.runtime.definitions.tool import TOOLS
from perdure.store.moves import approval, effect, wait
from perdure.store.moves import session as sessions
from tests.runtime.support.scripted_world import GATE, Outside, World

pytestmark = pytest.mark.databases("sqlite", "postgres")
MEMORY = pytest.mark.databases("memory")


@MEMORY
async def test_a_known_id_with_other_arguments_is_a_conflict(world: World) -> None:
    @program
    async def work(s: Session, n: int, m: int = 2) -> int:
        return n + m

    one = await world.rt.start(work.bind(1), id="s")
    assert (await world.rt.start(work.bind(n=1, m=2), id="s")).uid == one.uid
    with pytest.raises(Conflict):
        await world.rt.start(work.bind(n=2), id="s")
    assert (await world.rt.start(work.bind(1))).uid != one.uid
    with pytest.raises(NotFound):
        await world.rt.run("missing")


def run(bound: Any, store: Path) -> Any:
    return perdure.run(bound, id="s", store=store)


def test_run_returns_the_result_and_returns_it_again(tmp_path: Path) -> None:
    ran: list[int] = []

    @tool
    def act(n: int) -> int:
        ran.append(n)
        return n

    @program
    async def works(s: Session, n: int) -> list[int]:
        await s.sleep(0.01)
        return [await s.do(act, n=n)]

    assert [run(works.bind(n=3), tmp_path / "p.db") for _ in range(3)] == [[3]] * 3
    assert ran == [3]


def test_run_reports_what_a_person_must_do_and_continues_afterwards(tmp_path: Path) -> None:
    @program
    async def chooses(s: Session) -> str:
        return str(await s.ask("continue?", choices=["yes", "no"]))

    with pytest.raises(SessionWaiting) as waiting:
        run(chooses.bind(), tmp_path / "p.db")
    (asked,) = waiting.value.waits
    assert (asked.kind, asked.detail["question"]) == ("input", "continue?")

    async def answer(said: str) -> None:
        async with perdure.open(tmp_path / "p.db") as rt:
            await rt.answer(asked.id, said, by="ada")

    with pytest.raises(ConfigError, match="perhaps"):
        asyncio.run(answer("perhaps"))
    asyncio.run(answer("yes"))
    assert run(chooses.bind(), tmp_path / "p.db") == "yes"


def test_run_raises_what_a_session_failed_with_every_time(tmp_path: Path) -> None:
    @program
    async def fails(s: Session) -> None:
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(SessionFailed, match="no") as failed:
            run(fails.bind(), tmp_path / "p.db")
        assert failed.value.details["error"]["type"] == "ValueError"


async def test_a_second_process_is_refused_with_the_holders_name(world: World) -> None:
    started = asyncio.Event()
    go = asyncio.Event()

    @tool
    async def act() -> int:
        started.set()
        await go.wait()
        return 1

    @program
    async def works(s: Session) -> int:
        return await s.do(act)

    running = asyncio.ensure_future(world.run(works.bind()))
    await started.wait()
    other = world.open()
    with pytest.raises(LeaseHeld) as held:
        await other.run("s")
    go.set()
    other.close()
    assert (await running).result == 1
    assert held.value.details["holder"] == world.rt.worker.name


async def test_a_session_waits_for_unknown_code_until_it_is_loaded(world: World) -> None:
    outside = Outside("died")
    act = outside.tool("probe")

    @program
    async def work(s: Session) -> int:
        got: int = await s.do(act, n=1)
        return got

    await world.dies(work.bind())
    registries: list[tuple[dict[str, Any], str]] = [(PROGRAMS, "work"), (TOOLS, "act")]
    for registry, name in registries:
        there = registry.pop(name)
        view = await world.again()
        assert [(one.kind, one.ref) for one in view.waits] == [("program", name)]
        assert [one.id async for one in world.rt.sessions(waiting_for="program")] == ["s"]
        assert [one.action for one in await world.rt.recovery_plan("s")] == [
            "probe" if name == "work" else "wait for code"
        ]
        registry[name] = there
    view = await world.again()
    assert (view.result, view.waits) == (7, ())


async def test_the_iterators_find_what_there_is(world: World) -> None:
    outside = Outside("done", "lost")
    act, gated = outside.tool(), outside.tool(name="gated", gate=GATE)

    @program
    async def work(s: Session, n: int) -> None:
        await s.task("one")
        await s.decide("left", because="shorter")
        await s.remember("k", n, scope="shared")
        await s.do(act, n=1)
        await asyncio.gather(s.do(act, n=2), s.do(gated, n=3))

    await world.run(work.bind(1), "a", owner="ada", repository="/tmp/x")
    await world.rt.start(work.bind(2), id="b")
    rt = world.rt
    assert [one.id async for one in rt.sessions(owner="ada")] == ["a"]
    assert [one.id async for one in rt.sessions(repository="/tmp/x", waiting_for="doubt")] == ["a"]
    assert [one.id async for one in rt.sessions(status="ready")] == ["b"]
    assert sorted([one.intent["n"] async for one in rt.effects(session="a")]) == [1, 2, 3]
    assert [one.intent["n"] async for one in rt.effects(in_doubt=True)] == [2]
    assert [one.intent["n"] async for one in rt.effects(state="acknowledged", tool="act")] == [1]
    assert [one async for one in rt.effects(since=world.clock.now() + 1)] == []
    assert [one.gate async for one in rt.approvals(session="a", decision="waiting")] == ["merge"]
    assert [one.title async for one in rt.tasks(session="a")] == ["one"]
    assert [one.decision async for one in rt.decisions(incomplete=True)] == ["left"]
    assert [one.value async for one in rt.facts(scope="shared")] == [1]
    numbers = [one.number async for one in rt.events("a")]
    assert numbers == list(range(1, len(numbers) + 1))
    assert [one.number async for one in rt.events("a", after=numbers[-2])] == numbers[-1:]


async def test_effects_are_listed_to_the_last(world: World) -> None:
    look = Outside().tool("pure")

    @program
    async def many(s: Session) -> None:
        for n in range(7):
            await s.do(look, n=n)

    await world.run(many.bind())
    real = effect.listing

    def small(*args: Any, **kwargs: Any) -> Any:
        return real(*args, **kwargs | {"limit": 2})

    pages, before = [], None
    while page := await world.rt.store.read(small, before=before):
        pages.append([one.intent["n"] for one in page])
        before = page[-1]
    assert sorted(n for page in pages for n in page) == list(range(7))
    assert len(pages) == 4


async def test_following_events_sees_each_as_it_comes(world: World) -> None:
    @program
    async def work(s: Session) -> None:
        await s.step("one", lambda: 1)

    await world.rt.start(work.bind(), id="s")
    seen: list[Event] = []

    async def watch() -> None:
        async for line in world.rt.events("s", follow=True):
            seen.append(line)
            if line.kind == "session.finished":
                return

    watching = asyncio.ensure_future(watch())
    await world.again()
    await asyncio.wait_for(watching, 120)
    assert [line.kind for line in seen] == await world.kinds()


async def rows_now(world: World, id: str) -> dict[str, Any]:
    uid, store = (await world.rt.get(id)).uid, world.rt.store
    return {
        "session": (await store.read(sessions.get, uid)).to_dict(),
        "effects": {one.id: one.to_dict() for one in await store.read(effect.of_session, uid)},
        "approvals": {one.id: one.to_dict() for one in await store.read(approval.listing, uid=uid)},
        "waits": {one.id: one.to_dict() for one in await store.read(wait.of_session, uid)},
    }


async def test_time_travel_equals_the_rows_at_every_event(world: World) -> None:
    """Wherever the rows are looked at, the log folded to that event says the same of them, then and later."""
    outside = Outside("failed", "lost", "lost", "done")
    act, gated = outside.tool("idempotent", retry=2), outside.tool("compensate", name="gated", gate=GATE)

    @program
    async def work(s: Session) -> None:
        await s.do(act, n=1)
        await s.do(gated, n=2)
        await s.sleep(hours=1)

    looks: list[tuple[int, dict[str, Any]]] = []

    async def look() -> None:
        looks.append(((await world.rt.get("s")).cursor, await rows_now(world, "s")))

    await world.run(work.bind())
    await look()
    await world.rt.settle((await world.effect()).id, "happened", by="ada", because="seen", result=7)
    await look()
    for turn in range(6):
        view = await world.again()
        await look()
        for one in view.waits:
            if one.kind == "approval":
                await world.rt.approve(one.id, by="grace", because="yes")
        await look()
        world.clock.advance(seconds=31 if turn < 4 else 3600)
    assert (await world.rt.get("s")).status == "done"
    for number, rows in looks:
        state = await world.rt.state_at("s", number)
        for table in ("effects", "approvals", "waits"):
            told = getattr(state, table)
            assert told.keys() == rows[table].keys()
            for id, row in rows[table].items():
                assert {k: told[id].get(k) for k in row} == row, f"{table} {id} at {number}"
        same = {k: v for k, v in state.session.items() if k != "updated_at"}
        assert {k: rows["session"][k] for k in same} == same
    world.verify()


@pytest.mark.parametrize("replay", ["idempotent", "probe", "compensate", "escalate"])
async def test_the_recovery_plan_matches_what_the_run_does(world: World, replay: str) -> None:
    outside = Outside("died early", "done")

    @program
    async def work(s: Session) -> int:
        got: int = await s.do(act, n=1)
        return got

    act = outside.tool(replay)
    await world.dies(work.bind())
    before = await world.kinds()
    (plan,) = await world.rt.recovery_plan("s")
    assert await world.kinds() == before, "a plan does nothing"
    assert plan.action == {"idempotent": "run again", "compensate": "undo", "escalate": "ask"}.get(replay, replay)
    assert ("ended in the middle of attempt 1" in plan.why, plan.attempts) == (True, 1)
    view = await world.again()
    kinds = [one.kind for one in view.waits]
    assert kinds == {"idempotent": [], "escalate": ["doubt"]}.get(replay, ["timer"])
    if kinds == ["timer"]:
        assert plan.not_before in (None, view.waits[0].due_at)
        world.clock.advance(seconds=31)
        view = await world.again()
    decided = {"idempotent": "effect.dispatched", "escalate": "effect.doubted"}.get(replay, "effect.recovered")
    assert decided in (await world.kinds())[len(before) :], "the log tells what was decided"


@pytest.mark.databases("sqlite", "postgres")
async def test_a_runtime_in_a_forked_child_is_refused_and_can_be_closed(target: str) -> None:
    @program
    async def forks(s: Session) -> int:
        read, write = os.pipe()
        if (child := os.fork()) == 0:
            signal.alarm(60)
            said = []
            for use in (lambda: s.ask("continue?"), lambda: rt.get("s"), lambda: rt.run("s")):
                try:
                    await use()
                except ForkedProcess as error:
                    said.append(error.code)
            await rt.__aexit__(None, None, None)
            os.write(write, " ".join(said).encode())
            os._exit(0)
        os.close(write)
        with open(read) as told:
            assert told.read() == " ".join(["forked-process"] * 3)
        os.waitpid(child, 0)
        return 7

    async with perdure.open(target) as rt:
        await rt.start(forks.bind(), id="s")
        assert (await rt.run("s")).result == 7
