"""Throughput and latency of queues: what they count, and that old sessions cost nothing."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.clock import SECOND
from perdure.domain.queue_latency import DAY, EndedSession, quantile, summary
from perdure.domain.session import Status
from perdure.domain.wait import WaitKind
from perdure.store.move import StoreTransaction
from perdure.store.moves import queue, queue_latency, session, session_end, wait
from perdure.store.statements import load
from perdure.store.store import Store
from perdure.testing import ManualClock
from tests.store.support.sessions import a_holder, a_session, connection_of


def an_ended_session(store: Store, clock: ManualClock, waited: int, ran: int, name: str = "builds") -> None:
    made = a_session(store, queue=name)
    clock.advance(seconds=waited)
    holder = a_holder(store, made.uid)
    clock.advance(seconds=ran)
    store.write_now(session.finish(holder, Status.DONE))


def test_sessions_count_with_how_long_they_waited_and_ran(store: Store, clock: ManualClock) -> None:
    for waited, ran in ((1, 10), (2, 20), (40, 5)):
        an_ended_session(store, clock, waited, ran)
    an_ended_session(store, clock, 7, 7, name="other")
    store.write_now(session_end.cancel(a_session(store, queue="builds").uid, "ada"))
    found = store.read_now(queue_latency.of_queue, "builds")
    for one in (found.hour, found.day):
        assert (one.ended, one.done, one.cancelled, one.failed) == (4, 3, 1, 0)
        assert (one.wait_p50, one.wait_p95) == (2 * SECOND, 40 * SECOND)
        assert (one.run_p50, one.run_p95) == (10 * SECOND, 20 * SECOND)
        assert sum(one.parts) == 4
    assert [one.name for one in store.read_now(queue_latency.of_queues)] == ["builds", "other"]
    clock.advance(hours=2)
    found = store.read_now(queue_latency.of_queue, "builds")
    assert (found.hour.ended, found.hour.wait_p50, found.day.ended) == (0, None, 4)
    clock.advance(hours=24)
    assert store.read_now(queue_latency.of_queues) == []


def test_a_change_after_the_end_does_not_move_the_end(store: Store, clock: ManualClock) -> None:
    made = a_session(store, queue="builds")
    holder = a_holder(store, made.uid)
    store.write_now(session.finish(holder, Status.DONE))
    clock.advance(hours=2)
    store.write_now(session_end.archive(made.uid, "ada"))
    found = store.read_now(queue_latency.of_queue, "builds")
    assert (found.hour.ended, found.day.ended, found.is_complete) == (0, 1, True)
    assert found.day.parts[-3] == 1
    assert not store.read_now(queue_latency.of_queues, most=0)


@pytest.mark.databases("sqlite")
def test_the_rows_that_are_read_do_not_grow_with_older_sessions(store: Store, clock: ManualClock) -> None:
    def steps() -> int:
        """How many instructions of SQLite the numbers of all queues take, in tens."""
        seen = 0

        def count() -> int:
            nonlocal seen
            seen += 1
            return 0

        def read(tx: StoreTransaction) -> Any:
            db = connection_of(tx)
            db.set_progress_handler(count, 10)
            try:
                return queue_latency.of_queues(tx)
            finally:
                db.set_progress_handler(None, 10)

        assert [one.day.ended for one in store.read_now(read)] == [2]
        return seen

    def recent() -> int:
        an_ended_session(store, clock, 1, 1)
        an_ended_session(store, clock, 1, 1)
        return steps()

    few = recent()
    clock.advance(hours=48)
    for _ in range(150):
        an_ended_session(store, clock, 1, 1)
    clock.advance(hours=48)
    assert recent() <= few * 1.5


@pytest.mark.databases("postgres")
def test_the_sessions_and_their_events_are_found_by_indexes_on_postgres(target: str) -> None:
    import psycopg

    with psycopg.connect(target) as db:
        db.execute("set enable_seqscan = off")
        given = {"since": 0, "most": 10, "queue": None}
        lines = [row[0] for row in db.execute(f"explain {load('postgres')['queue.ended']}".encode(), given)]
    assert [line for line in lines if "session_recent" in line]
    assert [line for line in lines if "Seq Scan on" in line] == []


def test_a_queue_whose_sessions_all_wait_is_listed(store: Store) -> None:
    holder = a_holder(store)
    store.write_now(wait.open_(holder, "w", WaitKind.INPUT))
    store.write_now(wait.park(holder, ["w"]))
    (found,) = store.read_now(queue.listing)
    assert (found.name, found.waiting, found.ready, found.running) == ("default", 1, 0, 0)


def test_quantiles_are_values_that_occurred() -> None:
    assert (quantile([], 50), quantile([3], 95), quantile([1, 2], 50)) == (None, 3, 1)
    assert quantile(list(range(1, 101)), 95) == 95


def test_a_session_at_the_edge_of_the_time_is_in_one_part() -> None:
    ended = [EndedSession("q", "done", 0, 1, at) for at in (DAY, 1, 0)]
    assert summary("q", ended, DAY).day.parts == [1] + [0] * 22 + [1]
