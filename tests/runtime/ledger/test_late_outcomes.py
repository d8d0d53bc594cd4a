"""What is known and could not be written has an owner: it is written as soon as the store is back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

import perdure
from perdure import Session, faults, program, tool
from perdure.domain.effect import AttemptOutcome, Effect
from perdure.errors import Damaged, IllegalMove, StoreUnavailable
from perdure.runtime.ledger.attempt_registry import LATE, REFUSED, keep_late_outcome
from perdure.runtime.ledger.late_outcomes import write_late_outcomes
from perdure.runtime.runtime import Runtime
from perdure.runtime.workers.session_tasks import WorkerNotice
from perdure.runtime.workers.worker import Worker
from perdure.store.moves.effect_input import AttemptResult
from perdure.store.moves.effect_input import AttemptResult as Known

pytestmark = pytest.mark.databases("sqlite", "postgres")
SHORT = 0.6  # seconds; the heart looks three times in it what it may give back
ACTS: list[int] = []


def away(point: str) -> None:
    """The store takes nothing."""
    if point in ("move.before", "commit.before"):
        raise StoreUnavailable("The store is away.")


@tool
def owed_act(n: int) -> int:
    ACTS.append(n)
    faults.arm(away)
    return n


@program
async def owing(s: Session) -> int:
    return await s.do(owed_act, n=7)


@pytest.fixture(autouse=True)
def _nothing_owed() -> Iterator[None]:
    ACTS.clear()
    yield
    LATE.clear()
    REFUSED.clear()


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await condition():
            await asyncio.sleep(0.01)


async def effect_of(rt: Runtime) -> Effect:
    (only,) = [one async for one in rt.effects(session="s")]
    return only


async def is_acknowledged(rt: Runtime) -> bool:
    return (await effect_of(rt)).state == "acknowledged"


async def fails(rt: Runtime) -> None:
    """Run the session; the store goes away in the middle of its act."""
    await rt.start(owing.bind(), id="s")
    with pytest.raises(StoreUnavailable):
        await rt.run("s")
    assert [known.outcome for known, _ in LATE.values()] == [AttemptOutcome.ACKNOWLEDGED]


async def test_a_late_outcome_is_written_and_the_session_released_without_a_run(target: str) -> None:
    async with perdure.open("memory:") as other, perdure.open(target, lease=SHORT) as rt:
        await fails(rt)
        assert (await effect_of(rt)).state == "dispatched"
        faults.disarm()
        await until(lambda: is_acknowledged(rt))
        await until(lambda: _has_status(rt, "ready"))
        assert LATE == {}
        assert ((await rt.run("s")).result, ACTS) == (7, [7])
        assert [one async for one in other.sessions()] == []


async def _has_status(rt: Runtime, status: str) -> bool:
    return (await rt.get("s")).status == status


@pytest.mark.slow
async def test_a_late_outcome_outlives_its_runtime(target: str) -> None:
    rt = perdure.open(target, lease=SHORT)
    await fails(rt)
    await asyncio.to_thread(rt.close)
    faults.disarm()
    async with perdure.open(target, lease=SHORT) as again:
        await until(lambda: is_acknowledged(again))
    assert LATE == {}


@pytest.mark.databases("memory")
async def test_an_outcome_is_kept_until_it_is_written(target: str) -> None:
    async with perdure.open(target) as rt:
        await fails(rt)
        (owed,) = LATE
        with pytest.raises(StoreUnavailable):
            await write_late_outcomes(rt, owed[0], "ada")
        assert list(LATE) == [owed]
        faults.disarm()
        await write_late_outcomes(rt, owed[0], "ada")
        assert LATE == {}
        assert await is_acknowledged(rt)


@pytest.mark.databases("memory")
async def test_a_refused_late_outcome_is_logged_and_blocks_no_other(
    target: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with perdure.open(target) as rt:
        await fails(rt)
        real = rt.values.keep

        async def keep(uid: str, by: str, known: AttemptResult) -> AttemptResult:
            if known.result == '"bad"':
                raise IllegalMove("This outcome cannot be written.")
            return await real(uid, by, known)

        monkeypatch.setattr(rt.values, "keep", keep)
        (owed,) = LATE
        debt = LATE.pop(owed)
        keep_late_outcome((owed[0], "e-bad", 1), AttemptResult(outcome=AttemptOutcome.ACKNOWLEDGED, result='"bad"'), 1)
        keep_late_outcome(owed, *debt)
        faults.disarm()
        await until(lambda: is_acknowledged(rt))
        await asyncio.to_thread(rt.late_outcomes.close)
        assert "e-bad" in caplog.text
        assert list(LATE) == [(owed[0], "e-bad", 1)]


@pytest.mark.slow
async def test_a_worker_waits_for_its_store_and_takes_its_session_up_again(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    notices: list[WorkerNotice] = []
    async with perdure.open(target, lease=SHORT) as rt:
        real = rt.store.read

        async def read(*asked: Any, **how: Any) -> Any:
            if LATE:
                raise StoreUnavailable("The store is away.")
            return await real(*asked, **how)

        await rt.start(owing.bind(), id="s")
        monkeypatch.setattr(rt.store, "read", read)
        working = Worker(rt, concurrency=1, notify=notices.append)
        living = asyncio.ensure_future(working.run(0.5))
        async with asyncio.timeout(60):
            while not any(one.type == "worker.waiting" for one in notices):
                await asyncio.sleep(0.01)
            faults.disarm()
            await living
        assert (rt.result_of(await rt.get("s")), ACTS, working.failed) == (7, [7], False)
        assert (notices[-1].type, notices[-1].session, notices[-1].status) == ("worker.left", "s", "done")


@pytest.mark.databases("memory")
async def test_an_unreadable_session_does_not_block_the_outcomes_of_others(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with perdure.open(target) as rt:
        asked: list[str] = []

        def damaged(_: Any, uid: str) -> None:
            asked.append(uid)
            raise Damaged("A stored value cannot be read.")

        monkeypatch.setattr(rt.store, "read_now", damaged)
        monkeypatch.setattr(rt.late_outcomes, "wake", lambda: None)
        for uid in ("one", "two"):
            keep_late_outcome((uid, "e-1", 1), AttemptResult(outcome=AttemptOutcome.ACKNOWLEDGED, result="1"), 1)
        assert (rt.late_outcomes.write_all(), sorted(asked)) == (False, ["one", "two"])
        LATE.clear()


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
