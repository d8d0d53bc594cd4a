"""Sessions: begun once, described by version, ended for good, found by a beginning of their name."""

from typing import Any

import pytest

from perdure.domain.session import TERMINAL, Status
from perdure.errors import ConfigError, Conflict, IllegalMove, LeaseHeld, LeaseLost, NotFound
from perdure.store.move import Move
from perdure.store.moves import event, inbox, lease, message, session, session_end
from perdure.store.moves.session import NewSession
from perdure.store.store import Store
from perdure.store.transfer import session_export
from perdure.testing import ManualClock
from tests.store.support.sessions import TTL, a_holder, a_session, session_of


def test_a_new_session_is_ready_and_has_one_event(store: Store, clock: ManualClock) -> None:
    made = a_session(store, "review-7", title="Review", owner="ada", priority=3, arguments={"pr": 7, "deep": [1, None]})
    assert (made.id, made.status, made.cursor, made.version) == ("review-7", "ready", 1, 1)
    assert (made.title, made.owner, made.priority, made.queue) == ("Review", "ada", 3, "default")
    assert made.arguments == {"pr": 7, "deep": [1, None]}
    assert made.created_at == made.updated_at == clock.now()
    [created] = store.read_now(event.after, made.uid)
    assert (created.number, created.kind, created.actor, created.at) == (1, "session.created", "ada", clock.now())
    assert session_of(store, made.uid) == made


def test_a_known_id_with_equal_arguments_is_that_session(store: Store) -> None:
    first = a_session(store, "review-7", arguments={"pr": 7, "by": "ada"})
    assert a_session(store, "review-7", arguments={"by": "ada", "pr": 7}) == first
    assert len(store.read_now(event.after, first.uid)) == 1


@pytest.mark.parametrize("other", [{"arguments": {"pr": 8}}, {"arguments": {"pr": True}}, {"program": "merge"}])
def test_a_known_id_with_other_content_is_a_conflict(store: Store, other: dict[str, object]) -> None:
    there = a_session(store, "review-1", arguments={"pr": 1})
    with pytest.raises(Conflict, match="review-1"):
        a_session(store, "review-1", **({"arguments": {"pr": 1}} | other))
    assert session_of(store, there.uid) == there


def test_arguments_that_are_not_json_are_refused_before_anything_is_written(store: Store) -> None:
    with pytest.raises(ConfigError):
        session.create(NewSession(id="s", program="p", arguments=object()), by="ada")


def test_a_parent_that_does_not_exist_is_refused(store: Store) -> None:
    with pytest.raises(Conflict):
        a_session(store, "child", parent_uid="0" * 32, parent_wait="w")
    with pytest.raises(NotFound):
        store.read_now(session.get_by_id, "child")


def test_release_gives_the_session_back_and_forgets_its_crashes(store: Store, clock: ManualClock) -> None:
    uid = a_session(store).uid
    a_holder(store, uid)
    clock.advance(seconds=61)
    second = a_holder(store, uid, by="worker-2")
    assert session_of(store, uid).crash_count == 1
    store.write_now(session.release(second))
    now = session_of(store, uid)
    assert (now.status, now.crash_count) == ("ready", 0)
    assert (now.lease_holder, now.lease_nonce, now.lease_until, now.lease_epoch) == (None, None, None, second.epoch)


@pytest.mark.parametrize("status", sorted(TERMINAL))
def test_a_finished_session_stays_finished(store: Store, status: Status) -> None:
    holder = a_holder(store)
    failure = None if status is Status.DONE else {"why": "no"}
    store.write_now(session.finish(holder, status, result=[1] if failure is None else None, error=failure))
    ended = session_of(store, holder.uid)
    assert (ended.status, ended.result, ended.error) == (status, [1] if failure is None else None, failure)
    assert (ended.lease_holder, ended.lease_nonce, ended.lease_until) == (None, None, None)
    with pytest.raises(LeaseLost):
        store.write_now(session.finish(holder, status))
    moves: list[Move[Any]] = [
        lease.acquire(holder.uid, "b", nonce="n", ttl=TTL),
        lease.take_over(holder.uid, "b", nonce="n", ttl=TTL, because="why not"),
        session_end.cancel(holder.uid, by="ada"),
        session.request_pause(holder.uid, by="ada"),
        inbox.receive(holder.uid, "ada", "m-1", "hello"),
    ]
    for refused in moves:
        with pytest.raises(IllegalMove):
            store.write_now(refused)
    assert session_of(store, holder.uid) == ended


def test_a_session_finishes_only_in_a_terminal_status(store: Store) -> None:
    holder = a_holder(store)
    with pytest.raises(ConfigError):
        store.write_now(session.finish(holder, Status.WAITING))


def test_a_session_that_is_done_has_no_error(store: Store) -> None:
    holder = a_holder(store)
    with pytest.raises(ConfigError):
        store.write_now(session.finish(holder, Status.DONE, result=1, error={"why": "both"}))


def test_restart_uses_the_new_arguments(store: Store) -> None:
    holder = a_holder(store)
    assert store.write_now(session.restart(holder, {"pr": 8})) == 1
    assert store.write_now(session.restart(holder, None)) == 2
    now = session_of(store, holder.uid)
    assert (now.restart_number, now.restart_arguments, now.arguments, now.status) == (2, None, {"pr": 7}, "running")


def test_usage_adds_up(store: Store) -> None:
    holder = a_holder(store)
    for _ in range(3):
        store.write_now(message.add_usage(holder, tokens_in=100, tokens_out=10, cost_micros=7))
    now = session_of(store, holder.uid)
    assert (now.tokens_in, now.tokens_out, now.cost_micros) == (300, 30, 21)


def test_a_cancel_request_is_recorded_once_and_the_session_keeps_running(store: Store, clock: ManualClock) -> None:
    holder = a_holder(store)
    store.write_now(session_end.cancel(holder.uid, by="ada"))
    asked_at = clock.now()
    clock.advance(seconds=5)
    store.write_now(session_end.cancel(holder.uid, by="bob"))
    now = session_of(store, holder.uid)
    assert (now.status, now.cancel_requested_at, now.lease_epoch) == ("running", asked_at, holder.epoch)
    assert [line.kind for line in store.read_now(event.after, holder.uid)].count("cancel.requested") == 1


def test_a_pause_request_is_recorded_once(store: Store, clock: ManualClock) -> None:
    uid = a_session(store).uid
    store.write_now(session.request_pause(uid, by="ada"))
    asked_at = clock.now()
    clock.advance(seconds=5)
    store.write_now(session.request_pause(uid, by="ada"))
    assert (session_of(store, uid).pause_requested_at, session_of(store, uid).cursor) == (asked_at, 2)


def test_describing_needs_the_version_that_was_read(store: Store) -> None:
    uid = a_session(store, title="old", owner="ada").uid
    assert store.write_now(session.describe(uid, by="ada", expected=1, title="new", priority=4)) == 2
    with pytest.raises(Conflict, match="at 2"):
        store.write_now(session.describe(uid, by="bob", expected=1, title="other"))
    assert store.write_now(session.describe(uid, by="bob", expected=2, owner=None)) == 3
    now = session_of(store, uid)
    assert (now.title, now.owner, now.priority, now.queue, now.version) == ("new", None, 4, "default", 3)


@pytest.mark.parametrize(
    "changes", [{"status": "done"}, {"title": "a\0b"}, {"title": 5}, {"queue": None}, {"priority": "high"}]
)
def test_describing_refuses_what_a_session_cannot_be(store: Store, changes: dict[str, object]) -> None:
    there = a_session(store)
    with pytest.raises(ConfigError):
        store.write_now(session.describe(there.uid, by="ada", expected=1, **changes))
    assert session_of(store, there.uid) == there


def test_a_sealed_session_refuses_moves(store: Store, clock: ManualClock) -> None:
    uid = a_session(store).uid
    store.write_now(session_export.seal(uid, "ada", store="here"))
    assert session_of(store, uid).sealed_at == clock.now()
    moves: list[Move[Any]] = [
        lease.acquire(uid, "w", nonce="n", ttl=TTL),
        inbox.receive(uid, "ada", "m", "hello"),
        session_export.seal(uid, "ada", store="here"),
    ]
    for refused in moves:
        with pytest.raises(IllegalMove, match="sealed"):
            store.write_now(refused)


def test_a_running_session_cannot_be_sealed(store: Store) -> None:
    holder = a_holder(store)
    with pytest.raises(LeaseHeld):
        store.write_now(session_export.seal(holder.uid, "ada", store="here"))


def test_a_session_that_is_not_there_is_not_found(store: Store) -> None:
    for query in (session.get, session.get_by_id, session.find):
        with pytest.raises(NotFound):
            store.read_now(query, "missing")
    with pytest.raises(NotFound):
        store.write_now(session_end.cancel("missing", by="ada"))
