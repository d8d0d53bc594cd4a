"""Leases are kept for every session of a process, whatever one of them does, and never thought longer than they are."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

import perdure
from perdure import Session, Transaction, faults, program, tool
from perdure.clock import SECOND
from perdure.domain.lease import Holder
from perdure.errors import LeaseLost, StoreUnavailable
from perdure.runtime.run.session_lease import acquire
from perdure.runtime.workers.heartbeat import Heartbeat
from perdure.store.move import Move, StoreTransaction
from perdure.store.moves import lease
from perdure.store.moves import session as sessions
from perdure.store.store import Store
from perdure.testing import ManualClock
from perdure.testing.proxy import wait_until
from tests.runtime.support.scripted_world import LEASE, World
from tests.store.support.sessions import a_holder, a_session

MEMORY = pytest.mark.databases("memory")
TTL = LEASE * SECOND


@contextmanager
def slow_commits(clock: ManualClock) -> Iterator[None]:
    """Between the request and its answer, most of a lease's time passes."""
    faults.arm(lambda point: clock.advance(seconds=10) if point == "commit.after" else None)
    yield
    faults.disarm()


@MEMORY
def test_the_deadline_of_a_renewal_counts_from_before_the_request(store: Store, clock: ManualClock) -> None:
    holder = a_holder(store, a_session(store).uid)
    asked_at = clock.boot()
    with slow_commits(clock):
        Heartbeat(store, TTL).renew(holder)
    assert clock.boot() > asked_at
    assert holder.boot_deadline == asked_at + TTL


@MEMORY
def test_the_deadline_of_a_heartbeat_round_counts_from_before_the_request(store: Store, clock: ManualClock) -> None:
    holder = a_holder(store, a_session(store).uid)
    asked_at = clock.boot()
    with slow_commits(clock):
        assert Heartbeat(store, TTL)._round([(holder, lambda _: None)]) == set()
    assert clock.boot() > asked_at
    assert holder.boot_deadline == asked_at + TTL


@program
async def heart_idle(s: Session) -> None: ...


@MEMORY
async def test_the_deadline_of_a_new_lease_counts_from_before_the_request(world: World, clock: ManualClock) -> None:
    await world.rt.start(heart_idle.bind(), id="s")
    session = await world.rt.store.read(sessions.find, "s")
    asked_at = clock.boot()
    with slow_commits(clock):
        holder = await acquire(world.rt, session)
    assert clock.boot() > asked_at
    assert holder.boot_deadline == asked_at + TTL


@MEMORY
async def test_no_act_relies_on_a_deadline_counted_from_the_response(world: World, clock: ManualClock) -> None:
    deadlines: list[int] = []

    @tool
    async def act(n: int) -> int:
        (holder,) = world.rt.heartbeat._holders
        deadlines.append(holder.boot_deadline - clock.boot())
        clock.advance(seconds=LEASE - 1)
        return n

    @program
    async def twice(s: Session) -> None:
        await s.do(act, n=1)
        faults.arm(slow_once)
        await s.do(act, n=2)

    def slow_once(point: str) -> None:
        if point == "commit.after":  # of the acquisition, and then of the renewal before the second act
            faults.disarm()
            clock.advance(seconds=10)

    await world.rt.start(twice.bind(), id="s")
    faults.arm(slow_once)
    assert (await world.again()).status == "done"
    assert deadlines == [TTL - 10 * SECOND] * 2


@pytest.mark.databases("postgres")
async def test_a_long_joint_tool_costs_no_other_session_its_lease(target: str) -> None:
    begun, go = threading.Event(), threading.Event()

    @tool(replay="joint")
    def long_joint(tx: Transaction) -> int:
        begun.set()
        go.wait(60)
        return 1

    @tool
    async def waits() -> int:
        await asyncio.to_thread(go.wait, 60)
        return 2

    @program
    async def joins(s: Session) -> int:
        return await s.do(long_joint)

    @program
    async def acts(s: Session) -> int:
        return await s.do(waits)

    async with perdure.open(target, lease=1) as rt:
        for id, bound in (("a", joins.bind()), ("b", acts.bind())):
            await rt.start(bound, id=id)
        runs = [asyncio.ensure_future(rt.run(id)) for id in ("a", "b")]
        await asyncio.to_thread(begun.wait, 60)
        untils = set[int | None]()
        async with asyncio.timeout(60):
            while len(untils) < 6:  # renewed five times at least, longer than a lease lasts
                untils.add((await rt.get("b")).lease_until)
                await asyncio.sleep(0.02)
        go.set()
        assert [view.result for view in await asyncio.gather(*runs)] == [1, 2]


@MEMORY
def test_an_unexpected_error_is_logged_and_the_heartbeat_continues(
    store: Store, clock: ManualClock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two leases one cannot be renewed for a while; the other is, and the first is when it can be again."""
    broken, sound = (a_holder(store, a_session(store).uid) for _ in range(2))
    asked, real, works = list[Holder](), lease.renew, threading.Event()

    def renew(holder: Holder, ttl: int, **how: bool) -> Move[bool]:
        asked.append(holder)
        if holder is broken and not works.is_set():
            raise ZeroDivisionError("unexpected failure")
        return real(holder, ttl, **how)

    monkeypatch.setattr("perdure.runtime.workers.heartbeat.lease.renew", renew)
    heart = Heartbeat(store, SECOND // 10)
    for holder in (broken, sound):
        heart.keep(holder, clock.boot(), lambda _: None)
    try:
        wait_until(lambda: asked.count(sound) > 3, "the other lease is renewed")
        assert "unexpected failure" in caplog.text
        assert {one.name for one in caplog.records} == {"perdure.runtime.workers.heartbeat"}
        works.set()
        clock.advance(seconds=0.01)
        wait_until(lambda: broken.boot_deadline == clock.boot() + heart.ttl, "it is renewed when it can be")
    finally:
        heart.close()


@MEMORY
def test_a_run_learns_that_its_lease_expired_for_an_unexpected_reason(
    store: Store, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    holder, told = a_holder(store, a_session(store).uid), list[Exception]()
    heart = Heartbeat(store, TTL)
    holder.boot_deadline = clock.boot() + TTL
    heart.failed(holder, told.append, ZeroDivisionError("unexpected failure"))
    assert told == []
    clock.advance(seconds=LEASE)
    heart.failed(holder, told.append, ZeroDivisionError("unexpected failure"))
    assert [type(error) for error in told] == [LeaseLost]
    assert len(caplog.records) == 2


@MEMORY
def test_an_error_in_the_notified_run_does_not_stop_the_heartbeat(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    holder = a_holder(store, a_session(store).uid)
    store.write_now(sessions.release(holder))

    def told(error: Exception) -> None:
        raise ZeroDivisionError("the run is gone")

    assert Heartbeat(store, TTL)._round([(holder, told)]) == set()
    assert "could not be told" in caplog.text


def renewing(store: Store, holder: Holder) -> Callable[[], bool]:
    return lambda: store.write_now(lease.renew(holder, TTL, wait=False))


@pytest.mark.databases("postgres")
def test_a_renewal_does_not_wait_for_a_row_that_another_move_holds(store: Store) -> None:
    holder = a_holder(store, a_session(store).uid)
    inside, go = threading.Event(), threading.Event()

    def hold_row(tx: StoreTransaction) -> None:
        tx.one("session.lock_head", uid=holder.uid)
        inside.set()
        go.wait(60)

    other = store.submit(Move("test", "plain", hold_row))
    inside.wait(60)
    assert renewing(store, holder)() is False
    go.set()
    other.wait()
    assert renewing(store, holder)() is True
    store.write_now(sessions.release(holder))
    with pytest.raises(LeaseLost):
        renewing(store, holder)()


@MEMORY
def test_an_unavailable_store_ends_no_act_before_its_lease(store: Store, clock: ManualClock) -> None:
    def away(point: str) -> None:
        if point == "move.before":
            raise StoreUnavailable("The store is away.")

    holder, heart = a_holder(store, a_session(store).uid), Heartbeat(store, TTL)
    holder.boot_deadline = until = clock.boot() + TTL
    faults.arm(away)
    heart.renew(holder)
    assert holder.boot_deadline == until
    clock.advance(seconds=LEASE)
    with pytest.raises(LeaseLost, match="ran out while the store was away"):
        heart.renew(holder)
    faults.disarm()
