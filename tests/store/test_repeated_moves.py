"""A move that left no event leaves nothing to search for when its commit was cut off: it is run again, so it must be
harmless to run twice. So must be the moves that promise an exact retry."""

from collections.abc import Callable
from typing import Any

import pytest

from perdure.clock import SECOND
from perdure.domain.artifact import Retention
from perdure.domain.exemption import ExemptionScope
from perdure.domain.lease import Holder
from perdure.domain.notification import MOST_ATTEMPTS, ChannelKind
from perdure.domain.restore import Cause
from perdure.domain.schedule import Schedule
from perdure.domain.wait import WaitKind
from perdure.domain.worker import WorkerRecord
from perdure.ids import new_uid
from perdure.runtime.start.schedules import build_session
from perdure.store.move import Move, StoreTransaction
from perdure.store.moves import (
    artifact,
    attempt,
    checkpoint,
    decision,
    event,
    exemption,
    fact,
    inbox,
    lease,
    meta,
    notification,
    principal,
    queue,
    rate_limit,
    request,
    restore,
    schedule,
    search,
    session,
    session_end,
    sign_in,
    task,
    token,
    wait,
    worker,
)
from perdure.store.moves.session import NewSession
from perdure.store.store import Store
from perdure.testing import ManualClock
from tests.runtime.support.people import as_person, register
from tests.store.support.move_list import HOT, plain_moves
from tests.store.support.sessions import DEFINITION, TTL, a_holder, a_session, everything

Scene = Callable[[Store, ManualClock], Move[Any]]


def with_holder(make: Callable[[Holder], Move[Any]], *before: Callable[[Holder], Move[Any]]) -> Scene:
    """A move of a session that runs, after some others."""

    def scene(store: Store, clock: ManualClock) -> Move[Any]:
        holder = a_holder(store)
        for earlier in before:
            store.write_now(earlier(holder))
        return make(holder)

    return scene


def with_lease(make: Callable[[Any], Move[Any]]) -> Scene:
    return lambda store, clock: make(store.write_now(lease.acquire_named("r", holder="w", nonce="n", ttl=TTL)))


def with_fact(make: Callable[[], Move[Any]]) -> Scene:
    def scene(store: Store, clock: ManualClock) -> Move[Any]:
        store.write_now(fact.set_shared("orders", "style", "plain", by="ada"))
        clock.advance(seconds=1)
        return make()

    return scene


def with_schedule(make: Callable[[Schedule], Move[Any]]) -> Scene:
    def scene(store: Store, clock: ManualClock) -> Move[Any]:
        made = store.write_now(schedule.put("nightly", DEFINITION, by="ada"))
        clock.advance(hours=1)
        return make(made)

    return scene


def create(store: Store, clock: ManualClock) -> Move[Any]:
    return session.create(NewSession(id="s-x", program="p", arguments={"pr": 7}), by="ada")


def released(store: Store, clock: ManualClock) -> Move[Any]:
    store.write_now(Move("restore.begin", "plain", lambda tx: restore.begin(tx, Cause.DECLARED)))
    return restore.release(by="ada", because="looked")


def expire(store: Store, clock: ManualClock) -> Move[Any]:
    holder = a_holder(store)
    clock.advance(hours=1)
    return lease.expire(holder.uid, "housekeeping")


def fire(store: Store, clock: ManualClock) -> Move[Any]:
    holder = a_holder(store)
    store.write_now(wait.open_(holder, "t", WaitKind.TIMER, due_at=clock.now()))
    return wait.fire(holder.uid, "timer", "t")


def reported(store: Store, clock: ManualClock) -> Move[Any]:
    holder = a_holder(store)
    store.write_now(HOT["effect.plan_and_dispatch"](holder))
    return attempt.report(holder.uid, "e-1", 1, '"half"')


def correct(store: Store, clock: ManualClock) -> Move[Any]:
    store.write_now(rate_limit.set_limit("anthropic", "ada", tokens=1000))
    made = [store.write_now(rate_limit.reserve(["anthropic"], 900)) for _ in range(3)]
    return rate_limit.correct(made[-1], 10)


def block(store: Store, clock: ManualClock) -> Move[Any]:
    return rate_limit.block(["anthropic:big", "anthropic"], clock.now() + 30 * SECOND)


WORKER = WorkerRecord("w-1", "host", "boot", 1, "token", 1, 1, ["p"], 0, 0)

# Run twice, it uses up the limit twice: later requests wait longer, as after a crash (`moves/test_rate_limit.py`).
WASTEFUL = {"rate_limit.reserve"}


def principals(store: Store, _: ManualClock) -> None:
    register(store, "grace", owner="ada")
    with as_person("ada"):
        store.write_now(principal.put(new_uid(), "grace", by="ada", logins=["os:7"]))


def by_an_owner(make: Callable[[], Move[Any]]) -> Scene:
    def scene(store: Store, clock: ManualClock) -> Move[Any]:
        principals(store, clock)
        with as_person("ada"):
            return make()

    return scene


def with_notification(make: Callable[[], Move[Any]], *before: Callable[[], Move[Any]]) -> Scene:
    """A move of the outbox, after a notification was written for one channel."""

    def scene(store: Store, clock: ManualClock) -> Move[Any]:
        store.write_now(notification.put_channel("ops", ChannelKind.WEBHOOK, [], by="ada"))
        store.write_now(notification.write_test("ops", "n-1"))
        for earlier in before:
            store.write_now(earlier())
        clock.advance(hours=1)
        return make()

    return scene


def with_token(make: Callable[[], Move[Any]]) -> Scene:
    def scene(store: Store, clock: ManualClock) -> Move[Any]:
        principals(store, clock)
        with as_person("ada"):
            store.write_now(token.create("t1", "0" * 64, "grace", by="ada", scopes=["*"]))
            return make()

    return scene


def with_request(make: Callable[[], Move[Any]]) -> Scene:
    def begin(tx: StoreTransaction) -> None:
        request.insert(tx, "ada", "k", operation="o", digest="d", ids={}, is_done=False, holder="h")

    def scene(store: Store, clock: ManualClock) -> Move[Any]:
        store.write_now(Move("begin", "plain", begin))
        return make()

    return scene


def claim_notification() -> Move[Any]:
    return notification.claim("n-1", "ops", seen=ManualClock().now(), by="w")


def settle_notification(attempts: int = 1) -> Move[Any]:
    return notification.settle("n-1", "ops", by="w", attempts=attempts, error="refused")


def erased(store: Store, clock: ManualClock) -> Move[Any]:
    uid = a_session(store, "erased").uid
    store.write_now(search.extend())
    store.write_now(event.erase(uid, "ada", [1], because="asked"))
    return search.rewrite()


def searched(store: Store, clock: ManualClock) -> Move[Any]:
    a_session(store, "found")
    return search.extend()


PLAIN: dict[str, Scene] = {
    "notification.put_channel": lambda store, clock: notification.put_channel(
        "ops", ChannelKind.EMAIL, ["doubt"], by="ada"
    ),
    "notification.remove_channel": with_notification(lambda: notification.remove_channel("ops", by="ada")),
    "notification.write_test": with_notification(lambda: notification.write_test("ops", "n-2")),
    "notification.claim": with_notification(claim_notification),
    "notification.settle": with_notification(settle_notification, claim_notification),
    "notification.retry": with_notification(
        notification.retry, claim_notification, lambda: settle_notification(MOST_ATTEMPTS)
    ),
    "notification.forget": with_notification(
        lambda: notification.forget(2**60), claim_notification, lambda: settle_notification(MOST_ATTEMPTS)
    ),
    "attempt.report": reported,
    "principal.put": by_an_owner(lambda: principal.put(new_uid(), "linus", by="ada", roles=["auditor"])),
    "principal.remove": by_an_owner(lambda: principal.remove("grace", by="ada")),
    "principal.remove_login": by_an_owner(lambda: principal.remove_login("grace", "os:7", by="ada")),
    "request.finish": lambda store, clock: request.finish("ada", "k", operation="o", digest="d", ids={}, holder="h"),
    "request.hold": with_request(lambda: request.hold("ada", "k", holder="h")),
    "request.release": with_request(lambda: request.release("ada", "k", holder="h")),
    "request.forget": lambda store, clock: request.forget(2**61),
    "search.extend": searched,
    "search.rewrite": erased,
    "sign_in.begin": lambda store, clock: sign_in.begin("1" * 64, "os:1000"),
    "sign_in.end": lambda store, clock: sign_in.end("1" * 64),
    "token.create": by_an_owner(lambda: token.create("t1", "0" * 64, "grace", by="ada", scopes=["queue:a"])),
    "token.rotate": with_token(lambda: token.rotate("t1", "t2", "1" * 64, by="ada", until=2**61)),
    "token.revoke": with_token(lambda: token.revoke("t1", by="ada")),
    "token.forget": with_token(lambda: token.forget(2**61)),
    "token.note_use": with_token(lambda: token.note_use(["t1"])),
    "checkpoint.delete_all": with_holder(
        lambda holder: checkpoint.delete_all(),
        lambda holder: checkpoint.put(holder, number=1, codec="c", fingerprint="f", body="b"),
    ),
    "fact.set_shared": lambda store, clock: fact.set_shared("orders", "style", "plain", by="ada"),
    "fact.verify_shared": with_fact(lambda: fact.verify_shared("orders", "style", 1)),
    "fact.forget_shared": with_fact(lambda: fact.forget_shared("orders", "style", 1)),
    "lease.acquire_named": lambda store, clock: lease.acquire_named("r", holder="w", nonce="n", ttl=TTL),
    "lease.release_named": with_lease(lease.release_named),
    "lease.renew_named": with_lease(lambda held: lease.renew_named(held, ttl=2 * TTL)),
    "queue.set_limits": lambda store, clock: queue.set_limits("builds", "ada", concurrency=3, paused=True),
    "exemption.grant": lambda store, clock: exemption.grant("r", ExemptionScope(tool="t"), by="ada", because="x"),
    "exemption.revoke": lambda store, clock: exemption.revoke(
        store.write_now(exemption.grant("r", ExemptionScope(tool="t"), by="ada", because="x")).id, by="ada", because="y"
    ),
    "rate_limit.block": block,
    "rate_limit.correct": correct,
    "rate_limit.set_limit": lambda store, clock: rate_limit.set_limit("anthropic", "ada", requests=60, tokens=1000),
    "restore.declare": lambda store, clock: restore.declare(by="ada", because="from a backup", known=0),
    "restore.release": released,
    "meta.put": lambda store, clock: meta.put("colour", "red"),
    "schedule.drop": with_schedule(lambda made: schedule.drop(made.uid, 1, made.next_due or 0, made.next_due or 0)),
    "schedule.hold": with_schedule(lambda made: schedule.hold(made.uid, 2**50)),
    "schedule.postpone": with_schedule(lambda made: schedule.postpone(made.uid, 1, 2**50, "full")),
    "schedule.remove": with_schedule(lambda made: schedule.remove(made.uid, by="ada")),
    "schedule.set_paused": with_schedule(lambda made: schedule.set_paused("nightly", True, by="ada")),
    "worker.forget": lambda store, clock: worker.forget(["w-1", "w-2"]),
    "worker.forget_idle": lambda store, clock: worker.forget_idle([WORKER]),
    "worker.register": lambda store, clock: worker.register(WORKER),
    "worker.heartbeat": lambda store, clock: worker.heartbeat("w-1"),
    "worker.set_draining": lambda store, clock: worker.set_draining("w-1"),
    "worker.set_tree": lambda store, clock: worker.set_tree("w-1", {"children": []}),
}

WITHOUT_EVENT: dict[str, Scene] = {
    "checkpoint.put": with_holder(
        lambda holder: checkpoint.put(holder, number=1, codec="c", fingerprint="f", body="b")
    ),
    "lease.renew": with_holder(lambda holder: lease.renew(holder, 2 * TTL)),
    "inbox.promote": with_holder(inbox.promote),
    "schedule.put": lambda store, clock: schedule.put("nightly", DEFINITION, by="ada"),
}

RETRIED: dict[str, Scene] = {
    "session.create": create,
    "schedule.backfill_tick": with_schedule(
        lambda made: schedule.backfill_tick(made.uid, 1, 600_000_000, build_session)
    ),
    "schedule.trigger": with_schedule(
        lambda made: schedule.trigger(made.uid, build_session, by="ada", session_uid="7" * 32)
    ),
    "leave.cancel": with_holder(lambda holder: session_end.cancel(holder.uid, "ada")),
    "session.request_pause": with_holder(lambda holder: session.request_pause(holder.uid, "ada")),
    "lease.acquire": lambda store, clock: lease.acquire(a_session(store).uid, "w", nonce="n", ttl=TTL),
    "lease.take_over": with_holder(lambda holder: lease.take_over(holder.uid, "w", nonce="n", ttl=TTL, because="dead")),
    "lease.expire": expire,
    "wait.open": with_holder(lambda holder: wait.open_(holder, "w", WaitKind.INPUT)),
    "wait.resolve": with_holder(
        lambda holder: wait.resolve(holder.uid, "ada", "w", "yes"),
        lambda holder: wait.open_(holder, "w", WaitKind.INPUT),
    ),
    "wait.fire": fire,
    "inbox.receive": with_holder(lambda holder: inbox.receive(holder.uid, "ada", "m", {"a": 1})),
    "task.add": with_holder(lambda holder: task.add(holder, "t", "Fix")),
    "task.add_from_outside": with_holder(lambda holder: task.add_from_outside(holder.uid, "ada", "t", "Fix")),
    "task.change_from_outside": with_holder(
        lambda holder: task.change_from_outside(holder.uid, "ada", "t", state="done", note="by hand"),
        lambda holder: task.add(holder, "t", "Fix"),
    ),
    "decision.settle_from_outside": with_holder(
        lambda holder: decision.settle_from_outside(holder.uid, "ada", "d", "good"),
        lambda holder: decision.decide(holder, "d", "x", because="y"),
    ),
    "decision.decide": with_holder(lambda holder: decision.decide(holder, "d", "x", because="y")),
    "decision.settle": with_holder(
        lambda holder: decision.settle(holder, "d", "good"),
        lambda holder: decision.decide(holder, "d", "x", because="y"),
    ),
    "artifact.index": with_holder(
        lambda holder: artifact.index(
            holder.uid, "ada", "f" * 64, kind="diff", size=1, location="x", retention=Retention.KEEP
        )
    ),
    "event.erase": with_holder(
        lambda holder: event.erase(holder.uid, "ada", [3], because="asked to"),
        lambda holder: event.append(holder, "note"),
    ),
}


def test_every_plain_move_is_listed() -> None:
    assert plain_moves().keys() == PLAIN.keys() | WASTEFUL


@pytest.mark.parametrize("name", [*PLAIN, *WITHOUT_EVENT, *RETRIED])
def test_a_move_run_twice_is_the_same_as_once(store: Store, clock: ManualClock, name: str) -> None:
    move = (PLAIN | WITHOUT_EVENT | RETRIED)[name](store, clock)
    before = everything(store)
    store.write_now(move)
    once = everything(store)
    store.write_now(move)
    assert everything(store) == once
    assert (once["event"] == before["event"]) == (name not in RETRIED)


@pytest.mark.parametrize(
    "name",
    sorted(
        RETRIED.keys() - {"lease.expire", "event.erase", "lease.acquire", "lease.take_over", "schedule.backfill_tick"}
    ),
)
@pytest.mark.databases("memory", "postgres")
def test_a_retry_gets_the_same_answer(store: Store, clock: ManualClock, name: str) -> None:
    move = RETRIED[name](store, clock)
    first = store.write_now(move)
    clock.advance(seconds=1)
    assert store.write_now(move) == first
