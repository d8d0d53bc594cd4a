"""The plan: a tree of tasks, each moved on legally, done only when all below it is finished."""

import pytest

from perdure.domain.task import TaskState
from perdure.errors import ConfigError, Conflict, IllegalMove, NotFound
from perdure.store.moves import event, task
from perdure.store.store import Store
from perdure.testing import ManualClock
from tests.store.support.sessions import a_holder, everything


def test_a_new_task_is_open(store: Store, clock: ManualClock) -> None:
    holder = a_holder(store)
    added = store.write_now(task.add(holder, "t-1", "Fix the test", priority=2, branch="fix", note="flaky"))
    assert (added.state, added.priority, added.branch, added.note) == ("open", 2, "fix", "flaky")
    assert added.created_at == added.updated_at == clock.now()
    assert store.read_now(task.get, holder.uid, "t-1") == added


def test_adding_a_task_again_returns_it_even_after_changes(store: Store) -> None:
    holder = a_holder(store)
    store.write_now(task.add(holder, "t-1", "Fix the test"))
    moved = store.write_now(task.change(holder, "t-1", state=TaskState.ACTIVE))
    before = everything(store)
    assert store.write_now(task.add(holder, "t-1", "Fix the test")) == moved
    assert everything(store) == before


def test_another_task_under_its_id_is_a_conflict(store: Store) -> None:
    holder = a_holder(store)
    store.write_now(task.add(holder, "t-0", "Plan"))
    store.write_now(task.add(holder, "t-1", "Fix the test"))
    with pytest.raises(Conflict):
        store.write_now(task.add(holder, "t-1", "Something else"))
    with pytest.raises(Conflict):
        store.write_now(task.add(holder, "t-1", "Fix the test", parent_id="t-0"))


def test_a_task_needs_a_parent_that_is_there(store: Store) -> None:
    holder = a_holder(store)
    with pytest.raises(NotFound):
        store.write_now(task.add(holder, "t-1", "Fix", parent_id="t-0"))
    assert store.read_now(task.of_session, holder.uid) == []


def test_a_change_records_only_what_changed(store: Store, clock: ManualClock) -> None:
    holder = a_holder(store)
    store.write_now(task.add(holder, "t-1", "Fix", note="old"))
    clock.advance(seconds=3)
    changed = store.write_now(task.change(holder, "t-1", state=TaskState.BLOCKED, assigned_worker="w-2"))
    assert (changed.title, changed.note, changed.state, changed.assigned_worker) == ("Fix", "old", "blocked", "w-2")
    assert changed.updated_at == clock.now() == changed.created_at + 3_000_000
    [line] = store.read_now(event.last, holder.uid, limit=1)
    assert line.body["rows"]["task"] == [
        {"id": "t-1", "updated_at": clock.now(), "state": "blocked", "assigned_worker": "w-2"}
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {"parent_id": None},
        {"session_uid": "x"},
        {"state": "finished"},
        {"state": None},
        {"title": "a\0b"},
        {"title": None},
        {"priority": "high"},
        {"priority": 2**63},
        {"priority": True},
    ],
)
def test_a_task_cannot_become_what_it_cannot_be(store: Store, changes: dict[str, object]) -> None:
    holder = a_holder(store)
    added = store.write_now(task.add(holder, "t-1", "Fix"))
    with pytest.raises(ConfigError):
        store.write_now(task.change(holder, "t-1", **changes))
    assert store.read_now(task.get, holder.uid, "t-1") == added


def test_an_illegal_move_changes_nothing(store: Store) -> None:
    holder = a_holder(store)
    store.write_now(task.add(holder, "t-1", "Fix"))
    store.write_now(task.change(holder, "t-1", state=TaskState.BLOCKED))
    before = everything(store)
    with pytest.raises(IllegalMove):
        store.write_now(task.change(holder, "t-1", state=TaskState.DONE, title="Other"))
    assert everything(store) == before


def test_a_missing_task_cannot_change(store: Store) -> None:
    with pytest.raises(NotFound):
        store.write_now(task.change(a_holder(store), "t-1", title="x"))


def test_a_task_is_done_only_when_nothing_below_it_is_unfinished(store: Store) -> None:
    holder = a_holder(store)
    store.write_now(task.add(holder, "top", "All of it"))
    for id in ("a", "b"):
        store.write_now(task.add(holder, id, "Part", parent_id="top"))
    store.write_now(task.change(holder, "a", state=TaskState.DONE))
    with pytest.raises(IllegalMove, match="while b is"):
        store.write_now(task.change(holder, "top", state=TaskState.DONE))
    store.write_now(task.change(holder, "b", state=TaskState.DROPPED))
    assert store.write_now(task.change(holder, "top", state=TaskState.DONE)).state == "done"


def test_nothing_is_unfinished_below_a_task_that_is_done(store: Store) -> None:
    holder = a_holder(store)
    store.write_now(task.add(holder, "top", "All of it"))
    store.write_now(task.add(holder, "a", "Part", parent_id="top"))
    for id in ("a", "top"):
        store.write_now(task.change(holder, id, state=TaskState.DONE))
    with pytest.raises(IllegalMove, match="top"):
        store.write_now(task.add(holder, "late", "Another part", parent_id="top"))
    with pytest.raises(IllegalMove, match="top"):
        store.write_now(task.change(holder, "a", state=TaskState.OPEN))
    store.write_now(task.change(holder, "top", state=TaskState.OPEN))
    store.write_now(task.change(holder, "a", state=TaskState.OPEN))


def test_the_plan_lists_siblings_by_priority_then_age(store: Store, clock: ManualClock) -> None:
    holder = a_holder(store)
    for id, priority in (("late", 0), ("first", 5), ("later", 0)):
        store.write_now(task.add(holder, id, "x", priority=priority))
        clock.advance(seconds=1)
    assert [one.id for one in store.read_now(task.of_session, holder.uid)] == ["first", "late", "later"]
    assert [one.id for one in store.read_now(task.of_session, holder.uid, limit=1)] == ["first"]
