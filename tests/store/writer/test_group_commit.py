"""Group commit: many moves, one sync; each fails alone, and what is answered is durable."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import apsw
import pytest

from perdure import faults
from perdure.errors import Conflict, StoreFull, StoreUnavailable
from perdure.store.databases.sqlite import engine
from perdure.store.move import Move, StoreTransaction
from perdure.store.moves import event, inbox, meta, session
from perdure.store.store import Store, open_store
from perdure.store.writer import group_commit
from perdure.testing.proxy import wait_until
from tests.store.support.sessions import a_session, connection_of, plain, session_of

ONE_WRITER = pytest.mark.databases("sqlite", "memory", "files")
GROUPS = pytest.mark.databases("sqlite", "memory")


@asynccontextmanager
async def a_busy_writer(store: Store) -> AsyncIterator[None]:
    """The writer is kept inside a move; whatever is submitted meanwhile waits, and is written next, as one group."""
    inside, go_on = threading.Event(), threading.Event()

    def linger(tx: StoreTransaction) -> None:
        inside.set()
        assert go_on.wait(60)

    busy = asyncio.create_task(store.write(plain(linger)))
    assert await asyncio.to_thread(inside.wait, 60)
    try:
        yield
    finally:
        go_on.set()
        await asyncio.gather(busy, return_exceptions=True)


async def together(store: Store, *moves: Move[Any]) -> list[Any]:
    """Write moves as one group, and return the outcome of each."""
    async with a_busy_writer(store):
        tasks = [asyncio.create_task(store.write(move)) for move in moves]
        await asyncio.sleep(0)  # each takes its place in line
    return await asyncio.gather(*tasks, return_exceptions=True)


def points_passed() -> list[str]:
    passed: list[str] = []
    faults.arm(passed.append)
    return passed


def fail_at(point: str) -> None:
    def handler(name: str) -> None:
        if name == point:
            raise OSError(point)

    faults.arm(handler)


def then_fail(move: Move[Any], error: BaseException) -> Move[Any]:
    def run(tx: StoreTransaction) -> None:
        move.run(tx)
        raise error

    return Move("fails", "plain", run)


@GROUPS
async def test_moves_that_wait_share_one_commit(store: Store) -> None:
    uid = a_session(store).uid
    passed = points_passed()
    receipts = await together(store, *(inbox.receive(uid, "ada", f"m-{n}", n) for n in range(20)))
    assert [receipt.sequence for receipt in receipts] == list(range(1, 21))
    assert (passed.count("move.after"), passed.count("commit.after")) == (21, 1)
    assert store.read_now(event.verify, uid).cursor == 21


async def test_a_move_that_fails_is_rolled_back_alone(store: Store) -> None:
    uid = a_session(store).uid
    wrong = ValueError("my own")
    first, failed, refused, last = await together(
        store,
        inbox.receive(uid, "ada", "m-1", 1),
        then_fail(inbox.receive(uid, "ada", "m-2", 2), wrong),
        session.describe(uid, by="ada", expected=7, title="no"),
        inbox.receive(uid, "ada", "m-3", 3),
    )
    assert failed is wrong
    assert isinstance(refused, Conflict)
    assert {message.id for message in store.read_now(inbox.unread, uid)} == {"m-1", "m-3"}
    assert {first.sequence, last.sequence} == {1, 2}
    assert store.read_now(event.verify, uid).cursor == 3


@pytest.mark.parametrize("point", ["move.after", "commit.before"])
async def test_nothing_of_a_group_that_was_not_committed_is_there(store: Store, point: str) -> None:
    uid = a_session(store).uid
    before = session_of(store, uid)
    moves = [inbox.receive(uid, "ada", f"m-{n}", n) for n in range(5)]
    async with a_busy_writer(store):
        fail_at(point)  # first, because other connections of PostgreSQL write at once
        tasks = [asyncio.create_task(store.write(move)) for move in moves]
        await asyncio.sleep(0)
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    faults.disarm()
    assert [type(outcome) for outcome in outcomes] == [OSError] * 5
    assert session_of(store, uid) == before
    assert store.read_now(inbox.unread, uid) == []
    assert (await store.write(moves[0])).sequence == 1  # and the store continues


@pytest.mark.databases("sqlite", "files", "postgres")
def test_what_was_answered_is_there_when_the_store_is_opened_again(target: str) -> None:
    with open_store(target) as store:
        uid = a_session(store).uid
        for number in range(5):
            store.write_now(inbox.receive(uid, "ada", f"m-{number}", number))
    with open_store(target) as store:
        assert [message.body for message in store.read_now(inbox.unread, uid)] == [0, 1, 2, 3, 4]
        assert store.read_now(event.verify, uid).cursor == 6


@pytest.mark.databases("sqlite", "postgres")
def test_what_follows_a_commit_comes_after_it(store: Store) -> None:
    seen: list[str | None] = []

    def run(tx: StoreTransaction) -> None:
        tx.run("meta.put", key="colour", value="red")
        tx.after_commit.append(lambda: seen.append(store.read_now(meta.get, "colour")))

    assert store.read_now(meta.get, "colour") is None
    store.write_now(plain(run))
    assert seen == ["red"]  # read on another connection


def test_nothing_follows_a_commit_that_did_not_happen(store: Store) -> None:
    seen: list[str] = []

    def run(tx: StoreTransaction) -> None:
        tx.run("meta.put", key="colour", value="red")
        tx.after_commit.append(lambda: seen.append("after"))

    fail_at("commit.before")
    with pytest.raises(OSError, match=r"commit\.before"):
        store.write_now(plain(run))
    faults.disarm()
    with pytest.raises(ValueError, match="no"):
        store.write_now(then_fail(plain(run), ValueError("no")))
    assert seen == []
    assert store.read_now(meta.get, "colour") is None


async def test_a_cancelled_caller_does_not_undo_its_move(store: Store) -> None:
    uid = a_session(store).uid
    async with a_busy_writer(store):
        leaving = asyncio.create_task(store.write(inbox.receive(uid, "ada", "m-1", 1)))
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
    assert leaving.cancelled()
    wait_until(lambda: store.read_now(inbox.get, uid, "m-1") is not None, "the move is there")


@pytest.mark.databases("sqlite", "files", "postgres")
async def test_closing_finishes_what_was_submitted(target: str) -> None:
    store = open_store(target)
    uid = a_session(store).uid
    async with a_busy_writer(store):
        tasks = [asyncio.create_task(store.write(inbox.receive(uid, "ada", f"m-{n}", n))) for n in range(5)]
        await asyncio.sleep(0)
        closing = asyncio.create_task(asyncio.to_thread(store.close))
    assert sorted(message.sequence for message in await asyncio.gather(*tasks)) == [1, 2, 3, 4, 5]
    await closing
    with open_store(target) as again:
        assert len(again.read_now(inbox.unread, uid)) == 5


def test_a_closed_store_refuses_moves(target: str) -> None:
    store = open_store(target)
    store.close()
    for attempt in (lambda: store.write_now(meta.put("a", "b")), lambda: store.read_now(meta.properties)):
        with pytest.raises(StoreUnavailable, match="closed"):
            attempt()


def test_closing_twice_does_not_raise(target: str) -> None:
    with open_store(target) as store:
        store.close()


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()], ids=repr)
def test_no_error_of_a_move_ends_the_writer(store: Store, error: BaseException) -> None:
    with pytest.raises(type(error)):
        store.write_now(then_fail(meta.put("a", "b"), error))
    store.write_now(meta.put("c", "d"))
    assert store.read_now(meta.get, "a") is None


def fills_the_disk(tx: StoreTransaction) -> None:
    """SQLite rolls back everything, not only this move, when a statement finds the disk full."""
    db = connection_of(tx)
    (pages,) = db.execute("pragma page_count").fetchone()
    db.execute(f"pragma max_page_count = {pages}").fetchall()
    try:
        db.execute("insert into meta (key, value) select 'big', hex(zeroblob(10000000))")
    finally:
        db.execute("pragma max_page_count = 1000000").fetchall()


def takes_for_ever(tx: StoreTransaction) -> None:
    endless = "with recursive n (i) as (select 1 union all select i + 1 from n) select i, i from n"
    connection_of(tx).execute(f"insert into meta (key, value) {endless}")


def hides_a_rollback(tx: StoreTransaction) -> None:
    """Catch the error of a statement that undid the whole transaction, and return as if nothing had happened."""
    db = connection_of(tx)
    db.execute("insert into meta (key, value) values ('big', '1')")
    with suppress(apsw.ConstraintError):
        db.execute("insert or rollback into meta (key, value) values ('big', '2')")


@pytest.mark.slow
@GROUPS
@pytest.mark.parametrize(
    ("breaks", "error", "limit"),
    [
        (fills_the_disk, StoreFull, engine.MOVE_LIMIT),
        (takes_for_ever, StoreUnavailable, 1.0),  # the other moves, which take a millisecond, must stay within it
        (hides_a_rollback, StoreUnavailable, engine.MOVE_LIMIT),
    ],
)
async def test_a_move_that_takes_its_group_down_fails_alone(
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    breaks: Callable[[StoreTransaction], None],
    error: type[Exception],
    limit: float,
) -> None:
    monkeypatch.setattr(engine, "MOVE_LIMIT", limit)
    uid = a_session(store).uid
    before, broken, after = await together(
        store, inbox.receive(uid, "ada", "m-1", 1), plain(breaks), inbox.receive(uid, "ada", "m-2", 2)
    )
    assert type(broken) is error
    assert (before.sequence, after.sequence) == (1, 2)
    assert store.read_now(event.verify, uid).cursor == 3
    assert store.read_now(meta.get, "big") is None


@ONE_WRITER
async def test_two_event_loops_and_a_thread_are_answered(store: Store) -> None:
    uid = a_session(store).uid

    async def send(who: str) -> list[int]:
        moves = [inbox.receive(uid, who, f"{who}-{n}", n) for n in range(10)]
        return [receipt.sequence for receipt in await asyncio.gather(*map(store.write, moves))]

    def block() -> list[int]:
        return [store.write_now(inbox.receive(uid, "thread", f"t-{n}", n)).sequence for n in range(10)]

    other = asyncio.to_thread(lambda: asyncio.run(send("other")))
    parts = await asyncio.gather(send("one"), other, asyncio.to_thread(block))
    assert sorted(place for part in parts for place in part) == list(range(1, 31))


@pytest.mark.databases("sqlite")
def test_a_group_that_took_long_takes_in_what_came_while_it_ran(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise another process could write in between, and find that leases of this one ran out."""
    monkeypatch.setattr(group_commit, "LONG", 0.0)
    commits: list[str] = []
    inside, go = threading.Event(), threading.Event()

    def long(tx: StoreTransaction) -> str:
        inside.set()
        go.wait(60)
        tx.send("meta.put", key="long", value="1")
        return "long"

    def short(tx: StoreTransaction) -> str:
        tx.send("meta.put", key="short", value="1")
        return "short"

    def refused(tx: StoreTransaction) -> str:
        tx.send("meta.put", key="refused", value="1")
        raise Conflict("not this one")

    faults.arm(lambda point: commits.append(point) if point == "commit.before" else None)
    first = store.submit(Move("long", "plain", long))
    inside.wait(60)
    others = [store.submit(Move("other", "plain", run)) for run in (refused, short)]
    go.set()
    assert (first.wait(), others[1].wait()) == ("long", "short")
    with pytest.raises(Conflict):
        others[0].wait()
    assert commits == ["commit.before"]
    assert [store.read_now(meta.get, key) for key in ("long", "short", "refused")] == ["1", "1", None]
