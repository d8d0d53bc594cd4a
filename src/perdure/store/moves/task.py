"""Moves and reads of the plan."""

from __future__ import annotations

from typing import Any

from perdure.domain.record import check_columns, check_move
from perdure.domain.task import MOVES, Task, TaskState
from perdure.errors import ConfigError, Conflict, IllegalMove, NotFound
from perdure.ids import check_name, check_text
from perdure.store.move import Log, StoreTransaction, holder_move, outsider_move
from perdure.store.moves import session
from perdure.store.moves.event import outside_mark

CHANGEABLE = frozenset({"title", "state", "priority", "branch", "assigned_worker", "note"})
UNFINISHED = frozenset({TaskState.OPEN, TaskState.ACTIVE, TaskState.BLOCKED})


@holder_move
def add(
    log: Log,
    id: str,
    title: str,
    *,
    parent_id: str | None = None,
    priority: int = 0,
    branch: str | None = None,
    assigned_worker: str | None = None,
    note: str | None = None,
) -> Task:
    """Add a task. The same task again returns it; another one under its id is a conflict."""
    check_name("The task id", id)
    check_text("The task", title + (note or "") + (branch or "") + (assigned_worker or ""))
    if parent_id is not None:
        get(log.tx, log.uid, parent_id)
    fresh = log.tx.run(
        "task.insert",
        uid=log.uid, id=id, parent_id=parent_id, title=title, priority=priority, branch=branch,
        assigned_worker=assigned_worker, note=note, now=log.tx.now,
    )  # fmt: skip
    task = get(log.tx, log.uid, id)
    if fresh:
        _refuse_below_done(log, task)
        log.append("task.added", outside_mark(log), rows={"task": [task.to_dict()]})
    elif (task.title, task.parent_id) != (title, parent_id):
        raise Conflict(f"Task {id} of session {log.head.id} exists already, with another title or parent.")
    return task


@holder_move
def change(log: Log, /, id: str, **changes: Any) -> Task:
    """Change a task. It can be done only when no task below it is unfinished."""
    check_columns(Task, changes, CHANGEABLE)
    task = get(log.tx, log.uid, id)
    if (wanted := changes.get("state", task.state)) not in set(TaskState):
        raise ConfigError(f"A task cannot be {wanted!r:.40}; it is {', '.join(TaskState)}.")
    state = TaskState(wanted)
    if state != task.state:
        check_move("task", MOVES, TaskState(task.state), state)
    if state is TaskState.DONE and (below := log.tx.all("task.unfinished_below", uid=log.uid, id=id, limit=5)):
        raise IllegalMove(f"Task {id} is not done while {', '.join(row[0] for row in below)} is unfinished.")
    columns = {name: getattr(task, name) for name in CHANGEABLE} | changes
    log.tx.run("task.change", uid=log.uid, id=id, now=log.tx.now, **columns)
    if state in UNFINISHED:
        _refuse_below_done(log, task)
    row = {"id": id, "updated_at": log.tx.now} | changes
    log.append("task.changed", outside_mark(log), rows={"task": [row]})
    return get(log.tx, log.uid, id)


@outsider_move
def add_from_outside(log: Log, id: str, title: str, *, parent_id: str | None = None, priority: int = 0) -> Task:
    """Add a task to the plan of a session, whether a worker holds it or not."""
    session.refuse_finished(log)
    return add.on(log, id, title, parent_id=parent_id, priority=priority)


@outsider_move
def change_from_outside(log: Log, /, id: str, **changes: Any) -> Task:
    """Change a task of a session, whether a worker holds it or not. A task that is as wanted stays as it is."""
    session.refuse_finished(log)
    task = get(log.tx, log.uid, id)
    if all(getattr(task, name) == value for name, value in changes.items()):
        return task
    return change.on(log, id, **changes)


def _refuse_below_done(log: Log, task: Task) -> None:
    if task.parent_id is not None and get(log.tx, log.uid, task.parent_id).state == TaskState.DONE:
        raise IllegalMove(f"Task {task.id} cannot be unfinished: its parent {task.parent_id} is done.")


def get(tx: StoreTransaction, uid: str, id: str) -> Task:
    row = tx.one("task.get", uid=uid, id=id)
    if row is None:
        raise NotFound(f"The plan has no task {id}.")
    return Task.from_row(row)


def of_session(tx: StoreTransaction, uid: str, *, limit: int = 10_000) -> list[Task]:
    """A session's plan; the tree is by `parent_id`, siblings are in order."""
    return [Task.from_row(row) for row in tx.all("task.of_session", uid=uid, limit=limit)]


def active(tx: StoreTransaction, uid: str) -> str | None:
    """The id of the task that a session works at."""
    row = tx.one("task.active", uid=uid)
    return None if row is None else str(row[0])
