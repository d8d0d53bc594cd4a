"""The policy of the store: versions, the fence of every dispatch, freeze and thaw."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from perdure.domain.effect import AttemptOutcome, Effect
from perdure.domain.lease import Holder
from perdure.domain.policy_version import fence_of
from perdure.errors import ConfigError, IllegalMove, NotFound, PerdureError, PolicyChanged, StoreUnavailable
from perdure.store.move import Move, StoreTransaction
from perdure.store.moves import control_log, effect, meta, policy
from perdure.store.moves.attempt import attempts_of
from perdure.store.moves.effect_input import AttemptResult, Dispatch, NewEffect
from perdure.store.store import Store, open_store
from perdure.testing import ManualClock
from perdure.testing.proxy import wait_until
from tests.store.support.locks import is_waited_for
from tests.store.support.sessions import a_holder, session_of

INTENT = NewEffect(
    id="e-1", position='[0,"","do","mail","x",0]', generation=0, tool="mail", replay="escalate", targets='["pr:7"]',
    intent='{"n":1}', intent_digest="0" * 64, idempotency_key="1" * 64,
)  # fmt: skip
DISPATCH = Dispatch(worker="w-1", process='{"pid":7}')
DONE = AttemptResult(outcome=AttemptOutcome.ACKNOWLEDGED, result="7")
FIRST, SECOND = 'default = "allow"\n', 'default = "deny"\n'


def under(store: Store, rule: str | None = None) -> dict[str, Any]:
    """What a dispatch carries that was judged by the policy as it is now."""
    fence = store.read_now(policy.fence)
    return {"policy_version": str(fence.version), "fence": fence.fence or "frozen", "rule": rule}


def dispatched(intent: NewEffect, judged: dict[str, Any]) -> tuple[NewEffect, Dispatch]:
    named = {key: judged[key] for key in ("policy_version", "rule")}
    return msgspec.structs.replace(intent, **named), msgspec.structs.replace(DISPATCH, **judged)


def planned(store: Store, holder: Holder) -> Effect:
    return store.write_now(effect.plan(holder, INTENT))


CHANGES: dict[str, Callable[[], Move[Any]]] = {
    "set": lambda: policy.activate(FIRST, by="ada", because="first"),
    "freeze": lambda: policy.freeze(by="ada", because="incident"),
    "thaw": lambda: policy.thaw(by="ada", because="over"),
}
WAYS: dict[str, Callable[[Store, Holder, dict[str, Any]], Move[Any]]] = {
    "hot": lambda _, holder, judged: effect.plan_and_dispatch(holder, *dispatched(INTENT, judged)),
    "with leases": lambda _, holder, judged: effect.plan_and_dispatch(
        holder, *dispatched(msgspec.structs.replace(INTENT, leases='["lane"]'), judged)
    ),
    "again": lambda store, holder, judged: effect.dispatch(
        holder, planned(store, holder).id, dispatched(INTENT, judged)[1]
    ),
    "pure": lambda _, holder, judged: effect.record(
        holder, *dispatched(msgspec.structs.replace(INTENT, replay="pure"), judged), DONE
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("changed", ["set", "frozen"])
def test_nothing_is_written_under_another_policy(store: Store, way: str, changed: str) -> None:
    holder = a_holder(store)
    judged = under(store)
    move = WAYS[way](store, holder, judged)
    store.write_now(CHANGES["set" if changed == "set" else "freeze"]())
    before = session_of(store, holder.uid)
    with pytest.raises(PolicyChanged):
        store.write_now(move)
    assert session_of(store, holder.uid) == before
    assert store.read_now(attempts_of, holder.uid, "e-1") == []
    found = store.read_now(effect.get_or_none, holder.uid, "e-1")
    assert found is None or found.state == "planned"


@pytest.mark.parametrize("way", WAYS)
def test_a_dispatch_records_the_version_and_the_rule(store: Store, way: str) -> None:
    store.write_now(policy.activate(FIRST, by="ada", because="first"))
    holder = a_holder(store)
    store.write_now(WAYS[way](store, holder, under(store, "mail-is-fine")))
    [attempt] = store.read_now(attempts_of, holder.uid, "e-1")
    made = store.read_now(effect.get, holder.uid, "e-1")
    assert (attempt.policy_version, attempt.rule) == ("1", "mail-is-fine")
    assert (made.policy_version, made.rule) == ("1", "mail-is-fine")


def test_what_is_over_is_recorded_under_the_policy_of_its_time(store: Store) -> None:
    store.write_now(policy.activate(FIRST, by="ada", because="first"))
    holder, judged = a_holder(store), under(store)
    store.write_now(policy.freeze(by="ada", because="incident"))
    pure = msgspec.structs.replace(INTENT, replay="pure")
    store.write_now(effect.record(holder, *dispatched(pure, judged), DONE, over=True))
    [attempt] = store.read_now(attempts_of, holder.uid, "e-1")
    assert attempt.policy_version == "1"


def test_versions_are_numbered_and_never_change(store: Store) -> None:
    first = store.write_now(policy.activate(FIRST, by="ada", because="first"))
    again = store.write_now(policy.activate(FIRST, by="grace", because="the same"))
    second = store.write_now(policy.activate(SECOND, by="grace", because="stricter"))
    third = store.write_now(policy.activate(FIRST, by="ada", because="back"))
    assert again == first
    assert [one.version for one in store.read_now(policy.versions)] == [3, 2, 1]
    assert (third.digest, third.source) == (first.digest, first.source)
    assert len({first.fence, second.fence, third.fence}) == 3
    for statement in ("update policy set reason = 'x'", "delete from policy", "delete from policy_fence"):
        with pytest.raises(PerdureError, match="on record"):
            store.write_now(Move("forge", "plain", forging(statement)))
    assert store.read_now(policy.get, 2) == second
    with pytest.raises(NotFound):
        store.read_now(policy.get, 4)


def forging(statement: str) -> Any:
    def forge(tx: StoreTransaction) -> None:
        tx.execute(statement, ())

    return forge


def test_the_active_version_of_a_time_is_found(store: Store, clock: ManualClock) -> None:
    assert store.read_now(policy.active_at, clock.now()) is None
    first = store.write_now(policy.activate(FIRST, by="ada", because="first"))
    clock.advance(seconds=60)
    second = store.write_now(policy.activate(SECOND, by="ada", because="second"))
    assert store.read_now(policy.active_at, first.activated_at) == first
    assert store.read_now(policy.active_at, second.activated_at - 1) == first
    assert store.read_now(policy.active_at, clock.now()) == second


def test_a_fence_differs_although_the_number_comes_again(store: Store) -> None:
    """After a restore to before a version, the next one may have its number, but nothing else of it."""
    made = store.write_now(policy.activate(FIRST, by="ada", because="first"))
    columns = (made.version, made.digest, made.activated_by, made.reason, made.activated_at)
    assert fence_of(*columns, made.move_id) == made.fence
    assert fence_of(*columns, "another move") != made.fence


def test_numbers_do_not_come_again_after_a_restore(store: Store) -> None:
    store.write_now(policy.activate(FIRST, by="ada", because="first"))
    move = policy.activate(SECOND, by="ada", because="after the restore")
    run = move.run

    def later(tx: StoreTransaction) -> Any:
        tx.restore_epoch = 2
        return run(tx)

    move.run = later
    assert store.write_now(move).version == 2001
    assert store.write_now(policy.activate(FIRST, by="ada", because="next")).version == 2002


def test_freeze_and_thaw_keep_the_version(store: Store) -> None:
    store.write_now(policy.activate(FIRST, by="ada", because="first"))
    before = store.read_now(policy.fence)
    frozen = store.write_now(policy.freeze(by="grace", because="incident"))
    assert (frozen.fence, frozen.version, frozen.frozen_by, frozen.frozen_because) == (None, 1, "grace", "incident")
    assert store.write_now(policy.freeze(by="ada", because="again")) == frozen
    assert store.write_now(policy.thaw(by="ada")) == before
    with pytest.raises(IllegalMove, match="not frozen"):
        store.write_now(policy.thaw(by="ada"))


def test_a_policy_set_while_frozen_waits_for_the_thaw(store: Store) -> None:
    store.write_now(policy.freeze(by="ada", because="incident"))
    made = store.write_now(policy.activate(FIRST, by="ada", because="first"))
    assert store.read_now(policy.fence).fence is None
    assert store.write_now(policy.thaw(by="ada", because="over")).fence == made.fence


@pytest.mark.parametrize("kind", CHANGES)
def test_a_change_that_runs_again_after_an_unknown_commit_is_made_once(store: Store, kind: str) -> None:
    """Whatever came between: a second thaw must not end a freeze that began after the first."""
    store.write_now(policy.freeze(by="ada", because="before"))
    if kind != "thaw":
        store.write_now(policy.thaw(by="ada"))
    move = CHANGES[kind]()
    store.write_now(move)
    fence = store.read_now(policy.fence)
    between = policy.thaw(by="eve") if fence.frozen_at else policy.freeze(by="eve", because="between")
    after = store.write_now(between)
    lines = store.read_now(control_log.end)
    store.write_now(move)
    assert store.read_now(policy.fence) == after
    assert store.read_now(control_log.end) == lines


def said(tx: StoreTransaction) -> list[tuple[str, str, Any]]:
    return [(one.kind, one.actor, one.body) for one in control_log.listing(tx)]


def test_every_change_is_in_the_control_log(store: Store) -> None:
    store.write_now(policy.activate(FIRST, by="ada", because="first"))
    store.write_now(policy.freeze(by="grace", because="incident"))
    store.write_now(policy.thaw(by="ada", because="over"))
    lines = store.read_now(said)
    assert [line[:2] for line in lines] == [
        ("policy.thawed", "ada"),
        ("policy.frozen", "grace"),
        ("policy.set", "ada"),
    ]
    assert lines[1][2].pop("identity")
    assert lines[1][2] == {"version": 1, "because": "incident"}


@pytest.mark.parametrize("because", ["", "  "])
def test_a_change_needs_a_reason(because: str) -> None:
    with pytest.raises(ConfigError, match="reason"):
        policy.activate(FIRST, by="ada", because=because)
    with pytest.raises(ConfigError, match="reason"):
        policy.freeze(by="ada", because=because)


@pytest.mark.databases("postgres")
@pytest.mark.parametrize("way", ["hot", "again"])
def test_a_dispatch_that_waited_for_a_change_sees_it(target: str, way: str) -> None:
    import psycopg

    with open_store(target) as store, psycopg.connect(target) as change:
        holder = a_holder(store)
        move = WAYS[way](store, holder, under(store))
        change.execute("lock table attempt in share mode")
        change.execute("update policy_fence set fence = 'another'")
        with ThreadPoolExecutor(1) as pool:
            written = pool.submit(store.write_now, move)
            process = change.info.backend_pid
            wait_until(lambda: is_waited_for(target, process), "the dispatch waits for the change", 60)
            change.commit()
            with pytest.raises(PolicyChanged):
                written.result(60)
        assert store.read_now(attempts_of, holder.uid, "e-1") == []


@pytest.mark.databases("postgres")
def test_a_change_waits_for_a_dispatch_that_is_being_committed(target: str) -> None:
    import psycopg

    with open_store(target) as store, psycopg.connect(target) as dispatch:
        dispatch.execute("lock table attempt in row exclusive mode")  # as an insert does until its commit
        move = policy.freeze(by="ada", because="incident")
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="too long"):
                store.write_now(move)
        dispatch.rollback()
        assert store.write_now(move).frozen_by == "ada"


@pytest.mark.databases("postgres")
def test_a_change_waits_for_another_one_without_a_short_limit(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import psycopg

    monkeypatch.setattr(policy, "FIRST_WAIT", 1)
    with open_store(target) as store, psycopg.connect(target) as other, ThreadPoolExecutor(1) as pool:
        other.execute("select * from policy_fence for update")
        written = pool.submit(store.write_now, policy.freeze(by="ada", because="incident"))
        process = other.info.backend_pid
        wait_until(lambda: written.done() or is_waited_for(target, process), "the change waits for the other one", 60)
        other.rollback()
        assert written.result(60).frozen_by == "ada"


def test_writers_of_policies_get_numbers_of_their_own(store: Store) -> None:
    def write(number: int) -> int:
        return store.write_now(policy.activate(f"{FIRST}# {number}\n", by="ada", because="x")).version

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(write, range(12))) == list(range(1, 13))
    assert store.read_now(meta.get, "store_id")
