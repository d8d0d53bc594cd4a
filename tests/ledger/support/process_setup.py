"""What the processes of a sweep do beside the program: branches, commits that fail, leases taken by force."""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

import apsw

from perdure import Bound, Runtime
from perdure.clock import SECOND
from perdure.domain.effect import Replay
from perdure.domain.lease import Holder
from perdure.domain.session import SessionRecord
from perdure.domain.worker import Liveness, WorkerRecord
from perdure.errors import IllegalMove
from perdure.runtime.definitions.tool import TOOLS
from perdure.runtime.run import session_lease
from perdure.runtime.runtime import SessionView
from perdure.runtime.workers import identity, liveness
from perdure.runtime.workers.identity import WorkerIdentity
from perdure.store.databases.sqlite.engine import SQLiteEngine
from perdure.testing.sink import SinkClient
from perdure.testing.sweep.trial import Person, run_to_end
from tests.ledger.support import planted_bugs

PLANT, AMBIGUOUS, FORCED, NOTED = "LEDGER_PLANT", "LEDGER_AMBIGUOUS", "LEDGER_FORCED", "LEDGER_NOTED"
CHANGED, NAMESAKES = "LEDGER_CHANGED", "LEDGER_NAMESAKES"
LONG = SECOND // 4  # far longer than a late request takes to land, on a busy machine too


def prepare() -> None:
    """The setup of every process: what its environment asks for."""
    if name := os.environ.get(PLANT):
        planted_bugs.PLANTS[name]()
    if failing := os.environ.get(AMBIGUOUS):
        number, held = failing.split(":")
        _fail_commit(int(number), held == "held")
    if changed := os.environ.get(CHANGED):
        name, replay = changed.split("=")
        TOOLS[name].replay = Replay(replay)
    if os.environ.get(NAMESAKES):
        _share_names()
    if os.environ.get(FORCED):
        _take_over_by_force()
    if os.environ.get(NOTED):
        _note_leases()


def be_patient() -> None:
    """Requests in flight may land late: every tool declares so."""
    prepare()
    for tool in TOOLS.values():
        tool.inflight = LONG


def be_very_patient() -> None:
    """The same, and probes and undos are slow."""
    prepare()
    for tool in TOOLS.values():
        tool.inflight = SECOND


def _fail_commit(number: int, held: bool) -> None:
    """The n-th commit of this process fails with an unknown outcome; `held`: whether it was made."""
    real, lock, seen = SQLiteEngine.commit, threading.Lock(), [0]

    def commit(self: SQLiteEngine) -> None:
        with lock:
            seen[0] += 1
            failing = seen[0] == number
        if not failing:
            real(self)
            return
        if held:
            real(self)
        raise apsw.IOError("the outcome of the commit is unknown")

    SQLiteEngine.commit = commit  # type: ignore[method-assign]


def _share_names() -> None:
    """Every process is the first of a container called `box`, and all have the same start time."""
    first = SimpleNamespace(**vars(os) | {"getpid": lambda: 1})
    for module in (identity, liveness):
        module.os, module.host = first, lambda: "box"  # type: ignore[attr-defined]
    liveness.start_time = lambda pid: "25"


def _take_over_by_force() -> None:
    """A person insists: leases are taken from their holders. Attempts are still judged by their processes."""

    def life(self: WorkerIdentity, worker: WorkerRecord) -> Liveness:
        return Liveness.DEAD if worker.id != self.id else Liveness.ALIVE

    WorkerIdentity.life = life  # type: ignore[method-assign]


def _note_leases() -> None:
    """Note every lease that is taken in the log of the sink, in order with what others do outside."""
    real = session_lease.acquire

    async def acquire(runtime: Runtime, session: SessionRecord) -> Holder:
        holder = await real(runtime, session)
        await asyncio.to_thread(lambda: SinkClient.here().note(taken=session.uid))
        return holder

    session_lease.acquire = acquire


async def run_without_person(runtime: Runtime, bound: Bound[Any], name: str, person: Person) -> list[SessionView]:
    """Run as far as possible, without a person to ask."""
    session = await runtime.start(bound, id=name)
    return [await runtime.run(session.id)]


async def answer_open_waits(runtime: Runtime, bound: Bound[Any], name: str, person: Person) -> list[SessionView]:
    """Answer what a session waits for, as a person elsewhere does, without running it."""
    view, sink = await runtime.get(name), SinkClient.here()
    for wait in view.waits:
        with suppress(IllegalMove):  # it was settled in the meantime
            await person(runtime, wait, sink)
            await asyncio.to_thread(partial(sink.note, voted=wait.kind))
    return [view]


async def branch(runtime: Runtime, bound: Bound[Any], name: str, person: Person) -> list[SessionView]:
    """A session and three branches: in the middle of an effect, after one, and after all of them.

    The first branch is made before the session continues after a crash, so that it has an effect in doubt.
    """
    session = await runtime.start(bound, id=name)
    if early := await _number(runtime, name, "effect.dispatched", 2):
        early_branch = await runtime.fork(name, at=early, id=f"{name}.middle")
        await runtime.run(early_branch.id)
    views = [await run_to_end(runtime, session.id, person)]
    for label, kind, which in (("middle", "effect.dispatched", 2), ("one", "effect.acknowledged", 1)):
        number = await _number(runtime, name, kind, which)
        made = await runtime.fork(name, at=number, id=f"{name}.{label}")
        views.append(await run_to_end(runtime, made.id, person))
    over = [event.number async for event in runtime.events(name) if event.kind == "session.finished"]
    made = await runtime.fork(name, at=over[0], id=f"{name}.all")  # an outcome may have come late, after that
    return [*views, await run_to_end(runtime, made.id, person)]


async def _number(runtime: Runtime, name: str, kind: str, which: int) -> int | None:
    """The number of the first event of this kind for the which-th effect of a session."""
    effects: list[str] = []
    async for event in runtime.events(name):
        if event.effect_id is not None and event.effect_id not in effects:
            effects.append(event.effect_id)
        if event.kind == kind and event.effect_id == (effects[which - 1] if len(effects) >= which else ""):
            return event.number
    return None
