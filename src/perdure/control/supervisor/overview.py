"""The processes of a store for people: supervisors with their trees, workers alone, queues, and stuck sessions.

A supervisor records its tree when it changes. After it died, the record is what it last saw, so the state of each
process is judged here, by the lock that the process holds while it lives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from perdure.control.doctor.stuck_sessions import StuckSession, stuck
from perdure.domain.queue import QueueView
from perdure.domain.worker import Liveness, WorkerRecord
from perdure.store.move import StoreTransaction
from perdure.store.moves import queue
from perdure.store.moves import worker as workers

DEAD = "dead"
LONGEST = 10_000  # processes that are read


class ProcessView(msgspec.Struct, frozen=True, kw_only=True):
    """One process, or one group of a tree. What does not apply is None."""

    id: str  # in its tree; for a process outside a tree, its worker id
    state: str
    worker: str | None = None
    role: str | None = None
    host: str | None = None
    pid: int | None = None
    sessions: int = 0
    concurrency: int | None = None
    queues: list[str] | None = None
    code_version: str | None = None
    restarts: int = 0
    last_exit: str | None = None
    started_at: int | None = None
    seen_at: int | None = None
    draining_at: int | None = None
    strategy: str | None = None
    children: list[ProcessView] = []


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """A store at one moment."""

    at: int
    processes: list[ProcessView]
    queues: list[QueueView] = []
    stuck: list[StuckSession] = []


def process_overview(tx: StoreTransaction, life: Callable[[WorkerRecord], Liveness]) -> Overview:
    """The processes: supervisors first, each with its tree, then those without a supervisor."""
    rows = {one.id: one for one in workers.listing(tx, limit=LONGEST)}
    reader = ProcessReader(rows, {id: life(one) for id, one in rows.items()}, workers.running_sessions(tx))
    return Overview(at=tx.now, processes=list(reader.processes()))


def store_overview(tx: StoreTransaction, life: Callable[[WorkerRecord], Liveness]) -> Overview:
    """The same, with queues and stuck sessions."""
    found = process_overview(tx, life)
    stopped = stuck(tx, tx.now, is_alive=lambda one: life(one) is not Liveness.DEAD)
    return msgspec.structs.replace(found, queues=queue.listing(tx), stuck=stopped)


class ProcessReader:
    """Joins the trees of supervisors with the rows of their processes."""

    def __init__(self, rows: dict[str, WorkerRecord], lives: dict[str, Liveness], sessions: dict[str, int]) -> None:
        self._rows = rows
        self._lives = lives
        self._sessions = sessions
        self._shown: set[str] = set()

    def processes(self) -> Iterator[ProcessView]:
        for one in self._ordered(one for one in self._rows.values() if one.role == "supervisor"):
            yield self._supervisor(one)
        for one in self._ordered(one for one in self._rows.values() if one.id not in self._shown):
            yield self._process(one, one.id, self._state(one))

    def _ordered(self, rows: Iterable[WorkerRecord]) -> list[WorkerRecord]:
        """The living first, then the newest."""
        return sorted(rows, key=lambda one: (self._lives[one.id] is Liveness.DEAD, -one.started_at, one.id))

    def _supervisor(self, one: WorkerRecord) -> ProcessView:
        tree = one.tree if isinstance(one.tree, dict) else {}
        self._shown.add(one.id)
        is_dead = self._lives[one.id] is Liveness.DEAD
        children = [self._child(child, is_dead) for child in _children(tree)]
        known = {id for id, row in self._rows.items() if row.parent == one.id} - self._shown
        children += [self._process(self._rows[id], id, self._state(self._rows[id])) for id in sorted(known)]
        state = DEAD if is_dead else str(tree.get("state") or self._state(one))
        return msgspec.structs.replace(self._process(one, one.id, state), children=children)

    def _child(self, child: dict[str, Any], is_orphan: bool) -> ProcessView:
        """A child as its supervisor recorded it, with the state that it has now.

        A child that has no row never ran or has left; if its supervisor is dead, so is the child.
        """
        id, state = str(child.get("id")), str(child.get("state"))
        if _children(child) or child.get("strategy"):
            children = [self._child(one, is_orphan) for one in _children(child)]
            states = {one.state for one in children}
            state = states.pop() if len(states) == 1 else "mixed"
            return ProcessView(id=id, state=state, strategy=child.get("strategy"), children=children)
        row = self._rows.get(str(child.get("worker") or "").split("@", 1)[0])
        if row is None:
            return ProcessView(id=id, state=DEAD if is_orphan else state, pid=child.get("pid"), **_history(child))
        if self._lives[row.id] is Liveness.DEAD:
            state = DEAD
        elif row.draining_at is not None:
            state = "draining"
        return msgspec.structs.replace(self._process(row, id, state), **_history(child))

    def _process(self, one: WorkerRecord, id: str, state: str) -> ProcessView:
        self._shown.add(one.id)
        return ProcessView(
            id=id, state=state, worker=one.id, role=one.role, host=one.host, pid=one.pid,
            sessions=self._sessions.get(one.id, 0), concurrency=one.concurrency, queues=one.queues,
            code_version=one.code_version, started_at=one.started_at, seen_at=one.seen_at, draining_at=one.draining_at,
        )  # fmt: skip

    def _state(self, one: WorkerRecord) -> str:
        life = self._lives[one.id]
        if life is Liveness.ALIVE:
            return "running" if one.draining_at is None else "draining"
        return DEAD if life is Liveness.DEAD else "cannot tell"


def _children(child: dict[str, Any]) -> list[dict[str, Any]]:
    found = child.get("children")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _history(child: dict[str, Any]) -> dict[str, Any]:
    restarts = child.get("restarts")
    return {"restarts": restarts if isinstance(restarts, int) else 0, "last_exit": child.get("last_exit")}
