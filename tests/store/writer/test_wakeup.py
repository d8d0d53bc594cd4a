"""Wake-ups: a reader hears of news, in its own process or another; if it does not hear, it looks anyway."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psycopg
import pytest

from perdure.domain.event import Event
from perdure.domain.session import Status
from perdure.store.databases.postgres.connection_settings import connect
from perdure.store.databases.postgres.database import PostgreSQL
from perdure.store.databases.postgres.notifications import Notifications
from perdure.store.moves import event, inbox, session, step
from perdure.store.moves.step import NewStep
from perdure.store.store import Store, open_store
from perdure.store.topics import ALL_QUEUES, queue_topic
from perdure.store.writer.wakeup import Wakeups
from perdure.testing.proxy import wait_until
from tests.store.support.process_group import ProcessGroup, Ready
from tests.store.support.sessions import a_holder, a_session

FOREVER = 600.0  # a poll that no test lives to see
SOON = 90.0


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


def create_session(ready: Ready, target: str, queue: str) -> None:
    """Create a session in another process."""
    with open_store(target, connections=1) as store:
        ready()
        a_session(store, f"of-{queue}", queue=queue)


@pytest.mark.databases("sqlite", "postgres")
@pytest.mark.slow
async def test_new_work_wakes_only_the_workers_of_its_queue(target: str, processes: ProcessGroup) -> None:
    with open_store(target) as store:
        waiting = {
            name: asyncio.ensure_future(waits_for_queue(store, queues))
            for name, queues in (("all", None), ("builds", ["builds", "tests"]), ("night", ["night"]))
        }
        await until(lambda: len(store.wakeups._delivered) == 4, "each topic is delivered")
        await asyncio.to_thread(processes.run, create_session, [(target, "builds")])
        await asyncio.wait_for(asyncio.gather(waiting["all"], waiting["builds"]), SOON)
        assert not waiting["night"].done()
        await asyncio.to_thread(processes.run, create_session, [(target, "night")])
        await asyncio.wait_for(waiting["night"], SOON)
        assert waiting["night"].done()


async def waits_for_queue(store: Store, queues: list[str] | None) -> None:
    """Wait until a session of a queue was created. The first wait returns when wake-ups are delivered."""
    while True:
        seen = store.wakeups.version
        found = await store.read(session.page)
        if [one for one in found if queues is None or one.queue in queues]:
            return
        await store.wakeups.wait_queues(seen, queues, FOREVER)


@pytest.mark.databases("postgres")
async def test_readers_are_woken_once_after_the_listening_connection_was_lost(target: str) -> None:
    with open_store(target) as store, psycopg.connect(target, autocommit=True) as admin:
        waiting = asyncio.ensure_future(store.wakeups.wait_queues(store.wakeups.version, ["a"], FOREVER))
        await asyncio.wait_for(waiting, SOON)  # it listens now
        waiting = asyncio.ensure_future(store.wakeups.wait_queues(store.wakeups.version, ["a"], FOREVER))
        end = (
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where datname = current_database() and query like 'LISTEN%'"
        )
        await until(lambda: (True,) in admin.execute(end).fetchall(), "the listening connection was ended")
        await asyncio.wait_for(waiting, SOON)


@pytest.mark.databases("postgres")
def test_channels_are_short_identifiers_that_differ_by_store(target: str) -> None:
    with open_store(target) as store:
        database = store.database
        assert isinstance(database, PostgreSQL)
        names = [queue_topic("x" * 10_000), queue_topic('it\'s, \n"odd"'), ALL_QUEUES, a_session(store).uid]
        channels = {database.notifications.channel(name) for name in names}
        a_session(store, "long", queue="x" * 10_000)
    other = Notifications("another store", lambda: connect(target), None)
    assert len(channels | {other.channel(name) for name in names}) == 2 * len(names)
    assert all(re.fullmatch("[a-z0-9_]{1,63}", channel) for channel in channels)


async def test_a_topic_that_changed_long_ago_is_remembered() -> None:
    wakeups = Wakeups()
    seen = wakeups.version
    wakeups.bump(["first"])
    for number in range(10_000):
        wakeups.bump([str(number)])
    assert wakeups.has_changed(seen, "first")
    assert not wakeups.has_changed(wakeups.version, "first")
    assert len(wakeups._changed) <= 4096


async def test_topics_that_no_reader_waits_for_are_dropped(tmp_path: Path) -> None:
    with open_store(tmp_path / "a.db") as store:
        for number in range(400):
            await store.wakeups.wait(store.wakeups.version, f"{number:032}", 0.0)
        assert len(store.wakeups._delivered) <= 130
