"""Hot moves: what a holder who knows the end of the log writes without a look is what a look would have written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from perdure.clock import SECOND
from perdure.domain.effect import AttemptOutcome, Effect, EffectState
from perdure.domain.lease import Holder
from perdure.store.move import Move
from perdure.store.moves import doubt, effect, event, inbox, lease, session_end, step
from perdure.store.moves.attempt import attempts_of
from perdure.store.moves.effect_input import AttemptResult, Dispatch, NewEffect
from perdure.store.moves.step import NewStep
from perdure.store.store import Store
from perdure.testing import ManualClock
from tests.store.support.sessions import TTL, a_holder, session_of

INTENT = NewEffect(
    task_id="t-1",
    id="e-1", position='[0,"","do","mail","x",0]', generation=0, tool="mail", replay="escalate", targets='["pr:7"]',
    intent='{"n":1}', intent_digest="0" * 64, idempotency_key="1" * 64, rule="default",
    policy_version="0", reach="outside",
)  # fmt: skip
DISPATCH = Dispatch(worker="w-1", process='{"pid":7}', deadline_at=5, rule="default")
DONE = AttemptResult(outcome=AttemptOutcome.ACKNOWLEDGED, result='{"id":7}', reference="https://x")
STEP = NewStep(restart_number=0, scope="", name="read", argument_digest="d", occurrence=0, result="[1]")


def make(store: Store, move: Move[Any], *, hot: bool) -> Any:
    """Write a move the hot way or the long way, and see that it went that way."""
    went: list[bool] = []
    real, move.hot = move.hot, None
    assert real is not None
    if hot:

        def watched(tx: Any) -> Any:
            ready = real(tx)
            went.append(ready is not None)
            return ready

        move.hot, long = watched, move.run

        def run(tx: Any) -> Any:
            went.append(False)
            return long(tx)

        move.run = run
    made = store.write_now(move)
    assert all(went)
    return made


def story(store: Store, holder: Holder, *, hot: bool) -> list[Any]:
    """One of each hot move, what each answered, and everything that is stored of it, but for names and salts."""
    dispatched = make(store, effect.plan_and_dispatch(holder, INTENT, DISPATCH), hot=hot)
    settle = effect.settle(holder.uid, holder.name, "e-1", 1, DONE, holder=holder, known=dispatched)
    settled = make(store, settle, hot=hot)
    if not hot:  # an outsider's move tells its holder nothing
        now = session_of(store, holder.uid)
        holder.advance(now.cursor, now.chain)
    numbers = [make(store, step.record(holder, STEP), hot=hot), make(store, event.append(holder, "note"), hot=hot)]
    assert settled == store.read_now(effect.get, holder.uid, "e-1")
    lines = [(one.kind, one.actor, one.effect_id, one.body) for one in store.read_now(event.after, holder.uid, 2)]
    rows = [
        settled,
        *store.read_now(attempts_of, holder.uid, "e-1"),
        *store.read_now(step.of_session, holder.uid, 0),
    ]
    told = msgspec.json.encode([dispatched, numbers, lines, rows], order="sorted").decode()
    store.read_now(event.verify, holder.uid)
    return [told.replace(holder.uid, "uid")]


def test_the_hot_way_writes_what_the_long_way_writes(store: Store) -> None:
    assert story(store, a_holder(store), hot=True) == story(store, a_holder(store), hot=False)


def test_an_outsider_event_makes_one_move_take_the_regular_way(store: Store) -> None:
    holder = a_holder(store)
    store.write_now(inbox.receive(holder.uid, "ada", "m-1", {"text": "also the docs"}))
    assert store.write_now(event.append(holder, "note")) == 4
    make(store, event.append(holder, "note"), hot=True)
    assert store.read_now(event.verify, holder.uid).cursor == holder.cursor == 5


def dispatched(store: Store, holder: Holder) -> Effect:
    return store.write_now(effect.plan_and_dispatch(holder, INTENT, DISPATCH))


def test_an_attempt_with_an_outcome_is_settled_the_regular_way(store: Store) -> None:
    """An overrun act has an outcome, `unknown`: its settle must not be taken for the first word."""
    holder = a_holder(store)
    known = dispatched(store, holder)
    store.write_now(doubt.record_overrun(holder.uid, holder.name, "e-1", 1, error='{"message":"late"}'))
    now = session_of(store, holder.uid)
    holder.advance(now.cursor, now.chain)
    move = effect.settle(holder.uid, holder.name, "e-1", 1, DONE, holder=holder, known=known)
    looked: list[str] = []
    long = move.run

    def run(tx: Any) -> Effect:
        looked.append("looked")
        return long(tx)

    move.run = run
    assert (store.write_now(move).state, looked) == (EffectState.ACKNOWLEDGED, ["looked"])


def test_a_hot_settle_of_an_old_attempt_is_a_late_outcome(store: Store) -> None:
    holder = a_holder(store)
    known = dispatched(store, holder)
    newer = store.write_now(lease.take_over(holder.uid, "worker-2", nonce="n", ttl=TTL, because="found dead"))
    store.write_now(effect.dispatch(newer, "e-1", DISPATCH, because="again"))
    now = session_of(store, holder.uid)
    holder.advance(now.cursor, now.chain)
    store.write_now(effect.settle(holder.uid, holder.name, "e-1", 1, DONE, holder=holder, known=known))
    assert store.read_now(effect.get, holder.uid, "e-1").state == EffectState.DISPATCHED
    assert store.read_now(event.last, holder.uid, limit=1)[0].kind == "effect.late_outcome"


@pytest.mark.parametrize("more", [{"leases": '["repo"]'}, {"supersedes": "e-0"}])
def test_an_intent_with_more_to_say_takes_the_long_way(store: Store, more: dict[str, Any]) -> None:
    move = effect.plan_and_dispatch(a_holder(store), msgspec.structs.replace(INTENT, **more), DISPATCH)
    looked: list[str] = []

    def run(_: Any) -> Any:
        looked.append("looked")

    move.run = run
    store.write_now(move)
    assert looked == ["looked"]


def test_when_a_session_last_moved_is_written_once_a_second(store: Store, clock: ManualClock) -> None:
    holder = a_holder(store)
    seen = []
    for wait in (0.4, 0.4, 0.4, 0.4, 0.4, 0.4):
        clock.advance(seconds=wait)
        store.write_now(event.append(holder, "note"))
        seen.append(clock.now() - session_of(store, holder.uid).updated_at)
    assert max(seen) < SECOND
    assert len(set(seen)) > 1


class Overtaken(Holder):
    """A holder that another move of its own overtakes right after its head was read for the first time."""

    __slots__ = ("overtake",)

    def __init__(self, holder: Holder) -> None:
        super().__init__(holder.uid, holder.name, holder.nonce, holder.epoch, holder.cursor, holder.chain)
        self.overtake: Callable[[], None] | None = None

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name in ("head", "cursor", "chain") and (overtake := self.overtake) is not None:
            self.overtake = None
            overtake()
        return value


HOT: dict[str, Callable[[Store, Holder], Move[Any]]] = {
    "dispatch": lambda _, holder: effect.plan_and_dispatch(holder, INTENT, DISPATCH),
    "settle": lambda store, holder: effect.settle(
        holder.uid, holder.name, "e-1", 1, DONE, holder=holder, known=dispatched(store, holder)
    ),
    "step": lambda _, holder: step.record(holder, STEP),
    "append": lambda _, holder: event.append(holder, "note"),
}


@pytest.mark.databases("postgres")
@pytest.mark.parametrize("name", HOT)
def test_a_hot_move_is_built_from_one_reading_of_the_head(store: Store, name: str) -> None:
    """PostgreSQL writes in several threads: another commit may replace the holder's head while a move is built."""
    holder = Overtaken(a_holder(store))
    move, overtaking = HOT[name](store, holder), list[int]()
    holder.overtake = lambda: overtaking.append(store.write_now(event.append(holder, "note")))
    answer = store.write_now(move)
    assert overtaking
    store.read_now(event.verify, holder.uid)
    last = store.read_now(event.last, holder.uid, limit=1)[0]
    numbers = {"dispatch": "number", "settle": "settled_number"}
    if name in numbers:
        (shown,) = last.body["rows"]["effect"]
        stored = store.read_now(effect.get, holder.uid, "e-1")
        assert stored == answer
        assert shown[numbers[name]] == getattr(stored, numbers[name]) == last.number
    else:
        assert answer == last.number


def test_a_holder_that_knows_of_a_request_to_stop_dispatches_nothing(store: Store) -> None:
    holder = a_holder(store)
    assert not store.write_now(session_end.cancel(holder.uid, "ada"))
    store.write_now(doubt.record_recovery(holder, "e-0", "it looks at the log, and knows its end"))
    assert store.write_now(effect.plan_and_dispatch(holder, INTENT, DISPATCH)).state == EffectState.PLANNED
