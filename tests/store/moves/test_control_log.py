"""The control log: every change of what governs the store, in one chain."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from perdure.domain import control_event
from perdure.domain.control_event import ControlEvent
from perdure.domain.exemption import ExemptionScope
from perdure.errors import Damaged, IllegalMove, PerdureError
from perdure.ids import encode, new_uid
from perdure.store.move import Move, StoreTransaction
from perdure.store.moves import control_log, exemption, meta, policy, principal, queue, rate_limit, schedule, token
from perdure.store.store import Store
from tests.store.support.sessions import raw, rows

HOURLY: dict[str, Any] = {
    "cron": "0 * * * *", "every": None, "timezone": "UTC", "jitter": 0, "overlap": "skip", "catch_up": "last",
    "program": "nightly", "arguments": {}, "options": {},
}  # fmt: skip


def lines(store: Store) -> list[ControlEvent]:
    return list(reversed(store.read_now(lambda tx: list(control_log.listing(tx)))))


def note(name: str) -> Move[int]:
    return Move("control_log.note", "plain", lambda tx: control_log.append(tx, "note", "ada", {"name": name}))


def test_a_change_of_a_queue_is_in_the_control_log(store: Store) -> None:
    store.write_now(queue.set_limits("mail", "ada", concurrency=3))
    store.write_now(queue.set_limits("mail", "ada", concurrency=3))
    [line] = lines(store)
    assert (line.number, line.kind, line.actor) == (1, "queue.changed", "ada")
    assert (line.body["queue"], line.body["concurrency"]) == ("mail", 3)


def test_changes_of_schedules_are_in_the_control_log(store: Store) -> None:
    made = store.write_now(schedule.put("nightly", HOURLY, by="ada"))
    store.write_now(schedule.put("nightly", HOURLY, by="ada"))
    store.write_now(schedule.put("nightly", HOURLY | {"cron": "5 * * * *"}, by="grace"))
    for paused in (True, True, False):
        store.write_now(schedule.set_paused("nightly", paused, by="ada"))
    store.write_now(schedule.remove(made.uid, by="ada"))
    store.write_now(schedule.remove(made.uid, by="ada"))
    assert [(line.kind, line.actor) for line in lines(store)] == [
        ("schedule.added", "ada"),
        ("schedule.changed", "grace"),
        ("schedule.paused", "ada"),
        ("schedule.resumed", "ada"),
        ("schedule.removed", "ada"),
    ]
    assert lines(store)[1].body["definition"]["cron"] == "5 * * * *"


def test_changes_of_rate_limits_are_in_the_control_log(store: Store) -> None:
    for requests in (10, 10, 20, None):
        store.write_now(rate_limit.set_limit("anthropic", "ada", requests))
    assert [(line.kind, line.body["requests"]) for line in lines(store)] == [
        ("rate_limit.changed", 10),
        ("rate_limit.changed", 20),
        ("rate_limit.changed", None),
    ]


KINDS = {
    "principal.added": "principal.put", "principal.changed": "principal.put",
    "token.rotated": "token.created",
}  # fmt: skip


def me(store: Store) -> str:
    """The identity of this process, as the database authenticates it."""
    return store.write_now(Move("control_log.who", "plain", lambda tx: tx.identity))


def changes(store: Store) -> dict[str, Callable[[], Move[Any]]]:
    """Every kind of change that the control log tells; what one needs was made before."""
    scope = ExemptionScope(session_uid=None, repository=None, owner="ada", tool=None)
    store.write_now(principal.put(new_uid(), "ada", roles=["owner"], logins=[me(store)], by="ada"))
    store.write_now(principal.put(new_uid(), "hopper", roles=["approver"], logins=["db:h", "db:i"], by="ada"))
    for number in (1, 2):
        store.write_now(token.create(f"{number:010}", f"{number:064x}", "hopper", by="ada"))
    weekly = store.write_now(schedule.put("weekly", HOURLY, by="ada"))
    given = store.write_now(exemption.grant("pull", scope, by="ada", because="x"))
    return {
        "policy.set": lambda: policy.activate('default = "ask"', by="ada", because="x"),
        "policy.frozen": lambda: policy.freeze(by="ada", because="x"),
        "policy.thawed": lambda: policy.thaw(by="ada", because="x"),
        "principal.added": lambda: principal.put(new_uid(), "grace", roles=["approver"], by="ada"),
        "principal.changed": lambda: principal.remove_login("hopper", "db:h", by="ada"),
        "token.created": lambda: token.create("3" * 10, "3" * 64, "hopper", by="ada"),
        "token.rotated": lambda: token.rotate("0000000001", "4" * 10, "4" * 64, by="ada", until=2**60),
        "token.revoked": lambda: token.revoke("0000000002", by="ada"),
        "principal.removed": lambda: principal.remove("hopper", by="ada"),
        "queue.changed": lambda: queue.set_limits("mail", "ada", concurrency=3),
        "schedule.added": lambda: schedule.put("nightly", HOURLY, by="ada"),
        "schedule.changed": lambda: schedule.put("weekly", HOURLY | {"cron": "5 * * * *"}, by="ada"),
        "schedule.paused": lambda: schedule.set_paused("weekly", True, by="ada"),
        "schedule.resumed": lambda: schedule.set_paused("weekly", False, by="ada"),
        "schedule.removed": lambda: schedule.remove(weekly.uid, by="ada"),
        "rate_limit.changed": lambda: rate_limit.set_limit("anthropic", "ada", 10),
        "exemption.granted": lambda: exemption.grant("push", scope, by="ada", because="x"),
        "exemption.revoked": lambda: exemption.revoke(given.id, by="ada", because="x"),
    }


def test_every_kind_of_change_is_told_with_its_identity(store: Store) -> None:
    for kind, change in changes(store).items():
        before = len(lines(store))
        store.write_now(change())
        told = lines(store)[before:]
        assert [line.kind for line in told] == [KINDS.get(kind, kind)]
        assert told[0].body["identity"] == me(store), kind


def test_a_change_that_cannot_be_told_is_not_made(store: Store) -> None:
    wanted = changes(store)
    tables = ("policy", "policy_fence", "principal", "principal_login", "token", "queue", "schedule", "rate_limit")
    before = [rows(store, table) for table in (*tables, "exemption")]
    raw(store, "alter table control_event rename to control_event_elsewhere")
    try:
        for kind in wanted.keys() - {"policy.thawed", "schedule.resumed"}:  # what needs another change before it
            with pytest.raises(Exception, match="control_event"):
                store.write_now(wanted[kind]())
    finally:
        raw(store, "alter table control_event_elsewhere rename to control_event")
    assert [rows(store, table) for table in (*tables, "exemption")] == before


def test_a_refused_change_leaves_no_line(store: Store) -> None:
    def refused(tx: StoreTransaction) -> None:
        control_log.append(tx, "note", "ada", {})
        raise IllegalMove("no")

    with pytest.raises(IllegalMove):
        store.write_now(Move("control_log.refused", "plain", refused))
    assert lines(store) == []


def test_lines_of_many_writers_make_one_chain(store: Store) -> None:
    with ThreadPoolExecutor(4) as pool:
        numbers = list(pool.map(lambda one: store.write_now(note(str(one))), range(24)))
    assert sorted(numbers) == list(range(1, 25))
    number, chain = store.read_now(control_log.verify)
    assert (number, chain) == store.read_now(control_log.end)
    assert chain == lines(store)[-1].chain


def forge(statement: str, tx: StoreTransaction) -> None:
    tx.execute(statement, ())


def test_a_line_is_neither_changed_nor_deleted(store: Store) -> None:
    store.write_now(note("one"))
    for statement in ("update control_event set actor = 'eve'", "delete from control_event"):
        with pytest.raises(PerdureError, match="on record"):
            store.write_now(Move("forge", "plain", partial(forge, statement)))
    assert lines(store)[0].actor == "ada"


FORGED: dict[str, tuple[str, dict[str, Any]]] = {
    "another body": ("does not match its digest", {"body": '{"name":"two"}'}),
    "another actor": ("chain does not continue", {"actor": "eve"}),
    "a gap": ("has a gap", {"number": 3}),
}


@pytest.mark.parametrize(("words", "forged"), FORGED.values(), ids=FORGED.keys())
def test_a_forged_line_is_found(store: Store, words: str, forged: dict[str, Any]) -> None:
    store.write_now(note("one"))
    [line] = lines(store)
    row = line.to_dict() | {"body": encode(line.body)}
    previous = control_event.genesis(store.read_now(meta.properties)["store_id"])
    assert control_event.verify([tuple(row.values())], previous=previous) == line.chain
    with pytest.raises(Damaged, match=words):
        control_event.verify([tuple((row | forged).values())], previous=previous)


def test_a_move_that_runs_again_finds_its_lines(store: Store) -> None:
    def once(tx: StoreTransaction) -> str:
        if control_log.was_written(tx):
            return "known"
        control_log.append(tx, "note", "ada", {})
        return "written"

    move = Move("control_log.once", "plain", once)
    assert [store.write_now(move), store.write_now(move)] == ["written", "known"]
    assert len(lines(store)) == 1
