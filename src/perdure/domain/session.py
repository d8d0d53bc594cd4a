"""A session: one long-lived execution, and the states it may pass through."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, ClassVar

from perdure.domain.record import Record


class Status(StrEnum):
    READY = "ready"
    RUNNING = "running"
    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


MOVES: dict[Status, frozenset[Status]] = {
    Status.READY: frozenset({Status.RUNNING, Status.WAITING, Status.CANCELLED}),  # it waits for a slot of its queue
    Status.RUNNING: frozenset({Status.READY, Status.WAITING, Status.DONE, Status.FAILED, Status.CANCELLED}),
    Status.WAITING: frozenset({Status.READY, Status.CANCELLED}),
    Status.DONE: frozenset(),
    Status.FAILED: frozenset({Status.READY, Status.WAITING}),  # it is retried, perhaps later
    Status.CANCELLED: frozenset(),
}

CRASHES = 5  # so many workers in a row may a session lose without getting further, before a person must look at it

TERMINAL = frozenset({Status.DONE, Status.FAILED, Status.CANCELLED})


class SessionRecord(Record, frozen=True):
    """A row of `session`. The lease is part of it, so that holding and moving are one check."""

    json_columns: ClassVar[frozenset[str]] = frozenset({"arguments", "result", "error", "restart_arguments"})

    uid: str
    id: str
    program: str
    arguments: Any
    result: Any
    error: Any
    title: str | None
    repository: str | None
    owner: str | None
    queue: str
    priority: int
    concurrency_key: str | None
    status: str
    waiting_since: int | None
    cursor: int
    chain: str
    parent_uid: str | None
    parent_wait: str | None
    forked_from: str | None
    forked_at: int | None
    branch: str
    lease_holder: str | None
    lease_nonce: str | None
    lease_epoch: int
    lease_until: int | None
    restart_number: int
    restart_arguments: Any
    crash_count: int
    cancel_requested_at: int | None
    pause_requested_at: int | None
    sealed_at: int | None
    tokens_in: int
    tokens_out: int
    cost_micros: int
    created_at: int
    updated_at: int
    version: int
    policy_at: int | None
    interrupt_requested_at: int | None
    model: str | None = None  # chosen by a person, instead of the one that its agent names
    archived_at: int | None = None
    retries: int | None = None  # how often it was retried after a failure; None: never
    removed_at: int | None = None  # its content is forgotten; the row keeps the id from being used again
    turn: int = 0  # the order within its queue and priority, lowest first
    max_retries: int | None = None  # how often it is retried without a person after a failure
    deadline_at: int | None = None  # when it is cancelled, unless it has ended
    code_version: str | None = None  # the version of the code that it began under
    pinned_at: int | None = None  # it runs only under the version that it began under
    workspace: str | None = None  # the machine that has its unpublished files
    suspected_at: int | None = None  # its worker died, so it runs alone until it has made progress
    lease_alone: int | None = None  # whether its holder runs no other session; None: not known
    slot_since: int | None = None  # it was ready, and now waits for a slot
    schedule_uid: str | None = None
    scheduled_at: int | None = None  # the tick of the schedule that started it
    repository_id: str | None = None  # by its remote or its first commit, so that clones of one repository are one
