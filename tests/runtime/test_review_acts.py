"""Acts, probes and outcomes at awkward moments: what a second reader of the ledger found."""

from __future__ import annotations

import asyncio
import shutil
import threading
from pathlib import Path

import pytest

import perdure
from perdure import Outcome, Session, Transaction, program, tool
from perdure.domain.effect import AttemptOutcome
from perdure.runtime.ledger.execution import LATE, is_acting
from perdure.store.moves.intent import Outcome as Known
from perdure.testing import ManualClock


def test_a_tool_whose_thread_still_runs_is_not_started_again(folder: Path) -> None:
    began, go, calls = threading.Event(), threading.Event(), []

    @tool(replay="probe", inflight=0)
    def review_slow_act() -> int:
        calls.append(1)
        began.set()
        go.wait(20)
        return 1

    @review_slow_act.probe
    def _() -> Outcome:
        again.set()  # the first act is still on its way, and nothing is there yet
        return Outcome.absent()

    @program
    async def review_slow(s: Session) -> int:
        return await s.do(review_slow_act)

    again = threading.Event()
    rt = perdure.open(folder / "a.db")

    async def leave_in_the_middle() -> None:
        await rt.start(review_slow.bind(), id="s")
        rt.task = asyncio.create_task(rt.run("s"))  # type: ignore[attr-defined]
        await asyncio.to_thread(began.wait, 10)  # and then the loop ends, as after a second Ctrl-C

    async def come_back() -> int:
        running = asyncio.create_task(rt.run("s"))
        for _ in range(20):
            if running.done() or len(calls) > 1:
                break
            await asyncio.sleep(0.05)
        made = len(calls)
        go.set()
        await asyncio.wait({running})
        return made

    try:
        asyncio.run(leave_in_the_middle())
        assert asyncio.run(come_back()) == 1
    finally:
        go.set()
        rt.close()


def test_a_tool_that_outlives_its_event_loop_is_not_run_twice(folder: Path) -> None:
    """Not even when the lease is over, and the rule would allow a second request with the same key."""
    began, go, calls, clock = threading.Event(), threading.Event(), [], ManualClock()

    @tool(replay="idempotent")
    def review_left_act() -> int:
        calls.append(1)
        began.set()
        go.wait(20)
        return len(calls)

    @program
    async def review_left(s: Session) -> int:
        return await s.do(review_left_act)

    async def leave_in_the_middle() -> None:
        async with perdure.open(folder / "a.db", clock=clock) as rt:
            await rt.start(review_left.bind(), id="s")
            running = asyncio.create_task(rt.run("s"))
            await asyncio.to_thread(began.wait, 10)
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            await asyncio.wait({running})

    async def come_back() -> object:
        async with perdure.open(folder / "a.db", clock=clock) as rt:
            assert is_acting((await rt.get("s")).uid)
            with pytest.raises(perdure.LeaseHeld):
                await rt.run("s")
            go.set()
            while is_acting((await rt.get("s")).uid):
                await asyncio.sleep(0.005)
            return (await rt.run("s")).result

    try:
        asyncio.run(leave_in_the_middle())
        clock.advance(seconds=16)
        assert (asyncio.run(come_back()), calls) == (1, [1])
    finally:
        go.set()


@pytest.mark.slow
def test_a_lease_is_held_exactly_while_a_thread_acts(folder: Path) -> None:
    began, go = threading.Event(), threading.Event()

    @tool
    def review_kept_act() -> int:
        began.set()
        go.wait(20)
        return 1

    @program
    async def review_kept(s: Session) -> int:
        return await s.do(review_kept_act)

    rt = perdure.open(folder / "a.db", lease=0.3)

    async def leave_in_the_middle() -> int:
        await rt.start(review_kept.bind(), id="s")
        rt.task = asyncio.create_task(rt.run("s"))  # type: ignore[attr-defined]
        await asyncio.to_thread(began.wait, 10)
        return (await rt.get("s")).lease_until or 0

    async def come_back(until: int) -> str:
        while ((await rt.get("s")).lease_until or 0) <= until + 300_000:  # renewed by the heart, for nobody waits here
            await asyncio.sleep(0.01)
        assert (await rt.get("s")).status == "running"
        go.set()
        while (await rt.get("s")).status == "running":
            await asyncio.sleep(0.01)
        assert (await rt.get("s")).lease_holder is None
        return (await rt.run("s")).status

    try:
        assert asyncio.run(come_back(asyncio.run(leave_in_the_middle()))) == "done"
    finally:
        go.set()
        rt.close()


@tool(replay="probe", inflight=0)
def review_cut(said: str) -> int:
    raise OSError("the line was cut")


@review_cut.probe
def _(said: str) -> Outcome:
    if said == "raise":
        raise ValueError("no such file: \udcff")  # as os.fsdecode makes them
    if said == "unknown":
        return Outcome.unknown("no such file: \udcff")
    return Outcome.happened(7, reference="r\udcff" if said == "surrogate" else "r\0")


@program
async def review_probed(s: Session, said: str) -> int:
    return await s.do(review_cut, said=said)


@pytest.mark.databases("sqlite", "postgres")
@pytest.mark.parametrize("said", ["raise", "unknown", "surrogate"])
async def test_a_probe_with_odd_characters_does_not_block_its_session(target: str, said: str) -> None:
    async with perdure.open(target) as rt:
        await rt.start(review_probed.bind(said=said), id="s")
        assert (await rt.run("s")).status in ("done", "waiting")


@pytest.mark.databases("postgres")
async def test_a_reference_with_a_nul_settles_alike_on_both_databases(target: str) -> None:
    async with perdure.open(target) as rt:
        await rt.start(review_probed.bind(said="nul"), id="s")
        assert (await rt.run("s")).status == "done"


@tool
def review_lost(n: int) -> int:
    raise OSError("the line was cut")


@program
async def review_loser(s: Session) -> int:
    return await s.do(review_lost, n=1)


@pytest.mark.databases("sqlite")
async def test_a_late_outcome_is_written_although_a_person_was_asked(target: str) -> None:
    async with perdure.open(target) as rt:
        await rt.start(review_loser.bind(), id="s")
        view = await rt.run("s")
        assert view.status == "waiting"  # so far what another process did, while the store was away for this one
        (effect,) = [one async for one in rt.effects(session="s")]
        owed = (view.uid, effect.id, 1)
        LATE[owed] = (Known(outcome=AttemptOutcome.ACKNOWLEDGED, result="7"), 3)
        try:
            assert (await rt.run("s")).status == "done"
        finally:
            LATE.pop(owed, None)


HITS: list[int] = []


@tool
def review_hit(n: int) -> int:
    HITS.append(n)
    return n


@program
async def review_hitter(s: Session) -> int:
    await s.ask("go?")
    return await s.do(review_hit, n=1)


async def test_a_session_log_restored_by_git_does_not_act_twice(folder: Path) -> None:
    HITS.clear()
    place = folder / "files"
    async with perdure.open(f"files:{place}") as rt:
        await rt.start(review_hitter.bind(), id="s")
        view = await rt.run("s")
        await rt.answer(view.waits[0].id, "yes", by="ada")
    kept = {path: shutil.copy(path, folder / path.name) for path in place.rglob("*.jsonl")}
    assert kept
    async with perdure.open(f"files:{place}") as rt:
        assert (await rt.run("s")).status == "done"
    for path, copy in kept.items():
        shutil.copy(copy, path)
    async with perdure.open(f"files:{place}") as rt:
        await rt.run("s")
    assert HITS == [1]


@tool(replay="joint")
def review_question(tx: Transaction) -> str:
    ((said,),) = tx.execute("select 'why?' || cast(? as text)", ("!",))
    return str(said)


@program
async def review_asker(s: Session) -> str:
    return await s.do(review_question)


@pytest.mark.databases("postgres")
async def test_a_question_mark_in_a_sql_literal_is_not_a_parameter(target: str) -> None:
    async with perdure.open(target) as rt:
        await rt.start(review_asker.bind(), id="s")
        view = await rt.run("s")
        assert (view.result, view.error) == ("why?!", None)


@tool(replay="probe", inflight=0)
def review_unset(n: int) -> int:
    raise OSError("the line was cut")


@review_unset.probe
def _(n: int) -> Outcome:
    raise KeyError("SERVICE_URL")


@program
async def review_unsetter(s: Session) -> int:
    return await s.do(review_unset, n=1)


async def test_a_probe_that_raises_is_named_with_its_error() -> None:
    async with perdure.open("memory:") as rt:
        await rt.start(review_unsetter.bind(), id="s")
        (asked,) = (await rt.run("s")).waits
        (effect,) = [one async for one in rt.effects(session="s")]
        assert (asked.kind, effect.doubt) == ("doubt", "The probe failed: KeyError: 'SERVICE_URL'.")
