"""Wake-ups: a reader hears of news, in its own process or another; if it does not hear, it looks anyway."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from perdure.domain.event import Event
from perdure.domain.session import Status
from perdure.store.moves import event, inbox, session, step
from perdure.store.moves.step import NewStep
from perdure.store.store import Store, open_store
from perdure.store.writer.wakeup import Wakeups
from perdure.testing.proxy import wait_until
from tests.store.support.process_group import ProcessGroup, Ready
from tests.store.support.sessions import a_holder, a_session

FOREVER = 600.0  # a poll that no test lives to see
SOON = 20.0


async def first(events: AsyncIterator[Event], count: int) -> list[int]:
    numbers: list[int] = []
    async for line in events:
        numbers.append(line.number)
        if len(numbers) == count:
            break
    return numbers


async def a_follower(store: Store, uid: str, count: int, poll: float = FOREVER) -> asyncio.Task[list[int]]:
    """A reader that has read everything, and waits for more."""
    after = store.read_now(session.get, uid).cursor
    task = asyncio.create_task(first(store.follow(uid, after, poll=poll), count))
    await until(store.wakeups.has_waiters.is_set, "the follower waits")
    return task


async def until(condition: Callable[[], bool], what: str) -> None:
    await asyncio.to_thread(wait_until, condition, what, SOON)


async def test_a_follower_gets_existing_events_then_new_ones(store: Store) -> None:
    holder = a_holder(store)
    follower = asyncio.create_task(first(store.follow(holder.uid, poll=FOREVER), 5))
    for _ in range(3):
        await store.write(event.append(holder, "note"))
    assert await asyncio.wait_for(follower, SOON) == [1, 2, 3, 4, 5]


async def test_a_follower_starts_after_a_given_event(store: Store) -> None:
    holder = a_holder(store)
    for _ in range(3):
        await store.write(event.append(holder, "note"))
    assert await asyncio.wait_for(first(store.follow(holder.uid, 3, poll=FOREVER), 2), SOON) == [4, 5]


RECORDED = NewStep(restart_number=0, scope="", name="n", argument_digest="d", occurrence=0, result="1")


@pytest.mark.parametrize("kind", ["append", "step", "outsider", "finish"])
async def test_every_kind_of_move_wakes_a_follower(store: Store, kind: str) -> None:
    """The hot statements too, which go past the log."""
    holder = a_holder(store)
    follower = await a_follower(store, holder.uid, 1)
    if kind == "append":
        await store.write(event.append(holder, "note"))
    elif kind == "step":
        await store.write(step.record(holder, RECORDED))
    elif kind == "outsider":
        await store.write(inbox.receive(holder.uid, "ada", "m", "hello"))
    else:
        await store.write(session.finish(holder, Status.DONE))
    assert await asyncio.wait_for(follower, SOON) == [3]


async def test_a_change_of_one_session_does_not_wake_waiters_of_another(store: Store) -> None:
    one, two = a_session(store).uid, a_session(store).uid
    quiet = Wakeups()
    waiting = asyncio.create_task(quiet.wait(quiet.version, one, FOREVER))
    await until(quiet.has_waiters.is_set, "a reader waits")
    quiet.bump([two])
    done, _ = await asyncio.wait([waiting], timeout=0.05)
    assert not done
    quiet.bump([one])
    await asyncio.wait_for(waiting, SOON)


async def test_a_change_between_reading_and_waiting_is_not_missed() -> None:
    wakeups = Wakeups()
    seen = wakeups.version
    wakeups.bump(["session"])
    await asyncio.wait_for(wakeups.wait(seen, "session", FOREVER), SOON)
    assert wakeups.version > seen


async def test_closing_wakes_all_waiters() -> None:
    wakeups = Wakeups()
    waiting = asyncio.create_task(wakeups.wait(wakeups.version, None, FOREVER))
    await until(wakeups.has_waiters.is_set, "a reader waits")
    wakeups.close()
    done, _ = await asyncio.wait([waiting], timeout=SOON)
    assert done


def append_slowly(ready: Ready, target: str, uid: str, count: int) -> None:
    """Append events a while apart, so that a follower goes to sleep between them."""
    with open_store(target, connections=1) as store:
        holder = a_holder(store, uid)
        ready()
        for number in range(count):
            store.write_now(event.append(holder, "note", {"n": number}))
            wait_until(_soon(store), "a while has passed", SOON)


def _soon(store: Store) -> Callable[[], bool]:
    until = store.clock.now() + 60_000
    return lambda: store.clock.now() > until


async def events_seen(target: str, processes: ProcessGroup, patience: float) -> list[int]:
    """What a follower, who would look by itself only after a long time, hears of another process."""
    with open_store(target) as store:
        uid = a_session(store).uid
        follower = await a_follower(store, uid, 6)
        await asyncio.to_thread(processes.run, append_slowly, [(target, uid, 5)])
        return await asyncio.wait_for(follower, patience)


@pytest.mark.databases("sqlite", "postgres")
@pytest.mark.slow
async def test_a_follower_sees_events_of_another_process(target: str, processes: ProcessGroup) -> None:
    assert await events_seen(target, processes, SOON) == [2, 3, 4, 5, 6, 7]


@pytest.mark.databases("sqlite", "postgres")
@pytest.mark.slow
async def test_a_follower_without_wakeups_polls(target: str, processes: ProcessGroup) -> None:
    with open_store(target) as store:
        uid = a_session(store).uid
        store.wakeups = deaf = Wakeups()
        follower = await a_follower(store, uid, 6, poll=0.05)
        writing = asyncio.to_thread(processes.run, append_slowly, [(target, uid, 5)])
        numbers, _ = await asyncio.gather(asyncio.wait_for(follower, SOON), writing)
    assert numbers == [2, 3, 4, 5, 6, 7]
    assert deaf.version == 0
