"""What the database itself refuses: SQL without the checks in Python."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from perdure.clock import SECOND
from perdure.domain.session import MOVES, SessionRecord, Status
from perdure.domain.wait import WaitKind
from perdure.errors import ConfigError, Conflict, IllegalMove, PerdureError
from perdure.store.move import StoreTransaction
from perdure.store.moves import decision, event, inbox, lease, step, task, wait
from perdure.store.moves.step import NewStep
from perdure.store.store import Store
from tests.store.support.sessions import TTL, a_holder, a_session, everything, plain, raw, run_raw

pytestmark = pytest.mark.databases("sqlite", "postgres")

DIGEST = "0" * 64


@pytest.fixture
def uid(store: Store) -> Iterator[str]:
    """A session of which there is one of everything. Whatever a test tries, nothing may have changed at its end."""
    holder = a_holder(store, a_session(store, "there").uid)
    for id in ("open", "resolved"):
        store.write_now(wait.open_(holder, id, WaitKind.INPUT, ref="r"))
    store.write_now(wait.resolve(holder.uid, "ada", "resolved", "yes"))
    store.write_now(inbox.receive(holder.uid, "ada", "promoted", {"n": 1}))
    store.write_now(inbox.promote(holder))
    store.write_now(inbox.receive(holder.uid, "ada", "unread", {"n": 2}))
    recorded = NewStep(restart_number=0, scope="", name="n", argument_digest="d", occurrence=0, result="1")
    store.write_now(step.record(holder, recorded))
    for id in ("made", "settled"):
        store.write_now(decision.decide(holder, id, "x", because="y", then="z"))
    store.write_now(decision.settle(holder, "settled", "good"))
    store.write_now(task.add(holder, "t", "Fix"))
    held = store.write_now(lease.acquire_named("r", holder="w", nonce="n", ttl=TTL))
    store.write_now(lease.release_named(held))
    store.write_now(lease.acquire_named("r", holder="w", nonce="m", ttl=TTL))
    before = everything(store)
    yield holder.uid
    assert everything(store) == before


EVENT = "insert into event (session_uid, number, kind, actor, at, move_id, body, salt, digest, chain) values"

# What is tried, and the words of the trigger that refuses it.
TRIGGERS = {
    "an event is rewritten": ("update event set body = '{}' where number = 2", "erasure"),
    "an event gets another number": ("update event set number = 99 where number = 2", "erasure"),
    "an event gets another actor": ("update event set actor = 'eve' where number = 2", "erasure"),
    "an event gets another time": ("update event set at = at + 1 where number = 2", "erasure"),
    "an event gets another kind": ("update event set kind = 'note' where number = 2", "erasure"),
    "an event gets another effect": ("update event set effect_id = 'e' where number = 2", "erasure"),
    "an event gets another move": ("update event set move_id = 'm' where number = 2", "erasure"),
    "an event gets another digest": (f"update event set digest = '{DIGEST}' where number = 2", "erasure"),
    "an event gets another chain": (f"update event set chain = '{DIGEST}' where number = 2", "erasure"),
    "erasure changes more": ("update event set body = null, salt = null, actor = 'eve' where number = 2", "erasure"),
    "an event is deleted": ("delete from event where number = 2", "never deleted"),
    "the log gets shorter": ("update session set cursor = cursor - 1", "shorter"),
    "an epoch comes back": ("update session set lease_epoch = lease_epoch - 1", "epoch"),
    "a session gets another id": ("update session set id = 'other'", "names"),
    "a resource's epoch comes back": ("update lease set epoch = epoch - 1", "epoch"),
    "a resource is forgotten": ("delete from lease", "epoch"),
    "an answer is changed": ("update wait set answer = '1' where id = 'resolved'", "once"),
    "an answer is taken back": (
        "update wait set answer = null, resolved_by = null, resolved_at = null where id = 'resolved'",
        "once",
    ),
    "a message is promoted twice": ("update inbox set promoted_as = 2 where id = 'promoted'", "once"),
    "a promotion is taken back": ("update inbox set promoted_as = null where id = 'promoted'", "once"),
    "a message is changed": ("update inbox set body = '{}' where id = 'unread'", "never changed"),
    "a message is moved": ("update inbox set sequence = 9 where id = 'unread'", "never changed"),
    "a step is recorded again": ("update step set result = '2'", "once"),
    "a decision is rewritten": ("update decision set decision = 'other' where id = 'made'", "once"),
    "a reason is rewritten": ("update decision set rationale = 'other' where id = 'made'", "once"),
    "an outcome is rewritten": ("update decision set outcome = 'bad' where id = 'settled'", "once"),
}

# Holes that are known: what is tried, and nothing refuses it yet.
HOLES = {
    "a plan is rewritten": "update decision set planned_action = 'other' where id = 'made'",
    "a message gets another sender": "update inbox set sender = 'eve' where id = 'unread'",
    "a question is rewritten": "update wait set kind = 'approval', ref = 'other' where id = 'open'",
    "a step is deleted": "delete from step",
    "a message is deleted": "delete from inbox where id = 'promoted'",
    "an answer is deleted": "delete from wait where id = 'resolved'",
    "a decision is deleted": "delete from decision where id = 'settled'",
}


@pytest.mark.parametrize(("tried", "words"), TRIGGERS.values(), ids=TRIGGERS.keys())
def test_triggers_refuse(store: Store, uid: str, tried: str, words: str) -> None:
    with pytest.raises(IllegalMove, match=words):
        raw(store, tried)


def test_event_numbers_have_no_gaps(store: Store, uid: str) -> None:
    assert [name for name, tried in HOLES.items() if not is_refused(store, tried)] == []


def is_refused(store: Store, tried: str) -> bool:
    """Whether the database refuses this; if it does not, it is taken back all the same."""

    def run(tx: StoreTransaction) -> None:
        run_raw(tx, tried)
        raise RollBack

    try:
        store.write_now(plain(run))
    except RollBack:
        return False
    except PerdureError:
        return True
    raise AssertionError


class RollBack(Exception):
    """Rolls a move back."""


CHECKS = {
    "an event of an unknown kind": f"{EVENT} (:uid, 99, 'odd', 'x', 0, 'm', '1', 's', :digest, :digest)",
    "an event of no session": f"{EVENT} ('missing', 1, 'note', 'x', 0, 'm', '1', 's', :digest, :digest)",
    "a number that is taken": f"{EVENT} (:uid, 1, 'note', 'x', 0, 'm', '1', 's', :digest, :digest)",
    "an event before the first": f"{EVENT} (:uid, 0, 'note', 'x', 0, 'm', '1', 's', :digest, :digest)",
    "half an erasure": f"{EVENT} (:uid, 99, 'note', 'x', 0, 'm', null, 's', :digest, :digest)",
    "a digest that is none": f"{EVENT} (:uid, 99, 'note', 'x', 0, 'm', '1', 's', 'short', :digest)",
    "a chain that is none": f"{EVENT} (:uid, 99, 'note', 'x', 0, 'm', '1', 's', :digest, 'short')",
    "an event without an actor": f"{EVENT} (:uid, 99, 'note', null, 0, 'm', '1', 's', :digest, :digest)",
    "a session in no state": "update session set status = 'asleep'",
    "one that runs without a lease": "update session set lease_nonce = null, lease_until = null, lease_holder = null",
    "a lease without an end": "update session set lease_until = null",
    "a lease without a holder": "update session set lease_holder = null",
    "a lease of one that does not run": "update session set status = 'ready'",
    "a wait that does not wait": "update session set waiting_since = 5",
    "a fork of nothing": "update session set forked_at = 5",
    "a parent that is not there": "update session set parent_uid = 'missing'",
    "a result of an unfinished session": "update session set result = '1'",
    "an error of an unfinished session": "update session set error = '1'",
    "a negative cost": "update session set tokens_in = -1",
    "a negative cost of answers": "update session set tokens_out = -1",
    "a negative price": "update session set cost_micros = -1",
    "a restart before the first": "update session set restart_number = -1",
    "no version": "update session set version = 0",
    "a negative count of crashes": "update session set crash_count = -1",
    "a second session of one name": "insert into session select * from session",
    "a session without a program": "update session set program = null",
    "a session that has events is deleted": "delete from session",
    "a wait for nothing known": "update wait set kind = 'godot' where id = 'open'",
    "a timer without a time": "update wait set kind = 'timer' where id = 'open'",
    "an answer without an author": "update wait set answer = '1' where id = 'open'",
    "half a resolution": "update wait set resolved_at = 5 where id = 'open'",
    "a wait of no session": "insert into wait (session_uid, id, kind, since) values ('missing', 'w', 'input', 0)",
    "a message in no mode": "insert into inbox values (:uid, 'm', 9, 'shout', '1', 'ada', 0, null)",
    "a place in line that is taken": "insert into inbox values (:uid, 'm', 1, 'queue', '1', 'ada', 0, null)",
    "a place in line before the first": "insert into inbox values (:uid, 'm', 0, 'queue', '1', 'ada', 0, null)",
    "a promotion to an event that is not there": "update inbox set promoted_as = 99 where id = 'unread'",
    "a step recorded twice": "insert into step select * from step",
    "a step with two results": "insert into step values (:uid, 0, '', 'm', 'd', 0, '1', 'a', null, 1, 0)",
    "a step before the first": "insert into step values (:uid, 0, '', 'm', 'd', -1, '1', null, null, 1, 0)",
    "a task in no state": "update task set state = 'odd'",
    "a task below itself": "update task set parent_id = 't'",
    "a task below nothing": "update task set parent_id = 'other'",
    "a decision without a reason": "insert into decision values (:uid, 'd', 'x', '', null, null, 0, null)",
    "a decision without a text": "insert into decision values (:uid, 'd', '', 'x', null, null, 0, null)",
    "an outcome at no time": "insert into decision values (:uid, 'd', 'x', 'y', null, 'good', 0, null)",
    "a fact in no version": "insert into fact values ('s', 'k', '1', 0, null, null, 'ada', 0, 0, null)",
    "a fact that is stale at once": "insert into fact values ('s', 'k', '1', 1, null, null, 'ada', 0, 0, 0)",
    "a fact of no session": "insert into fact values ('s', 'k', '1', 1, null, 'missing', 'ada', 0, 0, null)",
    "a resource held for ever": "update lease set until = null",
    "a resource without a holder": "update lease set holder = null",
    "a resource never acquired": "insert into lease values ('q', null, null, 0, null)",
    "an artifact of no size": "insert into artifact values (:uid, :digest, 'k', -1, 'l', 'keep', 0)",
    "an artifact kept for no reason": "insert into artifact values (:uid, :digest, 'k', 1, 'l', 'perhaps', 0)",
    "an artifact that is no digest": "insert into artifact values (:uid, 'short', 'k', 1, 'l', 'keep', 0)",
    "a message of no session": "insert into inbox values ('missing', 'm', 1, 'queue', '1', 'ada', 0, null)",
    "a step of no session": "insert into step values ('missing', 0, '', 'm', 'd', 0, '1', null, null, 1, 0)",
    "a task of no session": "insert into task values ('missing', 't', null, 'x', 'open', 0, null, null, null, 0, 0)",
    "a decision of no session": "insert into decision values ('missing', 'd', 'x', 'y', null, null, 0, null)",
    "an artifact of no session": "insert into artifact values ('missing', :digest, 'k', 1, 'l', 'keep', 0)",
    "a checkpoint of no session": "insert into checkpoint values ('missing', 1, 'c', 'f', 'b', 0)",
}


@pytest.mark.slow
@pytest.mark.parametrize("tried", CHECKS.values(), ids=CHECKS.keys())
def test_constraints_refuse(store: Store, uid: str, tried: str) -> None:
    with pytest.raises((Conflict, IllegalMove)):  # a trigger may look before the check does
        raw(store, tried.replace(":uid", f"'{uid}'").replace(":digest", f"'{DIGEST}'"))


@pytest.mark.parametrize(
    "tried", ["session set priority", "session set created_at", "event set at", "task set priority"]
)
def test_text_is_not_a_number(store: Store, uid: str, tried: str) -> None:
    with pytest.raises((Conflict, ConfigError)):
        raw(store, f"update {tried} = 'soon'")


def columns_of(status: Status) -> dict[str, Any]:
    """Everything else that belongs to a state, so that only its coming about can be refused."""
    running = status is Status.RUNNING
    return {
        "status": f"'{status}'",
        "lease_holder": "'w'" if running else "null",
        "lease_nonce": "'n'" if running else "null",
        "lease_until": 5 * SECOND if running else "null",
        "waiting_since": 5 if status is Status.WAITING else "null",
    }


def another(template: str, **columns: Any) -> str:
    """Insert a session like one that is there, except for some columns."""
    names = SessionRecord.columns()
    values = [str(columns.get(name, name)) for name in names]
    return f"insert into session ({', '.join(names)}) select {', '.join(values)} from session where uid = '{template}'"


@pytest.mark.parametrize(
    "columns",
    [
        {"uid": "'short'"},
        {"id": "''"},
        {"status": "'asleep'"},
        {"cursor": -1},
        {"lease_epoch": -1},
        {"parent_uid": "'missing'"},
        {"forked_from": "'missing'", "forked_at": 1},
    ],
)
def test_constraints_refuse_a_session_with(store: Store, columns: dict[str, Any]) -> None:
    uid, given = a_session(store).uid, {"uid": f"'{1:032}'", "id": "'other'"}
    with pytest.raises(Conflict):
        raw(store, another(uid, **(given | columns)))
    raw(store, another(uid, **given))


def test_the_database_refuses_unlisted_state_changes_of_a_session(store: Store) -> None:
    template = a_session(store).uid
    for number, (old, new) in enumerate(product(Status, Status)):
        uid = f"{number:032}"
        raw(store, another(template, uid=f"'{uid}'", id=f"'{old}-{new}'", **columns_of(old)))
        change = ", ".join(f"{name} = {value}" for name, value in columns_of(new).items())
        allowed = new in MOVES[old] or new is old
        try:
            raw(store, f"update session set {change} where uid = '{uid}'")
        except IllegalMove:
            assert not allowed, f"{old} -> {new} was refused"
        else:
            assert allowed, f"{old} -> {new} was not refused"


def test_erasure_is_the_one_change_of_an_event(store: Store) -> None:
    holder = a_holder(store)
    store.write_now(event.append(holder, "note", {"secret": 1}))
    raw(store, "update event set body = null, salt = null where number = 3")
    store.read_now(event.verify, holder.uid)
    with pytest.raises(IllegalMove):
        raw(store, "update event set body = '{}', salt = 's' where number = 3")


REPLACE = "insert or replace into {0} select * from {0}"


@pytest.mark.databases("sqlite")
def test_an_event_or_an_epoch_is_not_replaced(store: Store, uid: str) -> None:
    """`insert or replace` deletes the old row without an update: only a trigger on deletion sees it."""
    assert is_refused(store, REPLACE.format("event"))
    assert is_refused(store, REPLACE.format("lease"))


@pytest.mark.databases("sqlite")
def test_nothing_else_is_replaced(store: Store, uid: str) -> None:
    tables = ("session", "wait", "inbox", "step", "decision")
    assert [table for table in tables if not is_refused(store, REPLACE.format(table))] == []
