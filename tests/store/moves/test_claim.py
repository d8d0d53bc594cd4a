"""Claims: which sessions a worker gets, in which order, and within which limits."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.clock import SECOND
from perdure.domain.session import SessionRecord
from perdure.domain.wait import WaitKind
from perdure.store.moves import event, lease, queue, session, wait
from perdure.store.moves.claim import Claim, ClaimRequest, claim
from perdure.store.store import Store
from perdure.testing import ManualClock
from tests.store.support.claim_cost import cost_of_claim, many_sessions
from tests.store.support.sessions import TTL, a_session, rows, session_of

TWO = pytest.mark.databases("sqlite", "postgres")
_numbers = iter(range(1, 10**9))


def ask(store: Store, limit: int = 10, **changed: Any) -> Claim:
    """One claim of a worker."""
    given: dict[str, Any] = {"worker": "w-1", "nonce": f"c-{next(_numbers)}", "ttl": TTL}
    given["programs"] = frozenset({"review", "other"})
    return store.write_now(claim(ClaimRequest(**(given | {"limit": limit} | changed))))


def ids(store: Store, claimed: Claim) -> list[str]:
    return [session_of(store, holder.uid).id for holder in claimed.holders]


def limit(store: Store, name: str = "default", **limits: Any) -> None:
    store.write_now(queue.set_limits(name, "ada", **limits))


def end(store: Store, claimed: Claim) -> None:
    for holder in claimed.holders:
        store.write_now(session.finish(holder, "done"))  # type: ignore[arg-type]


def slot_wait(store: Store, found: SessionRecord) -> list[str | None]:
    open_ = store.read_now(wait.open_of_kind, found.uid, WaitKind.SLOT)
    return [one.ref for one in open_]


def test_higher_priority_comes_first_and_then_the_turn(store: Store) -> None:
    for id in ("a-1", "a-2", "a-3"):
        a_session(store, id, owner="ada")
    a_session(store, "b-1", owner="bob", program="other")
    a_session(store, "low", priority=-1)
    a_session(store, "high", priority=7, program="other")
    found = ids(store, ask(store))
    assert (found[0], found[-1]) == ("high", "low")
    assert found[1:3] in (["a-1", "b-1"], ["b-1", "a-1"])
    assert found[3:5] == ["a-2", "a-3"]


@TWO
def test_the_first_session_of_another_owner_comes_in_the_next_claim(store: Store) -> None:
    for number in range(300):
        a_session(store, f"ada-{number}", owner="ada")
    ask(store, 4)
    a_session(store, "bob-1", owner="bob")
    assert "bob-1" in ids(store, ask(store, 4))


def test_a_claim_leases_sessions_and_leaves_others_ready(store: Store, clock: ManualClock) -> None:
    first, second, third = (a_session(store, id) for id in ("s-a", "s-b", "s-c"))
    got = ask(store, 2, code_version="v1")
    assert ids(store, got) == ["s-a", "s-b"]
    now = session_of(store, first.uid)
    assert (now.status, now.lease_holder, now.lease_until) == ("running", "w-1", clock.now() + TTL)
    assert (now.code_version, now.lease_alone, now.lease_epoch) == ("v1", 0, 1)
    assert session_of(store, third.uid).status == "ready"
    for holder in got.holders:
        store.write_now(event.append(holder, "note"))
    assert store.read_now(event.verify, second.uid).cursor == 3
    assert store.read_now(event.state_at, first.uid).session["code_version"] == "v1"


def test_only_announced_queues_and_known_programs_are_claimed(store: Store) -> None:
    a_session(store, "default")
    a_session(store, "night", queue="night")
    a_session(store, "unknown", program="unknown")
    assert ids(store, ask(store, queues=frozenset({"night", "empty"}))) == ["night"]
    assert ids(store, ask(store)) == ["default"]
    assert ask(store).holders == ()


def test_a_pinned_session_is_claimed_by_its_version_only(store: Store, clock: ManualClock) -> None:
    pinned = a_session(store, "pinned", pinned_at=clock.now())
    free = a_session(store, "free")
    got = ask(store, code_version="v1")
    for holder in got.holders:
        store.write_now(session.release(holder))
    assert {session_of(store, one.uid).code_version for one in (pinned, free)} == {"v1"}
    assert ids(store, ask(store, code_version="v2")) == ["free"]
    assert ids(store, ask(store, code_version="v1")) == ["pinned"]


def test_the_same_nonce_adopts_what_the_lost_answer_took(store: Store, clock: ManualClock) -> None:
    for number in range(3):
        a_session(store, f"s-{number}-x")
    first = ask(store, 2, nonce="lost")
    clock.advance(seconds=10)
    again = ask(store, 2, nonce="lost")
    assert sorted(one.uid for one in again.holders) == sorted(one.uid for one in first.holders)
    for holder in again.holders:
        assert session_of(store, holder.uid).lease_until == clock.now() + TTL
        store.write_now(event.append(holder, "note"))
    assert len(ask(store).holders) == 1


def test_an_adopted_session_knows_that_its_queue_has_limits(store: Store) -> None:
    a_session(store, "one", queue="small")
    a_session(store, "two")
    limit(store, "small", concurrency=1)
    ask(store, nonce="lost")
    adopted = {session_of(store, one.uid).id: one.is_limited for one in ask(store, nonce="lost").holders}
    assert adopted == {"one": True, "two": False}


def test_a_queue_runs_no_more_than_its_concurrency(store: Store) -> None:
    for number in range(5):
        a_session(store, f"q-{number}", queue="small")
        a_session(store, f"d-{number}")
    limit(store, "small", concurrency=2)
    got = ask(store, 20)
    assert sum(id.startswith("q") for id in ids(store, got)) == 2
    assert len(got.holders) == 7
    blocked = ask(store, 20, worker="w-2")
    assert (blocked.holders, blocked.wake_at is not None) == ((), True)
    first = next(one for one in got.holders if session_of(store, one.uid).queue == "small")
    store.write_now(session.finish(first, "done"))  # type: ignore[arg-type]
    assert len(ask(store, 20).holders) == 1
    limit(store, "small", concurrency=None)
    assert len(ask(store, 20).holders) == 2


def test_a_worker_runs_no_more_of_a_queue_than_allowed(store: Store) -> None:
    for number in range(4):
        a_session(store, f"p-{number}")
    limit(store, per_worker=1)
    assert [len(ask(store, 9, worker=name).holders) for name in ("w-1", "w-1", "w-2", "w-3")] == [1, 0, 1, 1]


def test_a_paused_queue_is_not_claimed_until_it_continues(store: Store) -> None:
    a_session(store, "one")
    limit(store, paused=True)
    assert ask(store).holders == ()
    limit(store, paused=False)
    assert ids(store, ask(store)) == ["one"]


def test_sessions_of_a_full_key_wait_for_a_slot_and_hold_none(store: Store) -> None:
    keyed = [a_session(store, f"k-{number}", concurrency_key="repo") for number in range(4)]
    a_session(store, "free")
    a_session(store, "other", concurrency_key="another")
    limit(store, per_key=1)
    got = ask(store)
    assert sorted(ids(store, got)) == ["free", "k-0", "other"]
    assert [session_of(store, one.uid).status for one in keyed] == ["running", "waiting", "waiting", "waiting"]
    assert slot_wait(store, keyed[1]) == ["repo"]
    assert ask(store).holders == ()
    end(store, got)
    second = ask(store)
    assert ids(store, second) == ["k-1"]
    assert slot_wait(store, keyed[1]) == []
    for one in keyed[1:3]:
        store.read_now(event.verify, one.uid)
        state = store.read_now(event.state_at, one.uid)
        assert state.session["status"] == session_of(store, one.uid).status
    limit(store, per_key=None)
    assert ids(store, ask(store)) == ["k-2", "k-3"]


def test_a_taken_session_no_longer_waits_for_a_slot(store: Store) -> None:
    _, second = (a_session(store, id, concurrency_key="repo") for id in ("k-0", "k-1"))
    limit(store, per_key=1)
    got = ask(store)
    assert slot_wait(store, second) == ["repo"]
    store.write_now(session.wake_up(second.uid, "ada"))  # as an answer to another wait does
    end(store, got)
    assert ids(store, ask(store)) == ["k-1"]
    assert slot_wait(store, second) == []
    store.read_now(event.verify, second.uid)


def test_a_session_that_is_moved_to_another_queue_gets_its_turn_there(store: Store) -> None:
    for number in range(20):
        a_session(store, f"ada-{number}", owner="ada", queue="long")
    moved = session_of(store, a_session(store, "moved", owner="ada", queue="long").uid)
    a_session(store, "bob", owner="bob")
    store.write_now(session.describe(moved.uid, "ada", expected=moved.version, queue="default"))
    a_session(store, "eve", owner="eve")
    assert ids(store, ask(store, queues=frozenset({"default"}))) == ["moved", "bob", "eve"]


def test_many_sessions_of_a_full_key_do_not_hide_others(store: Store) -> None:
    for number in range(30):
        a_session(store, f"k-{number}", concurrency_key="repo", priority=1)
    a_session(store, "free")
    limit(store, per_key=1)
    found = []
    for _ in range(10):
        got = ask(store, 2)
        found += ids(store, got)
        if got.wake_at is None or "free" in found:
            break
    assert found == ["k-0", "free"]


def test_a_rate_bounds_the_runs_of_every_period(store: Store, clock: ManualClock) -> None:
    for number in range(60):
        a_session(store, f"r-{number}")
    limit(store, rate_count=5, rate_period=10 * SECOND)
    begun: list[int] = []
    for _ in range(40):
        got = ask(store, 50)
        begun += [clock.now() for _ in got.holders]
        assert got.wake_at is not None
        clock.advance(seconds=max(0, got.wake_at - clock.now()) / SECOND)
    assert len(begun) >= 35
    assert max(sum(one <= two < one + 10 * SECOND for two in begun) for one in begun) == 5


def test_a_repeated_claim_uses_its_rate_once(store: Store) -> None:
    a_session(store)
    a_session(store)
    limit(store, rate_count=4, rate_period=10 * SECOND)
    first = ask(store, 1, nonce="lost")
    used = rows(store, "queue")
    assert [one.uid for one in ask(store, 1, nonce="lost").holders] == [one.uid for one in first.holders]
    assert rows(store, "queue") == used


def test_sessions_of_a_dead_holder_are_freed_and_others_are_not(store: Store) -> None:
    mine, other = a_session(store, "mine"), a_session(store, "other")
    ask(store, 1, worker="w-dead")
    ask(store, 1, worker="w-2")
    assert store.read_now(lease.of_holder, "w-dead") == [mine.uid]
    move = lease.free(mine.uid, "supervisor", holder="w-dead", because="it has exited")
    assert store.write_now(move)
    assert not store.write_now(lease.free(mine.uid, "supervisor", holder="w-dead", because="again"))
    assert not store.write_now(lease.free(other.uid, "supervisor", holder="w-dead", because="not its"))
    assert session_of(store, mine.uid).status == "ready"
    [line] = store.read_now(event.last, mine.uid, limit=1)
    assert (line.kind, line.body["because"]) == ("lease.expired", "it has exited")


def free_all(store: Store, claimed: Claim) -> None:
    for holder in claimed.holders:
        store.write_now(lease.free(holder.uid, "supervisor", holder=holder.name, because="dead"))


def test_neighbours_of_a_crash_are_suspected_and_not_blamed(store: Store) -> None:
    uids = [a_session(store, f"n-{number}").uid for number in range(3)]
    free_all(store, ask(store))
    rows = [session_of(store, uid) for uid in uids]
    assert [(one.crash_count, one.suspected_at is not None) for one in rows] == [(0, True)] * 3
    a_session(store, "healthy")
    busy = ask(store, is_idle=False)
    assert ids(store, busy) == ["healthy"]
    assert busy.suspected_since is not None
    alone = ask(store)
    assert (len(alone.holders), alone.is_alone) == (1, True)
    free_all(store, alone)
    assert session_of(store, alone.holders[0].uid).crash_count == 1
    assert sum(session_of(store, uid).crash_count for uid in uids) == 1


def test_a_suspect_that_waited_long_begins_beside_others_and_is_blamed(store: Store) -> None:
    a_session(store, "suspect")
    a_session(store, "neighbour")
    free_all(store, ask(store))
    first = ask(store)
    got = ask(store, is_idle=False, takes_suspect=True, alone=[first.holders[0].uid])
    assert (len(got.holders), got.is_alone, got.shared) == (1, True, (first.holders[0].uid,))
    free_all(store, got)
    free_all(store, first)
    assert session_of(store, got.holders[0].uid).crash_count == 1
    assert session_of(store, first.holders[0].uid).crash_count == 0


def test_progress_ends_the_suspicion(store: Store) -> None:
    uid = a_session(store).uid
    free_all(store, ask(store))
    assert session_of(store, uid).crash_count == 1  # it was alone
    (holder,) = ask(store).holders
    after = holder.cursor
    assert not store.read_now(lease.has_progress, uid, after, holder.name)
    store.write_now(event.append(holder, "note"))
    assert store.read_now(lease.has_progress, uid, after, holder.name)
    a_session(store, "second")
    got = ask(store, is_idle=False, alone=[uid])
    assert got.shared == (uid,)
    store.write_now(lease.free(uid, "supervisor", holder=holder.name, because="dead"))
    now = session_of(store, uid)
    assert (now.crash_count, now.suspected_at is not None) == (0, True)  # the second may have been the cause


def test_skipped_sessions_are_left_for_other_workers(store: Store) -> None:
    first, second = a_session(store, "one"), a_session(store, "two")
    assert ids(store, ask(store, 1, skip={first.uid: None})) == ["two"]
    assert ask(store, skip={first.uid: session_of(store, first.uid).cursor}).holders == ()
    assert ids(store, ask(store, skip={first.uid: 99, second.uid: None})) == ["one"]


def test_queues_take_turns(store: Store) -> None:
    for number in range(6):
        a_session(store, f"a-{number}", queue="a")
        a_session(store, f"b-{number}", queue="b", program="other")
    found = ids(store, ask(store, 4))
    assert sorted(id[0] for id in found) == ["a", "a", "b", "b"]
    one_at_a_time = [ids(store, ask(store, 1, rotation=turn))[0][0] for turn in range(4)]
    assert sorted(one_at_a_time) == ["a", "a", "b", "b"]


@pytest.mark.slow
@TWO
@pytest.mark.parametrize("programs", [1, 4])
def test_a_claim_reads_no_more_rows_with_many_waiting_sessions(store: Store, programs: int) -> None:
    """On SQLite the steps of the virtual machine are counted, on PostgreSQL rows."""
    many_sessions(store, 200, programs)
    few, cost_of_few = cost_of_claim(store, programs)
    many_sessions(store, 100_000, programs, first=1000)
    many, cost_of_many = cost_of_claim(store, programs)
    assert (len(few.holders), len(many.holders)) == (10, 10)
    assert cost_of_many <= cost_of_few * 1.1
    if store.database.dialect == "postgres":
        assert cost_of_many <= 3 * len(many.holders) + programs
