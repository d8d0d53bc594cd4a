"""Sessions that do not continue by themselves: each is found with its reason, and nothing else is."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.clock import SECOND
from perdure.control.doctor.stuck_sessions import SILENCE, Fleet, StuckSession, stuck
from perdure.domain.wait import WaitKind
from perdure.domain.worker import WorkerRecord
from perdure.errors import Damaged
from perdure.store.moves import event, wait, worker
from perdure.store.moves.attempt import report
from perdure.store.statements import load
from perdure.store.store import Store
from perdure.testing import ManualClock
from tests.store.support.sessions import a_holder, a_session, connection_of, raw

pytestmark = pytest.mark.databases("sqlite", "postgres")


def a_worker(**columns: Any) -> WorkerRecord:
    given = {"id": "w-1", "programs": ["review"]} | columns
    return WorkerRecord(
        host="h", boot_id="b", pid=1, start_token="t", schema_from=1, schema_to=8, started_at=0, seen_at=0, **given
    )


def find(store: Store, clock: ManualClock, **options: Any) -> list[StuckSession]:
    return store.read_now(stuck, clock.now(), **options)


def reasons(found: list[StuckSession]) -> dict[str, str]:
    return {one.id: one.reason for one in found}


def test_ready_session_without_a_worker_is_stuck_after_a_minute(store: Store, clock: ManualClock) -> None:
    for number in range(3):
        a_session(store, f"s-{number}", owner=f"o-{number}")
    assert find(store, clock) == []
    clock.advance(seconds=61)
    (one,) = find(store, clock)  # one stands for all of its queue and program
    assert (one.kind, one.status, one.level, one.reason) == ("ready", "ready", "stuck", "No worker is running.")
    store.write_now(worker.register(a_worker()))
    assert find(store, clock) == []
    assert reasons(find(store, clock, is_alive=lambda _: False)) == {one.id: "No worker is running."}


def test_ready_session_names_the_queue_or_program_that_is_missing(store: Store, clock: ManualClock) -> None:
    store.write_now(worker.register(a_worker()))
    a_session(store, "s-1", program="deploy")
    a_session(store, "s-2", program="review", queue="paused")
    a_session(store, "s-3", program="review", queue="zero")
    a_session(store, "s-4", program="review")
    columns = "(name, concurrency, paused_at, version, updated_by, updated_at)"
    raw(store, f"insert into queue {columns} values ('paused', 4, 1, 1, 'ada', 1), ('zero', 0, null, 1, 'ada', 1)")
    clock.advance(seconds=61)
    found = find(store, clock)
    assert reasons(found) == {
        "s-1": "No running worker has the program deploy.",
        "s-2": "Queue paused is paused.",
        "s-3": "Queue zero has a concurrency of 0.",
    }
    assert {one.id: one.level for one in found} == {"s-1": "stuck", "s-2": "note", "s-3": "note"}


def test_worker_of_another_queue_or_version_takes_no_session() -> None:
    fleet = Fleet([a_worker(queues=["a"], code_version="2"), a_worker(role="supervisor")])
    assert fleet.missing("a", "review") is None
    assert fleet.missing("a", "review", "2") is None
    reasons = [(fleet.missing("b", "review") or ("",))[0], (fleet.missing("a", "review", "1") or ("",))[0]]
    assert reasons == ["No running worker takes queue b.", "It is pinned to version 1, which no running worker has."]
    assert Fleet([a_worker(draining_at=1)]).missing("a", "review") == Fleet([]).missing("a", "review")


def test_running_session_is_silent_until_an_event_or_a_heartbeat(store: Store, clock: ManualClock) -> None:
    holder = a_holder(store, a_session(store, "s-1").uid, ttl=100 * SILENCE)
    clock.advance(seconds=SILENCE / SECOND + 1)
    (one,) = find(store, clock)
    assert (one.id, one.kind, one.level) == ("s-1", "silent", "note")
    store.write_now(event.append(holder, "note"))
    assert find(store, clock) == []
    clock.advance(seconds=2 * SILENCE / SECOND)
    assert [one.id for one in find(store, clock)] == ["s-1"]
    store.write_now(report(holder.uid, "e-none", 1, "nothing"))  # of an attempt that is not recorded
    assert [one.id for one in find(store, clock)] == ["s-1"]


def test_waits_that_no_process_ends_and_times_that_passed_are_found(store: Store, clock: ManualClock) -> None:
    kinds = (WaitKind.PROGRAM, WaitKind.WORKSPACE, WaitKind.POLICY, WaitKind.QUARANTINE, WaitKind.INPUT)
    for kind in (*kinds, WaitKind.TIMER):
        holder = a_holder(store, a_session(store, f"s-{kind}").uid)
        due_at = clock.now() + SECOND if kind is WaitKind.TIMER else None
        store.write_now(wait.open_(holder, "w", kind, due_at=due_at))
        store.write_now(wait.park(holder, ["w"]))
    assert {one.kind for one in find(store, clock)} == set(kinds) - {WaitKind.INPUT}
    clock.advance(seconds=62)
    found = {one.kind: one for one in find(store, clock)}
    assert found.keys() == {*kinds, "overdue"} - {WaitKind.INPUT}
    assert found["overdue"].reason == (
        "The time that it waits for has passed, and no worker and no service is running."
    )


def test_search_follows_indexes_however_many_sessions_there_are(store: Store, clock: ManualClock) -> None:
    """Sessions that have ended, and those that are ready behind the first of their queue, are not read."""
    for number in range(3):
        a_session(store, f"s-{number}", queue=f"q-{number}")
    clock.advance(seconds=61)
    if store.database.dialect == "sqlite":
        names = [name for name in load("sqlite") if name.startswith("stuck.")]
        plans = store.read_now(lambda tx: {name: plan_of(tx, name) for name in names})
        tables = tuple(f"SCAN {table}" for table in ("session", "event", "wait", "effect", "attempt"))
        assert [line for lines in plans.values() for line in lines if line.startswith(tables)] == []
        assert [name for name in plans if "first" in name and "USE TEMP" in str(plans[name])] == []
    assert len(find(store, clock)) == 3


def plan_of(tx: Any, name: str) -> list[str]:
    """How SQLite executes a statement, one line for each table."""
    values = dict.fromkeys(("now", "before", "limit"), 1) | dict.fromkeys(("queue", "program", "kind", "version"), "x")
    return [row[3] for row in connection_of(tx).execute(f"explain query plan {load('sqlite')[name]}", values)]


@pytest.mark.databases("sqlite")
def test_row_that_cannot_be_read_hides_no_other_reason(store: Store, clock: ManualClock) -> None:
    a_session(store, "s-1")
    holder = a_holder(store, a_session(store, "s-2").uid, ttl=100 * SILENCE)
    raw(store, f"update session set lease_holder = cast(x'ff61' as text) where uid = '{holder.uid}'")
    clock.advance(seconds=SILENCE / SECOND + 1)
    damaged: list[Damaged] = []
    assert reasons(find(store, clock, damaged=damaged)) == {"s-1": "No worker is running."}
    assert len(damaged) == 1
