"""The feed of all events: each once, in one order, also those that are committed late."""

from __future__ import annotations

import threading

import pytest

from perdure.errors import Conflict
from perdure.evaluation.audit.history import write_history
from perdure.store.move import Move, StoreTransaction
from perdure.store.moves import event, feed
from perdure.store.moves.feed import FeedEvent
from perdure.store.store import Store, open_store
from perdure.testing import ManualClock
from tests.store.support.sessions import a_session


def number(store: Store, since: int | None = None) -> None:
    place: str | None = ""
    while place is not None:
        place = store.write_now(feed.number(since, place))


def read(store: Store, after: int = 0, size: int = feed.PAGE) -> list[FeedEvent]:
    found: list[FeedEvent] = []
    while page := store.read_now(feed.read, after, size):
        found, after = found + page, page[-1].position
    return found


def committed(store: Store) -> set[tuple[str | None, int]]:
    """Every event that is in the store."""

    def logs(tx: StoreTransaction) -> set[tuple[str | None, int]]:
        rows = tx.execute("select session_uid, number from event", [])
        return {(str(uid), n) for uid, n in rows} | {
            (None, row[0]) for row in tx.execute("select number from control_event", [])
        }

    return store.read_now(logs)


def test_every_event_is_in_the_feed_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "BATCH", 4)
    write_history(store, events=1_000)
    number(store)
    whole = read(store)
    assert [one.position for one in whole] == list(range(1, len(whole) + 1))
    assert {(one.session_uid, one.number) for one in whole} == committed(store)
    assert read(store, size=7) == whole
    assert read(store, after=5) == whole[5:]
    logs: dict[str | None, int] = {}
    for one in whole:  # each log is in order
        assert one.number == logs.get(one.session_uid, 0) + 1
        logs[one.session_uid] = one.number


def test_what_comes_later_continues_and_changes_nothing_before(store: Store) -> None:
    first = a_session(store)
    number(store)
    before = [(one.position, one.chain) for one in read(store)]
    store.write_now(event.erase(first.uid, by="ada", numbers=[1], because="asked for"))
    a_session(store)
    number(store, since=store.clock.now())
    assert [(one.position, one.chain) for one in read(store)][: len(before)] == before
    assert {(one.session_uid, one.number) for one in read(store)} == committed(store)
    number(store)
    assert store.read_now(feed.end) == len(committed(store))


def test_a_commit_that_comes_late_is_in_the_feed(store: Store, clock: ManualClock) -> None:
    """Its session looks as if it had changed long ago, so only the look at all sessions finds it."""
    a_session(store)
    clock.advance(days=1)
    a_session(store)
    number(store)
    kept = store.read_now(feed.end)

    late = a_session(store)
    with_old_time = "update session set updated_at = 1 where uid = ?"
    store.write_now(change(with_old_time, late.uid))
    number(store, since=clock.now())
    assert read(store, after=kept) == []
    number(store)
    assert [(one.session_uid, one.number) for one in read(store, after=kept)] == [(late.uid, 1)]


def change(sql: str, uid: str) -> Move[None]:
    return Move("test.change", "plain", lambda tx: tx.execute(sql, [uid]).clear())


@pytest.mark.databases("sqlite", "postgres")
def test_two_processes_give_each_event_one_number(store: Store, target: str) -> None:
    write_history(store, events=1_000)
    with open_store(target) as other:
        threads = [threading.Thread(target=number, args=(one,)) for one in (store, other) * 2]
        for one in threads:
            one.start()
        for one in threads:
            one.join(timeout=180)
    whole = read(store)
    assert [one.position for one in whole] == list(range(1, len(committed(store)) + 1))
    assert {(one.session_uid, one.number) for one in whole} == committed(store)


def test_a_position_beyond_the_feed_says_that_the_store_was_set_back(store: Store) -> None:
    a_session(store)
    number(store)
    with pytest.raises(Conflict, match="set back"):
        store.read_now(feed.read, 2)
