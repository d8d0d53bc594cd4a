"""Exemptions: granted once, used in the dispatch with a guarded count, never returned."""

from typing import Any

import msgspec
import pytest

from perdure.clock import SECOND
from perdure.domain.effect import AttemptOutcome
from perdure.domain.exemption import Exemption, ExemptionScope
from perdure.domain.lease import Holder
from perdure.errors import ConfigError, Conflict, IllegalMove, NotFound, PolicyChanged
from perdure.store.move import Move, StoreTransaction
from perdure.store.moves import control_log, effect, exemption
from perdure.store.moves.attempt import attempts_of
from perdure.store.moves.effect_input import AttemptResult, Dispatch, NewEffect
from perdure.store.store import Store
from perdure.testing import ManualClock
from tests.store.support.process_group import ProcessGroup, Ready
from tests.store.support.sessions import a_holder, a_session, session_of

FAILED = AttemptResult(outcome=AttemptOutcome.FAILED, error='{"message":"not done"}')


def an_intent(number: int, **changes: Any) -> NewEffect:
    made = NewEffect(
        id=f"e-{number}", position=f'[0,"","do","mail","x",{number}]', generation=0, tool="mail", replay="idempotent",
        targets="[]", intent='{"n":1}', intent_digest=f"{number:064}", idempotency_key=f"{number:064}",
    )  # fmt: skip
    return msgspec.structs.replace(made, **changes)


def using(*ids: str) -> Dispatch:
    return Dispatch(worker="w-1", process='{"pid":7}', exemptions=ids)


def granted(store: Store, rule: str = "mail", **changes: Any) -> Exemption:
    given: dict[str, Any] = {"by": "grace", "because": "the migration"} | changes
    scope = given.pop("scope", ExemptionScope(tool="mail"))
    return store.write_now(exemption.grant(rule, scope, **given))


def used(store: Store, id: str) -> int:
    """How often it was used; the count and the rows must agree."""
    count, rows = store.read_now(exemption.get, id).used, store.read_now(exemption.uses, id)
    assert count == len(rows)
    return count


def test_an_effect_uses_an_exemption_with_its_first_attempt(store: Store) -> None:
    holder, one = a_holder(store), granted(store, uses=2)
    made = store.write_now(effect.plan_and_dispatch(holder, an_intent(1), using(one.id)))
    assert made.exemption_id == store.read_now(effect.get, holder.uid, "e-1").exemption_id == one.id
    assert used(store, one.id) == 1


def test_later_attempts_of_an_effect_are_covered(store: Store) -> None:
    holder, one = a_holder(store), granted(store, uses=1)
    store.write_now(effect.plan_and_dispatch(holder, an_intent(1), using(one.id)))
    store.write_now(effect.settle(holder.uid, "w", "e-1", 1, FAILED, retry=3))
    store.write_now(exemption.revoke(one.id, by="grace", because="enough"))
    scope = ExemptionScope(session_uid=holder.uid, tool="mail")
    assert store.read_now(exemption.covering, ["mail"], scope, "e-1") == (store.read_now(exemption.get, one.id),)
    store.write_now(effect.dispatch(holder, "e-1", using(one.id)))
    assert len(store.read_now(attempts_of, holder.uid, "e-1")) == 2
    assert used(store, one.id) == 1


@pytest.mark.parametrize("ended", ["used up", "expired", "revoked"])
def test_an_exemption_that_ended_refuses_the_whole_dispatch(store: Store, clock: ManualClock, ended: str) -> None:
    holder = a_holder(store)
    one = granted(store, uses=1, expires_at=clock.now() + 10 * SECOND)
    if ended == "used up":
        store.write_now(effect.plan_and_dispatch(holder, an_intent(1), using(one.id)))
    elif ended == "expired":
        clock.advance(seconds=11)
    else:
        store.write_now(exemption.revoke(one.id, by="grace", because="enough"))
    assert store.read_now(exemption.get, one.id).state(clock.now()) == ended
    before = session_of(store, holder.uid).cursor
    with pytest.raises(PolicyChanged):
        store.write_now(effect.plan_and_dispatch(holder, an_intent(2), using(one.id)))
    assert store.read_now(effect.get_or_none, holder.uid, "e-2") is None
    assert session_of(store, holder.uid).cursor == before
    assert used(store, one.id) == (ended == "used up")


def test_a_planned_effect_uses_an_exemption_when_it_is_dispatched(store: Store) -> None:
    holder, one = a_holder(store), granted(store)
    store.write_now(effect.plan(holder, an_intent(1)))
    assert used(store, one.id) == 0
    store.write_now(effect.dispatch(holder, "e-1", using(one.id)))
    assert (used(store, one.id), store.read_now(effect.get, holder.uid, "e-1").exemption_id) == (1, one.id)


def test_a_joint_effect_that_was_rolled_back_uses_nothing(store: Store) -> None:
    holder, one = a_holder(store), granted(store, uses=1)
    joint = an_intent(1, replay="joint")
    store.write_now(effect.record(holder, joint, using(one.id), FAILED, over=True))
    assert used(store, one.id) == 0
    done = AttemptResult(outcome=AttemptOutcome.ACKNOWLEDGED, result="7")
    store.write_now(effect.record(holder, an_intent(2, replay="joint"), using(one.id), done))
    assert used(store, one.id) == 1


def test_what_is_over_is_recorded_although_the_exemption_ended(store: Store) -> None:
    holder, one = a_holder(store), granted(store, uses=1)
    store.write_now(effect.plan_and_dispatch(holder, an_intent(1), using(one.id)))
    done = AttemptResult(outcome=AttemptOutcome.ACKNOWLEDGED, result="7")
    store.write_now(effect.record(holder, an_intent(2, replay="pure"), using(one.id), done, over=True))
    assert store.read_now(exemption.get, one.id).used == 1
    assert [use.effect_id for use in store.read_now(exemption.uses, one.id)] == ["e-1", "e-2"]


def covering(store: Store, rules: list[str], effect_id: str = "e-1", **scope: Any) -> list[str] | None:
    given: dict[str, Any] = {"session_uid": "s", "tool": "mail", "intent_digest": "d"} | scope
    found = store.read_now(exemption.covering, rules, ExemptionScope(**given), effect_id)
    return None if found is None else [one.id for one in found]


def test_every_part_of_the_scope_must_fit(store: Store) -> None:
    scopes = {
        "session": ExemptionScope(session_uid="s", tool="mail"),
        "owner": ExemptionScope(owner="ada"),
        "repository": ExemptionScope(repository="github.com/a/b", owner="grace"),
        "call": ExemptionScope(session_uid="t", tool="mail", intent_digest="d"),
    }
    ids = {name: granted(store, name, scope=scope).id for name, scope in scopes.items()}
    assert covering(store, ["session"]) == [ids["session"]]
    assert covering(store, ["session"], session_uid="t") is None
    assert covering(store, ["session"], tool="push") is None
    assert covering(store, ["owner"], owner="ada") == [ids["owner"]]
    assert covering(store, ["owner"]) is None
    assert covering(store, ["repository"], owner="grace", repository="github.com/a/b") == [ids["repository"]]
    assert covering(store, ["repository"], owner="ada", repository="github.com/a/b") is None
    assert covering(store, ["call"], session_uid="t") == [ids["call"]]
    assert covering(store, ["call"], session_uid="t", intent_digest="e") is None
    assert covering(store, ["another"]) is None


def test_every_rule_that_asks_must_be_lifted(store: Store) -> None:
    first = granted(store, "first")
    assert covering(store, ["first", "second"]) is None
    second = granted(store, "second")
    assert covering(store, ["first", "second"]) == [first.id, second.id]
    holder = a_holder(store)
    store.write_now(effect.plan_and_dispatch(holder, an_intent(1), using(first.id, second.id)))
    assert (used(store, first.id), used(store, second.id)) == (1, 1)


def test_an_exemption_without_a_count_is_used_first(store: Store) -> None:
    granted(store, uses=3)
    free = granted(store)
    assert covering(store, ["mail"]) == [free.id]


def test_each_change_is_in_the_control_log_once(store: Store) -> None:
    move = exemption.grant("mail", ExemptionScope(tool="mail"), by="grace", because="now")
    one = store.write_now(move)
    assert store.write_now(move) == one  # as after a commit whose outcome was unknown
    revoking = exemption.revoke(one.id, by="ada", because="enough")
    store.write_now(revoking)
    assert store.write_now(revoking).revoked_by == "ada"
    lines = [(line.kind, line.actor) for line in store.read_now(lambda tx: list(control_log.listing(tx)))]
    assert lines == [("exemption.revoked", "ada"), ("exemption.granted", "grace")]
    assert one.grantor == store.identity
    store.read_now(control_log.verify)


@pytest.mark.parametrize(
    "changes",
    [
        {"scope": ExemptionScope()},
        {"scope": ExemptionScope(intent_digest="d")},
        {"because": "  "},
        {"uses": 0},
        {"expires_at": 1},
        {"rule": ""},
    ],
)
def test_an_exemption_needs_a_scope_a_reason_and_an_end_to_come(store: Store, changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        granted(store, **changes)
    assert store.read_now(exemption.listing) == []


@pytest.mark.parametrize(
    "statement",
    [
        "update exemption set used = 0",
        "update exemption set uses = 100",
        "update exemption set tool = null, owner = 'ada'",
        "update exemption set expires_at = null",
        "update exemption set rule = 'other'",
        "update exemption set revoked_at = null, revoked_by = null",
        "delete from exemption",
        "delete from exemption_use",
        "update exemption_use set effect_id = 'e-9'",
    ],
)
def test_the_database_refuses_to_widen_an_exemption(store: Store, clock: ManualClock, statement: str) -> None:
    holder, one = a_holder(store), granted(store, uses=2, expires_at=clock.now() + SECOND)
    store.write_now(effect.plan_and_dispatch(holder, an_intent(1), using(one.id)))
    store.write_now(exemption.revoke(one.id, by="ada", because="enough"))

    def forge(tx: StoreTransaction) -> None:
        tx.execute(statement, ())

    with pytest.raises((Conflict, IllegalMove)):
        store.write_now(Move("forge", "plain", forge))


def test_an_exemption_is_found_by_a_prefix_of_its_id(store: Store) -> None:
    one = granted(store)
    assert store.read_now(exemption.find, one.id[:6]).id == one.id
    for name in ("", "x-nothing"):
        with pytest.raises(NotFound):
            store.read_now(exemption.find, name)


RACERS, USES, EACH = 8, 40, 15


def race(ready: Ready, target: str, number: int, id: str) -> int:
    """Dispatch effects that use one exemption until it is used up; returns how many were dispatched."""
    from perdure.store.store import open_store

    with open_store(target, connections=2) as store:
        holder: Holder = a_holder(store, a_session(store, f"racer-{number}").uid, by=f"worker-{number}")
        ready()
        done = 0
        for place in range(EACH):
            try:
                store.write_now(effect.plan_and_dispatch(holder, an_intent(place), using(id)))
                done += 1
            except PolicyChanged:
                continue
        return done


@pytest.mark.databases("sqlite", "postgres")
def test_eight_racing_processes_use_an_exemption_of_forty_exactly_forty_times(store: Store, target: str) -> None:
    one = granted(store, uses=USES)
    group = ProcessGroup(RACERS)
    try:
        done = group.run(race, [(target, number, one.id) for number in range(RACERS)])
    finally:
        group.close()
    assert sum(done) == used(store, one.id) == USES
    assert RACERS * EACH > USES
