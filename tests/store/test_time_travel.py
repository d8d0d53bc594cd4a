"""The state of a session at any event, derived from its log, is what the rows said then."""

from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings

from perdure.domain.notification import ChannelKind
from perdure.domain.record import Record
from perdure.domain.state import KEYS, NOT_STATE, SessionState, row_name
from perdure.domain.wait import WaitKind
from perdure.domain.worker import WorkerRecord
from perdure.ids import decode, encode
from perdure.store.move import StoreTransaction
from perdure.store.moves import (
    checkpoint,
    decision,
    event,
    fact,
    lease,
    notification,
    queue,
    rate_limit,
    schedule,
    session,
    task,
    wait,
    worker,
)
from perdure.store.store import Store, open_store
from perdure.testing import ManualClock
from tests.store.support.move_list import HOT
from tests.store.support.random_moves import MOVES, RandomSession, stories
from tests.store.support.sessions import DEFINITION, TTL, a_holder, a_session, everything

Story = list[tuple[str, int, int]]

on_one_store = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def rows_now(tx: StoreTransaction, uid: str, scope: str) -> SessionState:
    """What the tables say, in the form that the log is folded into."""
    row = session.get(tx, uid)

    def named(table: str, records: list[Any]) -> dict[str, Any]:
        return {row_name(KEYS[table], record.to_dict()): plain(record) for record in records}

    return SessionState(
        row.cursor,
        {name: value for name, value in plain(row).items() if name not in NOT_STATE},
        named("wait", wait.of_session(tx, uid)),
        named("task", task.of_session(tx, uid)),
        named("decision", decision.recent(tx, uid)),
        named("fact", fact.listing(tx, scope)),
        {},
        {},
    )


def plain(record: Record) -> Any:
    return decode(encode(record.to_dict()))


def check_story(store: Store, clock: ManualClock, story: Story) -> None:
    life = RandomSession(store, clock)
    said = {}
    for move in [None, *story]:
        life.live([move] if move else [])
        now = store.read_now(rows_now, life.uid, life.scope)
        said[now.number] = now
    for number, then in said.items():
        assert store.read_now(event.state_at, life.uid, number) == then
    store.read_now(event.verify, life.uid)


EVERYTHING: Story = [
    (name, a, b) for name in MOVES if name not in ("finish", "release", "take over") for a in (1, 2) for b in (0, 1)
]


@pytest.mark.slow
@pytest.mark.databases("sqlite", "memory", "files")
@on_one_store
@given(stories)
@example([*EVERYTHING, ("finish", 1, 3)])
def test_state_at_any_event_matches_the_rows_at_that_time(store: Store, clock: ManualClock, story: Story) -> None:
    check_story(store, clock, story)


@pytest.mark.databases("postgres")
@settings(on_one_store, max_examples=12)
@given(stories)
@example([*EVERYTHING, ("finish", 1, 3)])
def test_state_at_any_event_matches_the_rows_on_other_databases(store: Store, clock: ManualClock, story: Story) -> None:
    check_story(store, clock, story)


@pytest.mark.databases("sqlite", "files", "postgres")
def test_every_row_is_there_when_the_store_is_opened_again(target: str, clock: ManualClock) -> None:
    with open_store(target, clock=clock) as store:
        life = RandomSession(store, clock)
        life.live([*EVERYTHING, ("remember", 1, 7), ("take over", 0, 0)])
        store.write_now(checkpoint.put(life.holder, number=2, codec="c", fingerprint="f", body='{"b": 1}'))
        store.write_now(lease.acquire_named("r", holder="w", nonce="n", ttl=TTL))
        store.write_now(worker.register(WorkerRecord("w", "h", "b", 1, "t", 1, 1, ["p"], 0, 0)))
        store.write_now(queue.set_limits("default", "ada", concurrency=3))
        store.write_now(rate_limit.set_limit("anthropic", "ada", requests=3))
        store.write_now(schedule.put("nightly", DEFINITION, by="ada"))
        store.write_now(HOT["effect.plan_and_dispatch"](a_holder(store)))
        store.write_now(notification.put_channel("ops", ChannelKind.WEBHOOK, [], by="ada"))
        store.write_now(notification.write_test("ops", "n-1"))
        before = everything(store)
    assert [table for table, rows in before.items() if not rows] == [
        *("approval", "vote", "restore", "access", "feed", "search_entry"),
    ]
    with open_store(target, clock=clock) as store:
        assert everything(store) == before
        store.read_now(event.verify, life.uid)


def test_state_of_a_session_with_every_kind_of_move(store: Store, clock: ManualClock) -> None:
    holder = a_holder(store, a_session(store, title="Review").uid)
    store.write_now(wait.open_(holder, "w", WaitKind.INPUT, detail={"question": "merge?"}))
    store.write_now(wait.park(holder, ["w"]))
    clock.advance(hours=8)
    store.write_now(wait.resolve(holder.uid, "ada", "w", {"merge": True}))
    statuses = [store.read_now(event.state_at, holder.uid, number).session["status"] for number in range(1, 6)]
    assert statuses == ["ready", "running", "running", "waiting", "ready"]
    asked, answered = (store.read_now(event.state_at, holder.uid, number).waits["w"] for number in (4, 5))
    assert (asked["answer"], asked["resolved_by"]) == (None, None)
    assert (answered["answer"], answered["resolved_by"]) == ({"merge": True}, "ada")
    assert store.read_now(event.state_at, holder.uid) == store.read_now(event.state_at, holder.uid, 5)


def test_a_fact_of_another_session_that_was_verified_is_known_whole(store: Store) -> None:
    one, two = a_session(store).uid, a_session(store).uid
    store.write_now(fact.remember(one, "ada", "shared", "k", {"is": "main"}))
    store.write_now(fact.record_verification(two, "bob", "shared", "k", 1))
    now = store.read_now(fact.get, "shared", "k")
    assert now is not None
    assert store.read_now(event.state_at, two).facts == {"shared k": now.to_dict()}


def test_reading_a_past_state_changes_nothing_and_needs_no_checkpoint(store: Store) -> None:
    holder = a_holder(store)
    store.write_now(checkpoint.put(holder, number=2, codec="c", fingerprint="f", body="b"))
    before, state = everything(store), store.read_now(event.state_at, holder.uid)
    assert everything(store) == before
    store.write_now(checkpoint.delete_all())
    assert store.read_now(event.state_at, holder.uid) == state
