"""A task: a node of the plan."""

from __future__ import annotations

from enum import StrEnum

from perdure.domain.record import Record


class TaskState(StrEnum):
    OPEN = "open"
    ACTIVE = "active"
    BLOCKED = "blocked"
    DONE = "done"
    DROPPED = "dropped"


MOVES: dict[TaskState, frozenset[TaskState]] = {
    TaskState.OPEN: frozenset({TaskState.ACTIVE, TaskState.BLOCKED, TaskState.DONE, TaskState.DROPPED}),
    TaskState.ACTIVE: frozenset({TaskState.OPEN, TaskState.BLOCKED, TaskState.DONE, TaskState.DROPPED}),
    TaskState.BLOCKED: frozenset({TaskState.OPEN, TaskState.ACTIVE, TaskState.DROPPED}),
    TaskState.DONE: frozenset({TaskState.OPEN}),
    TaskState.DROPPED: frozenset({TaskState.OPEN}),
}


class Task(Record, frozen=True):
    """A row of `task`. The tree is by `parent_id`; the order among siblings is by priority, then by age."""

    session_uid: str
    id: str
    parent_id: str | None
    title: str
    state: str
    priority: int
    branch: str | None
    assigned_worker: str | None
    note: str | None
    created_at: int
    updated_at: int
