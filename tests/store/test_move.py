"""Who may make a move: the holder of the current epoch, or an outsider; no one on a sealed session."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from perdure.domain.lease import Holder
from perdure.domain.wait import WaitKind
from perdure.errors import ConfigError, IllegalMove, LeaseLost, NotFound
from perdure.store.move import Move, StoreTransaction, plain_move
from perdure.store.moves import fact, inbox, lease, meta, session, session_end, wait
from perdure.store.store import Store
from perdure.store.transfer import session_export
from perdure.testing import ManualClock
from tests.store.support.move_list import WRITTEN_OUT, holder_moves, outsider_moves, written_out
from tests.store.support.sessions import TTL, a_holder, a_session, everything, session_of

HOLDER_MOVES = holder_moves()
OUTSIDER_MOVES = outsider_moves()

Make = Callable[[Holder], Move[Any]]


def test_every_move_is_listed() -> None:
    assert written_out() == WRITTEN_OUT.keys()
    assert {"session.release", "session.finish", "wait.open_", "wait.park", "inbox.promote"} <= HOLDER_MOVES.keys()
    assert {"task.add", "task.change", "decision.decide", "decision.settle", "step.record"} <= HOLDER_MOVES.keys()
    assert {"lease.acquire", "wait.resolve", "inbox.receive", "fact.remember", "event.erase"} <= OUTSIDER_MOVES.keys()


@pytest.mark.parametrize("make", HOLDER_MOVES.values(), ids=HOLDER_MOVES.keys())
def test_stale_epoch_cannot_move(store: Store, clock: ManualClock, make: Make) -> None:
    """However it became stale: taken over, expired, or released and acquired by the same worker again.

    It knows where the log ends, so that only its epoch is in its way.
    """
    taken, expired, released = a_holder(store), a_holder(store), a_holder(store)
    store.write_now(lease.take_over(taken.uid, "worker-2", nonce="other", ttl=TTL, because="found dead"))
    clock.advance(seconds=61)
    store.write_now(lease.expire(expired.uid, "housekeeping"))
    store.write_now(session.release(released))
    a_holder(store, released.uid)
    before = everything(store)
    for stale in (taken, expired, released):
        now = session_of(store, stale.uid)
        stale.advance(now.cursor, now.chain)
        with pytest.raises(LeaseLost):
            store.write_now(make(stale))
    assert everything(store) == before


@pytest.mark.parametrize("make", HOLDER_MOVES.values(), ids=HOLDER_MOVES.keys())
@pytest.mark.databases("memory", "postgres")
def test_a_holder_of_nothing_cannot_move(store: Store, make: Make) -> None:
    with pytest.raises((NotFound, LeaseLost)):
        store.write_now(make(Holder("0" * 32, "w", "n", 1, 1, "")))


@pytest.mark.parametrize("make", OUTSIDER_MOVES.values(), ids=OUTSIDER_MOVES.keys())
@pytest.mark.databases("memory", "postgres")
def test_no_outsider_moves_a_sealed_session_or_none(store: Store, make: Callable[[str, str], Move[Any]]) -> None:
    uid = a_session(store).uid
    store.write_now(session_export.seal(uid, "ada", store="here"))
    before = everything(store)
    with pytest.raises(IllegalMove, match="sealed"):
        store.write_now(make(uid, "ada"))
    with pytest.raises(NotFound):
        store.write_now(make("0" * 32, "ada"))
    assert everything(store) == before


def outsiders(uid: str) -> list[Move[Any]]:
    return [
        inbox.receive(uid, "ada", "m-1", "hello"),
        fact.remember(uid, "ada", "s", "k", 1),
        fact.record_verification(uid, "ada", "s", "k", 1),
        fact.forget(uid, "ada", "s", "k", 1),
        session.describe(uid, by="ada", expected=1, title="new"),
        session.request_pause(uid, by="ada"),
    ]


def test_outsiders_need_no_lease_and_disturb_no_holder(store: Store) -> None:
    ready, holder, waiting = a_session(store).uid, a_holder(store), a_holder(store)
    store.write_now(wait.open_(waiting, "w", WaitKind.APPROVAL))
    store.write_now(wait.park(waiting, ["w"]))
    for uid in (ready, holder.uid, waiting.uid):
        cursor = session_of(store, uid).cursor
        for number, move in enumerate(outsiders(uid), 1):
            store.write_now(move)
            assert session_of(store, uid).cursor == cursor + number
    now = session_of(store, holder.uid)
    assert (now.status, now.lease_epoch, now.lease_nonce) == ("running", holder.epoch, holder.nonce)
    store.write_now(session.release(holder))


def test_a_holder_sees_what_was_asked_of_it_at_its_next_move(store: Store) -> None:
    holder = a_holder(store)
    assert (holder.cancel_requested, holder.pause_requested) == (False, False)
    store.write_now(session_end.cancel(holder.uid, by="ada"))
    store.write_now(session.request_pause(holder.uid, by="ada"))
    store.write_now(lease.renew(holder, TTL))
    assert (holder.cancel_requested, holder.pause_requested) == (True, True)


@plain_move
def fail_and_continue(tx: StoreTransaction) -> None:
    for _ in range(8):  # often enough for psycopg to prepare it
        tx.execute("select 1", ())
    with suppress(ConfigError):
        tx.execute("select * from nowhere", ())


def test_a_failed_statement_of_a_user_does_not_break_later_writes(store: Store) -> None:
    for number in range(3):
        store.write_now(meta.put("number", str(number)))
        store.write_now(fail_and_continue())
    assert store.read_now(meta.get, "number") == "2"
