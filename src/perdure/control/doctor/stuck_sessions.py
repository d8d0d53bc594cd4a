"""Sessions that do not continue by themselves: which, since when, why, and what to do.

    running   no event and no heartbeat of a tool for a long time, while the lease is renewed
    ready     no living worker takes its queue, has its program or its version, or its queue is paused
    waiting   for code, files, a policy or a slot that no process provides, or for a person after crashes
    overdue   a timer or a deadline has passed, and no service handled it

Every read follows an index of what may be stuck, and is limited. Of the ready sessions of one queue, program and pinned
version only the first in line is read: one reason holds for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import msgspec

from perdure.clock import SECOND
from perdure.domain.session import Status
from perdure.domain.wait import WaitKind
from perdure.domain.worker import WorkerRecord
from perdure.errors import Damaged
from perdure.store.inspection import stuck_rows
from perdure.store.inspection.stuck_rows import ReadySession, WaitingSession
from perdure.store.move import StoreTransaction
from perdure.store.moves import worker as workers

GRACE = 60 * SECOND  # how long a worker or a service may take
SILENCE = 15 * 60 * SECOND  # how long a session may run without an event or a heartbeat


class StuckSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session that does not continue by itself. `note`: a person wanted it, or it may still continue."""

    uid: str
    id: str
    status: Status
    kind: str  # silent, ready, overdue, deadline, or what it waits for: program, workspace, policy, quarantine, slot
    reason: str
    do: str
    since: int
    level: Literal["stuck", "note"] = "stuck"


def stuck(
    tx: StoreTransaction,
    now: int,
    *,
    is_alive: Callable[[WorkerRecord], bool] = lambda _worker: True,
    silence: int = SILENCE,
    damaged: list[Damaged] | None = None,
) -> list[StuckSession]:
    """The sessions that do not continue by themselves, each with its reason. `is_alive` judges a registered worker.

    A row that cannot be read ends the search for one kind of reason, and is added to `damaged`.
    """
    fleet = Fleet([one for one in workers.listing(tx) if is_alive(one)])
    closed = stuck_rows.closed_queues(tx)
    found: list[StuckSession] = []
    for part in (
        _silent(tx, now, silence),
        _ready(tx, now, fleet, closed),
        _waiting(tx, now, fleet, closed),
        _overdue(tx, now, fleet),
    ):
        try:
            found.extend(part)
        except Damaged as error:
            if damaged is not None:
                damaged.append(error)
    return found


class Fleet:
    """The processes that are alive: workers take sessions, services fire timers and deadlines."""

    def __init__(self, alive: Sequence[WorkerRecord]) -> None:
        self.workers = [one for one in alive if one.role == "worker" and one.draining_at is None]
        self.has_services = any(one.role != "supervisor" for one in alive)

    def missing(self, queue: str, program: str, version: str = "") -> tuple[str, str] | None:
        """Why no worker takes sessions of a queue, program and pinned version, and what to do."""
        if not self.workers:
            return "No worker is running.", START
        able = [one for one in self.workers if one.queues is None or queue in one.queues]
        if not able:
            return f"No running worker takes queue {queue}.", f"Start one: `perdure worker --queues {queue}`."
        if not (able := self._with_program(able, program)):
            return f"No running worker has the program {program}.", LOAD
        if version and version not in {one.code_version for one in able}:
            why = f"It is pinned to version {version}, which no running worker has."
            return why, "Start a worker with that version of the code, or unpin it: `perdure resume ID --unpin`."
        return None

    def has_program(self, program: str) -> bool:
        return bool(self._with_program(self.workers, program))

    def _with_program(self, some: Sequence[WorkerRecord], program: str) -> list[WorkerRecord]:
        return [one for one in some if program in (one.programs or ())]


START = "Start a worker (`perdure worker`), or run the session (`perdure resume ID`)."
FIT = "Start a worker with the module that defines it, in a version that fits. `perdure show ID` shows more."
LOAD = "Start a worker with the module that defines it: `perdure worker --app MODULE`."


def _silent(tx: StoreTransaction, now: int, silence: int) -> Iterator[StuckSession]:
    for one in stuck_rows.silent(tx, now=now, before=now - silence):
        doing = f"its tool {one.tool} has sent no heartbeat" if one.tool else "no tool of it has sent a heartbeat"
        yield StuckSession(
            uid=one.uid, id=one.id, status=Status.RUNNING, kind="silent", since=one.at, level="note",
            reason=f"Worker {one.holder} runs it, and there was no event since, and {doing}.",
            do=f"See what it does: `perdure show {one.id}`. `perdure interrupt {one.id}` stops the current act.",
        )  # fmt: skip


def _ready(
    tx: StoreTransaction, now: int, fleet: Fleet, closed: dict[str, stuck_rows.ClosedQueue]
) -> Iterator[StuckSession]:
    for one in stuck_rows.first_ready(tx):
        if one.at >= now - GRACE:
            continue
        if one.queue in closed:
            yield _closed(closed[one.queue], one.uid, one.id, Status.READY, one.at)
        elif why := fleet.missing(one.queue, one.program, one.version):
            yield _ready_session(one, *why)


def _ready_session(one: ReadySession, reason: str, do: str) -> StuckSession:
    do = do.replace("ID", one.id)
    return StuckSession(uid=one.uid, id=one.id, status=Status.READY, kind="ready", reason=reason, do=do, since=one.at)


def _closed(queue: stuck_rows.ClosedQueue, uid: str, id: str, status: Status, since: int) -> StuckSession:
    reason = f"Queue {queue.name} is paused." if queue.paused else f"Queue {queue.name} has a concurrency of 0."
    return StuckSession(
        uid=uid, id=id, status=status, kind="ready" if status is Status.READY else "slot", reason=reason,
        do=f"`perdure queues` shows its settings; `perdure queues set {queue.name} ...` changes them.", since=since,
        level="note",
    )  # fmt: skip


def _waiting(
    tx: StoreTransaction, now: int, fleet: Fleet, closed: dict[str, stuck_rows.ClosedQueue]
) -> Iterator[StuckSession]:
    for kind in (WaitKind.PROGRAM, WaitKind.WORKSPACE, WaitKind.POLICY, WaitKind.QUARANTINE):
        for one in stuck_rows.waits(tx, kind):
            if kind is WaitKind.PROGRAM and one.since >= now - GRACE and fleet.has_program(one.ref or one.program):
                continue  # it may be taken at any moment
            reason, do = _why_waiting(one, kind)
            yield StuckSession(
                uid=one.uid, id=one.id, status=Status.WAITING, kind=kind.value, reason=reason, do=do, since=one.since
            )
    for queue in closed.values():
        if found := stuck_rows.slot(tx, queue.name):
            yield _closed(queue, *found[:2], Status.WAITING, found[2])


def _why_waiting(one: WaitingSession, kind: WaitKind) -> tuple[str, str]:
    if kind is WaitKind.PROGRAM:
        return f"It waits for code that fits its records: {one.ref or one.program}.", FIT
    if kind is WaitKind.WORKSPACE:
        return "Its files are on a machine where no worker takes it.", "Start a worker on the machine with its files."
    if kind is WaitKind.POLICY and one.ref is not None:
        why = "The policy of the store is frozen, or no process here can read it."
        return why, "Thaw it, or set one that can be read."
    if kind is WaitKind.POLICY:
        return (
            "It was started under a policy, and no process with a policy takes it.",
            "Run it from code that opens the store with policy=....",
        )
    return (
        "Several workers in a row were lost while they ran it.",
        f"Find out why: `perdure show {one.id} --last 20`. `perdure resume {one.id}` tries again.",
    )


def _overdue(tx: StoreTransaction, now: int, fleet: Fleet) -> Iterator[StuckSession]:
    nothing = "no worker and no service is running" if not fleet.has_services else "no service has handled it"
    do = "Start `perdure worker` or `perdure serve`."
    for uid, id, due_at in stuck_rows.overdue(tx, before=now - GRACE):
        yield StuckSession(
            uid=uid, id=id, status=Status.WAITING, kind="overdue", since=due_at,
            reason=f"The time that it waits for has passed, and {nothing}.", do=do,
        )  # fmt: skip
    for uid, id, status, deadline_at in stuck_rows.past_deadline(tx, before=now - GRACE):
        yield StuckSession(
            uid=uid, id=id, status=Status(status), kind="deadline", since=deadline_at,
            reason=f"Its deadline has passed, and {nothing}.", do=do,
        )  # fmt: skip
