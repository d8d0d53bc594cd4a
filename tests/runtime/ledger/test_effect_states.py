"""The effect's machine: what the domain allows, the database allows, and nothing else."""

from __future__ import annotations

from itertools import product

import pytest

from perdure.domain.effect import MOVES, AttemptOutcome, EffectState, Verdict
from perdure.domain.lease import Holder
from perdure.domain.record import check_move
from perdure.domain.session import Status
from perdure.errors import ConfigError, IllegalMove
from perdure.store.moves import doubt, effect, session_end, wait
from perdure.store.moves.attempt import attempts_of
from perdure.store.moves.effect_input import AttemptResult, Dispatch, NewEffect
from perdure.store.store import Store
from tests.store.support.sessions import a_holder, a_session, raw, session_of

STATES = list(EffectState)
LEGAL = {
    ("planned", "dispatched"), ("planned", "refused"), ("planned", "acknowledged"),
    ("dispatched", "acknowledged"), ("dispatched", "planned"), ("dispatched", "failed"), ("dispatched", "compensated"),
    ("acknowledged", "compensated"), ("compensated", "superseded"),
}  # fmt: skip
DISPATCH = Dispatch(worker="w-1", process='{"id": "w-1"}')
DONE = AttemptResult(outcome=AttemptOutcome.ACKNOWLEDGED, result="7")
UNKNOWN = AttemptResult(outcome=AttemptOutcome.UNKNOWN, error='{"type": "OSError"}')
PROOF = AttemptResult(outcome=AttemptOutcome.FAILED, error='{"type": "NotDone"}')
ABSENT = AttemptResult(outcome=AttemptOutcome.ABSENT)


def an_intent(id: str = "e-1", **columns: object) -> NewEffect:
    given = {
        "position": '[0, "", "do", "post", "d", 0]', "generation": 0, "tool": "post", "replay": "escalate",
        "targets": "[]", "intent": '{"n": 1}', "intent_digest": "d" * 64, "idempotency_key": id.ljust(64, "k"),
    }  # fmt: skip
    return NewEffect(id=id, **given | columns)  # type: ignore[arg-type]


def dispatched(store: Store, id: str = "e-1") -> Holder:
    holder = a_holder(store)
    store.write_now(effect.plan_and_dispatch(holder, an_intent(id), DISPATCH))
    return holder


def state(store: Store, holder: Holder, id: str = "e-1") -> str:
    return store.read_now(effect.get, holder.uid, id).state


@pytest.mark.parametrize(("old", "new"), list(product(STATES, STATES)))
def test_the_domain_allows_exactly_the_moves_of_the_table(old: EffectState, new: EffectState) -> None:
    if (old, new) in LEGAL:
        check_move("effect", MOVES, old, new)
    else:
        with pytest.raises(IllegalMove):
            check_move("effect", MOVES, old, new)


def test_the_database_allows_exactly_the_moves_of_the_table(store: Store) -> None:
    """Written past our own code: every state is reached by legal moves, and every other move is tried from it."""
    ways = {
        "planned": [], "dispatched": ["dispatched"], "refused": ["refused"], "acknowledged": ["acknowledged"],
        "failed": ["dispatched", "failed"], "compensated": ["dispatched", "compensated"],
        "superseded": ["dispatched", "compensated", "superseded"],
    }  # fmt: skip
    holder = a_holder(store)
    for number, (old, new) in enumerate(product(ways, ways)):
        if old == new:
            continue
        id = f"e-{number}"
        store.write_now(effect.plan(holder, an_intent(id, position=f'[0, "", "do", "post", "{number}", 0]')))
        for stop in ways[old]:
            raw(store, becomes(id, stop))
        if (old, new) in LEGAL:
            raw(store, becomes(id, new))
        else:
            with pytest.raises(IllegalMove, match="may not make this move"):
                raw(store, becomes(id, new))


def becomes(id: str, state: str) -> str:
    settled = "null" if state in ("planned", "dispatched") else "1"
    return f"update effect set state = '{state}', settled_at = {settled} where id = '{id}'"


@pytest.mark.parametrize(
    "statement",
    [
        "update effect set intent = '{}'", "update effect set intent_digest = replace(intent_digest, 'd', 'e')",
        "update effect set idempotency_key = replace(idempotency_key, 'k', 'l')", "update effect set tool = 'other'",
        "update effect set position = '[]'", "update effect set generation = 1", "delete from effect",
        "delete from attempt", "update effect set result = '8'", "update attempt set outcome = 'unknown'",
    ],
)  # fmt: skip
def test_the_database_keeps_an_intent_its_result_and_a_known_outcome(store: Store, statement: str) -> None:
    holder = dispatched(store)
    store.write_now(effect.settle(holder.uid, "w", "e-1", 1, DONE))
    with pytest.raises(IllegalMove):
        raw(store, statement)


def test_no_effect_begins_settled_unless_it_needs_no_intent(store: Store) -> None:
    holder = a_holder(store)
    with pytest.raises(ConfigError):
        store.write_now(effect.record(holder, an_intent(), DISPATCH, DONE))
    store.write_now(effect.record(holder, an_intent(replay="pure"), DISPATCH, DONE))
    assert state(store, holder) == "acknowledged"


def test_no_session_ends_with_an_effect_under_way(store: Store) -> None:
    holder = dispatched(store)
    ended = "lease_holder = null, lease_nonce = null, lease_until = null"
    for status in ("done", "failed", "cancelled"):
        with pytest.raises(IllegalMove, match="under way"):
            raw(store, f"update session set status = '{status}', {ended} where uid = '{holder.uid}'")
    assert store.write_now(session_end.finish(holder, Status.DONE, result=1)) is False
    assert session_of(store, holder.uid).status == "running"


def test_an_old_epoch_cannot_dispatch_but_its_outcome_counts(store: Store) -> None:
    from perdure.errors import LeaseLost
    from perdure.store.moves import lease

    holder = dispatched(store)
    store.write_now(lease.take_over(holder.uid, "w-2", nonce="n-2", ttl=60, because="found dead"))
    with pytest.raises(LeaseLost):
        store.write_now(effect.plan(holder, an_intent("e-2")))
    with pytest.raises(LeaseLost):
        store.write_now(effect.dispatch(holder, "e-1", DISPATCH))
    store.write_now(effect.settle(holder.uid, "w-1", "e-1", 1, DONE))
    assert state(store, holder) == "acknowledged"


def test_a_late_outcome_counts_until_a_newer_attempt_was_dispatched(store: Store) -> None:
    holder = dispatched(store)
    store.write_now(effect.settle(holder.uid, "w", "e-1", 1, ABSENT))
    assert state(store, holder) == "planned"
    store.write_now(effect.settle(holder.uid, "w-1", "e-1", 1, DONE))
    assert state(store, holder) == "acknowledged"


@pytest.mark.parametrize("late", ["failed", "unknown", "absent"])
def test_only_a_late_success_changes_what_was_found_absent(store: Store, late: str) -> None:
    holder = dispatched(store)
    store.write_now(effect.settle(holder.uid, "w", "e-1", 1, ABSENT))
    error = '{"type":"TimeoutError","code":null,"message":"late"}'
    store.write_now(
        effect.settle(holder.uid, "w-1", "e-1", 1, AttemptResult(outcome=AttemptOutcome(late), error=error))
    )
    assert (state(store, holder), newest_kind(store, holder)) == ("planned", "effect.late_outcome")
    (only,) = store.read_now(attempts_of, holder.uid, "e-1")
    assert only.outcome == "absent"


def test_a_late_outcome_after_a_newer_attempt_is_only_logged(store: Store) -> None:
    holder = dispatched(store)
    store.write_now(effect.settle(holder.uid, "w", "e-1", 1, ABSENT))
    store.write_now(effect.dispatch(holder, "e-1", DISPATCH))
    store.write_now(effect.settle(holder.uid, "w-1", "e-1", 1, DONE))
    assert (state(store, holder), newest_kind(store, holder)) == ("dispatched", "effect.late_outcome")
    store.write_now(effect.settle(holder.uid, "w-2", "e-1", 2, DONE))
    store.write_now(effect.settle(holder.uid, "w-2", "e-1", 2, UNKNOWN))
    assert (state(store, holder), newest_kind(store, holder)) == ("acknowledged", "effect.late_outcome")


def test_the_same_outcome_reported_twice_is_recorded_once(store: Store) -> None:
    holder = dispatched(store)
    store.write_now(effect.settle(holder.uid, "w", "e-1", 1, DONE))
    cursor = session_of(store, holder.uid).cursor
    store.write_now(effect.settle(holder.uid, "w", "e-1", 1, DONE))
    assert session_of(store, holder.uid).cursor == cursor


def newest_kind(store: Store, holder: Holder) -> str:
    from perdure.store.moves import event

    return store.read_now(event.last, holder.uid, limit=1)[0].kind


@pytest.mark.parametrize(("outcome", "left"), [(DONE, "acknowledged"), (PROOF, "failed"), (ABSENT, "planned")])
def test_a_late_outcome_answers_the_question_that_a_person_was_asked(
    store: Store, outcome: AttemptResult, left: str
) -> None:
    holder = dispatched(store)
    asked = store.write_now(doubt.open_doubt(holder, "e-1", "the outcome is unknown"))
    assert store.write_now(wait.park(holder, [asked])) == []
    store.write_now(effect.settle(holder.uid, "w-1", "e-1", 1, outcome))
    assert (state(store, holder), session_of(store, holder.uid).status) == (left, "ready")
    assert store.read_now(wait.open_of_session, holder.uid) == []


def test_a_verdict_wakes_the_session_and_is_given_once(store: Store) -> None:
    holder = dispatched(store)
    store.write_now(wait.park(holder, [store.write_now(doubt.open_doubt(holder, "e-1", "the outcome is unknown"))]))
    store.write_now(doubt.record_verdict(holder.uid, "ada", "e-1", Verdict.ABANDON, because="gone"))
    assert (state(store, holder), session_of(store, holder.uid).status) == ("failed", "ready")
    with pytest.raises(IllegalMove):
        store.write_now(doubt.record_verdict(holder.uid, "ada", "e-1", Verdict.HAPPENED, because="no, there"))


def test_only_a_dispatched_effect_can_be_in_doubt(store: Store) -> None:
    holder = a_holder(store)
    store.write_now(effect.plan(holder, an_intent()))
    with pytest.raises(IllegalMove, match="planned"):
        store.write_now(doubt.open_doubt(holder, "e-1", "why"))


def test_an_effect_is_compensated_only_by_an_undo_that_was_acknowledged(store: Store) -> None:
    holder = dispatched(store)
    store.write_now(effect.plan_and_dispatch(holder, an_intent("e-u", position='["undo", "e-1"]'), DISPATCH))
    with pytest.raises(IllegalMove, match="not acknowledged"):
        store.write_now(doubt.record_compensation(holder, "e-1", by_effect="e-u"))
    store.write_now(effect.settle(holder.uid, "w", "e-u", 1, DONE))
    store.write_now(doubt.record_compensation(holder, "e-1", by_effect="e-u"))
    store.write_now(effect.plan(holder, an_intent("e-2", supersedes="e-1", generation=1)))
    assert (state(store, holder), state(store, holder, "e-2")) == ("superseded", "planned")


def test_a_key_is_used_once_in_a_session(store: Store) -> None:
    from perdure.errors import Conflict

    holder, key = dispatched(store), an_intent("e-1").idempotency_key
    with pytest.raises(Conflict):
        store.write_now(effect.plan(holder, an_intent("e-2", idempotency_key=key)))
    other = a_holder(store, a_session(store).uid)
    store.write_now(effect.plan(other, an_intent("e-2", idempotency_key=key)))
