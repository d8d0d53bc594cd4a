"""The end of a run: no request is missed, and no wait is left without a purpose."""

import msgspec
import pytest

from perdure.domain.lease import Holder
from perdure.domain.session import Status
from perdure.domain.wait import WaitKind
from perdure.errors import IllegalMove, LeaseLost
from perdure.store.moves import approval, effect, event, session, session_end, wait
from perdure.store.moves.approval import ApprovalRequest
from perdure.store.moves.attempt import attempts_of
from perdure.store.moves.effect_input import Dispatch, NewEffect
from perdure.store.store import Store
from perdure.testing import ManualClock
from tests.store.support.sessions import a_holder, a_session, session_of


def asking(store: Store) -> Holder:
    holder = a_holder(store)
    store.write_now(wait.open_(holder, "w", WaitKind.INPUT))
    return holder


def intent(id: str) -> NewEffect:
    return NewEffect(
        id=id, position="[]", generation=0, tool="push", replay="escalate", targets="[]", intent="{}",
        intent_digest="1" * 64, idempotency_key=id.ljust(64, "0"),
    )  # fmt: skip


def test_a_session_without_a_cancel_request_parks(store: Store) -> None:
    holder = asking(store)
    assert store.write_now(session_end.park(holder, ["w"])) is True
    assert session_of(store, holder.uid).status == "waiting"


def test_a_request_to_stop_that_came_before_parking_is_not_slept_through(store: Store) -> None:
    holder = asking(store)
    store.write_now(session_end.cancel(holder.uid, by="ada"))
    assert store.write_now(session_end.park(holder, ["w"])) is False
    assert session_of(store, holder.uid).status == "running"
    assert store.write_now(session_end.park(holder, ["w"], stopping=True)) is True


def test_an_answer_that_came_before_parking_is_not_slept_through(store: Store) -> None:
    holder = asking(store)
    store.write_now(wait.resolve(holder.uid, "ada", "w", "yes"))
    assert store.write_now(session_end.park(holder, ["w"])) is False
    assert session_of(store, holder.uid).status == "running"


def test_a_finished_session_waits_for_nothing(store: Store) -> None:
    holder = asking(store)
    assert store.write_now(session_end.finish(holder, Status.DONE, result=1)) is True
    assert store.read_now(wait.open_of_session, holder.uid) == []
    closed = store.read_now(wait.get, holder.uid, "w")
    assert (closed.resolved_by, closed.answer) == (session_end.CLOSED, None)
    state = store.read_now(event.state_at, holder.uid)
    assert (state.session["status"], state.waits["w"]["resolved_by"]) == ("done", session_end.CLOSED)


def test_no_session_ends_while_an_effect_may_be_under_way(store: Store) -> None:
    holder = a_holder(store)
    store.write_now(effect.plan_and_dispatch(holder, intent("e-1"), Dispatch(worker="w", process="{}")))
    assert store.write_now(session_end.finish(holder, Status.DONE)) is False
    assert store.write_now(session_end.stop(holder)) is False
    with pytest.raises(IllegalMove, match="under way"):
        store.write_now(session.finish(holder, Status.DONE))
    assert session_of(store, holder.uid).status == "running"


def test_a_session_that_is_to_stop_dispatches_nothing_but_undos(store: Store) -> None:
    holder, by = a_holder(store), Dispatch(worker="w", process="{}")
    store.write_now(effect.plan(holder, intent("e-1")))
    store.write_now(session_end.cancel(holder.uid, by="ada"))
    assert store.write_now(effect.dispatch(holder, "e-1", by)) is None
    assert store.write_now(effect.plan_and_dispatch(holder, intent("e-2"), by)).state == "planned"
    undo = msgspec.structs.replace(intent("e-3"), position='["undo", "e-1"]')
    assert store.write_now(effect.plan_and_dispatch(holder, undo, by)).state == "dispatched"
    assert [len(store.read_now(attempts_of, holder.uid, id)) for id in ("e-1", "e-2", "e-3")] == [0, 0, 1]
    store.read_now(event.verify, holder.uid)


def test_stopping_refuses_what_was_only_planned_and_ends_the_session(store: Store) -> None:
    holder = asking(store)
    question = ApprovalRequest(gate="merge", requester="ada", requester_may_decide=False, quorum=1, expires_at=None)
    store.write_now(approval.request(holder, intent("e-1"), question))
    assert store.write_now(session_end.stop(holder)) is True
    assert session_of(store, holder.uid).status == "cancelled"
    assert store.read_now(effect.get, holder.uid, "e-1").state == "refused"
    assert store.read_now(wait.open_of_session, holder.uid) == []


@pytest.mark.parametrize("status", ["ready", "waiting", "expired"])
def test_a_session_without_a_holder_is_cancelled_in_one_move(store: Store, clock: ManualClock, status: str) -> None:
    holder = asking(store)
    store.write_now(effect.plan(holder, intent("e-1")))
    if status == "ready":
        store.write_now(session.release(holder))
    elif status == "waiting":
        store.write_now(session_end.park(holder, ["w"]))
    else:
        clock.advance(hours=1)
    assert store.write_now(session_end.cancel(holder.uid, "ada")) is True
    now = store.read_now(event.verify, holder.uid)
    assert (now.status, now.error["code"], now.cancel_requested_at) == ("cancelled", "cancelled", clock.now())
    assert store.read_now(effect.get, holder.uid, "e-1").state == "refused"
    assert store.read_now(wait.open_of_session, holder.uid) == []
    assert store.read_now(event.state_at, holder.uid).session["status"] == "cancelled"
    with pytest.raises(LeaseLost):
        store.write_now(event.append(holder, "note"))


def test_cancel_only_requests_the_end_of_a_running_session(store: Store) -> None:
    holder = asking(store)
    assert store.write_now(session_end.cancel(holder.uid, "ada")) is False
    assert session_of(store, holder.uid).status == "running"


def test_a_waiting_session_with_an_effect_under_way_stays_waiting(store: Store) -> None:
    holder = asking(store)
    store.write_now(effect.plan_and_dispatch(holder, intent("e-1"), Dispatch(worker="w", process="{}")))
    store.write_now(session_end.park(holder, ["w"]))
    assert store.write_now(session_end.cancel(holder.uid, "ada")) is False
    now = session_of(store, holder.uid)
    assert (now.status, now.cancel_requested_at is not None) == ("waiting", True)


def test_a_parent_does_not_end_before_its_children_are_asked_to_stop(store: Store) -> None:
    parent = a_session(store)
    child = a_session(store, parent_uid=parent.uid, parent_wait="w")
    assert store.write_now(session_end.cancel(parent.uid, "ada")) is False
    assert session_of(store, parent.uid).status == "ready"
    assert store.write_now(session_end.cancel(child.uid, "ada")) is True
    assert store.write_now(session_end.cancel(parent.uid, "ada")) is True


def test_restarting_closes_the_questions_of_the_last_run(store: Store) -> None:
    holder = asking(store)
    store.write_now(effect.plan(holder, intent("e-1")))
    assert store.write_now(session_end.restart(holder, {"pr": 8})) == 1
    now = session_of(store, holder.uid)
    assert (now.status, now.restart_number, now.restart_arguments) == ("running", 1, {"pr": 8})
    assert store.read_now(wait.open_of_session, holder.uid) == []
    assert store.read_now(effect.get, holder.uid, "e-1").state == "refused"
