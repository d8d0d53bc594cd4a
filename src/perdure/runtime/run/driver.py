"""The driver: moves sessions in this process, until they finish or wait for a person."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from perdure.clock import SECOND
from perdure.domain.effect import Effect
from perdure.domain.lease import Holder
from perdure.domain.session import TERMINAL, SessionRecord, Status
from perdure.domain.wait import Wait, WaitKind
from perdure.errors import (
    Conflict,
    IllegalMove,
    LeaseError,
    PerdureError,
    ProgramChanged,
    SessionFailed,
    SessionWaiting,
)
from perdure.ids import digest, encode
from perdure.runtime.definitions.program import PROGRAMS, Bound, get_program
from perdure.runtime.deploy.code_version import meets
from perdure.runtime.deploy.workspace import is_elsewhere
from perdure.runtime.description import recorded_summary
from perdure.runtime.ledger import leases
from perdure.runtime.ledger.late_outcomes import write_late_outcomes
from perdure.runtime.policy.budgets import is_within
from perdure.runtime.policy.policy_wait import is_met
from perdure.runtime.queries import SessionView, waiting_sentence
from perdure.runtime.run.execute import execute, run_held
from perdure.runtime.run.interruption import Interrupted
from perdure.runtime.run.lineage import newest
from perdure.runtime.run.position import ExecutionLane
from perdure.runtime.run.run import Run
from perdure.runtime.run.session_lease import give_back_claimed
from perdure.runtime.run.shared_runs import SharedRuns
from perdure.runtime.start.deadline import watch_deadline
from perdure.store.move import StoreTransaction
from perdure.store.moves import approval, wait
from perdure.store.moves import effect as effects
from perdure.store.moves import session as sessions
from perdure.store.writer.wakeup import SLOW_POLL

if TYPE_CHECKING:
    from perdure.runtime.runtime import Runtime

logger = logging.getLogger(__name__)


class Driver:
    """Runs sessions of one store in this process."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._store = runtime.store
        self._shared_runs = SharedRuns()
        self._stopping: set[asyncio.Task[SessionView]] = set()

    async def run(self, name: str) -> SessionView:
        """Run a session here until it finishes or waits."""
        view = await self._runtime.get(name)
        if view.deadline_at is not None:
            await self._runtime.requests.expire_deadline(view.uid)
        await self._resolve_waits(view)
        view = await self._runtime.get(view.uid)
        is_kept_out = any(one.kind == WaitKind.SLOT for one in view.waits)  # a run that was asked for needs no slot
        if view.status in TERMINAL or (view.status == Status.WAITING and not is_kept_out):
            return view
        try:
            async with watch_deadline(self._runtime, view):
                await self._shared_runs.join(view.uid, lambda: execute(self._runtime, view))
        except IllegalMove:
            if (await self._runtime.get(view.uid)).status not in (*TERMINAL, Status.WAITING):
                raise  # otherwise another worker finished or parked it before the lease was requested
        return await self._runtime.get(view.uid)

    async def run_claimed(self, holder: Holder) -> None:
        """Run a session that a worker has claimed."""
        is_started = False

        async def start() -> None:
            nonlocal is_started
            is_started = True
            await run_held(self._runtime, holder, holder.program)

        try:
            while not is_started:  # otherwise it has joined an earlier run, which is ending
                try:
                    await self._shared_runs.join(holder.uid, start)
                except PerdureError:
                    if is_started:
                        raise
        finally:
            if not is_started:
                await asyncio.shield(give_back_claimed(self._runtime, holder))

    async def complete(self, name: str) -> SessionView:
        """Run a session to its end, timers and children included, or until only a person can continue it."""
        return await self.complete_while(name, lambda _: True)

    async def complete_while(self, name: str, waits_out: Callable[[Wait], bool]) -> SessionView:
        """The same, without waiting for everything that is due later.

        `waits_out` selects the questions and messages with a time limit that are waited for until they are due.
        """
        while True:
            seen = self._store.wakeups.version  # before the run: what changes meanwhile wakes the wait below
            view = await self.run(name)
            if view.status in TERMINAL:
                return view
            if view.status == Status.READY:  # its wait was resolved meanwhile
                continue
            watched = {view.uid}
            due = await self._next_due(view, watched, waits_out)
            if due is None:
                raise SessionWaiting(waiting_sentence(view), waits=list(view.waits))
            due = due if view.deadline_at is None else min(due, view.deadline_at)
            pause = max(0.0, (due - self._store.clock.now()) / SECOND)
            await self._store.wakeups.wait_topics(seen, watched, min(pause, SLOW_POLL))

    async def _next_due(self, view: SessionView, watched: set[str], waits_out: Callable[[Wait], bool]) -> int | None:
        """When the session can continue without a person; None if it cannot. The uids of children are added to
        `watched`."""
        dues: list[int] = []
        for one in view.waits:
            if one.kind == WaitKind.INPUT and not waits_out(one):
                continue
            if one.kind in (WaitKind.TIMER, WaitKind.INPUT) and one.due_at is not None:
                dues.append(one.due_at)
            elif one.kind == WaitKind.CHILD and one.ref is not None:
                watched.add(one.ref)
                child = await self.run(one.ref)
                is_over = child.status in TERMINAL
                due = self._store.clock.now() if is_over else await self._next_due(child, watched, waits_out)
                dues += [] if due is None else [due]
            elif one.kind == WaitKind.LEASE and (look := await self._store.read(leases.next_look, one)) is not None:
                dues.append(look)
        return min(dues, default=None)

    async def undo(self, effect_id: str, *, session: str | None = None, by: str, because: str) -> Effect:
        """Undo an acknowledged effect with its tool's undo; the program then receives `EffectCompensated`.

        `session` is needed if several sessions have an effect of this id. If another process holds the session, that
        process does it before it leaves the session.
        """
        asked = await self._runtime.ask_undo(effect_id, session=session, by=by, because=because)
        view = await self._runtime.get(asked.session_uid)
        if view.status in (Status.READY, Status.RUNNING):
            with suppress(LeaseError):
                await execute(self._runtime, view, only_settle=True)
        return await self._store.read(effects.get, asked.session_uid, asked.id)

    async def result(self, name: str) -> Any:
        """Wait for a session's end, wherever it runs, and return its result as the program's type."""
        while True:
            seen = self._store.wakeups.version
            view = await self._runtime.get(name)
            if view.status in TERMINAL:
                return self.result_of(view)
            await self._store.wakeups.wait(seen, view.uid)

    def result_of(self, view: SessionView) -> Any:
        """The result of a session that has ended, as the program's type; raises `SessionFailed`."""
        if view.status != Status.DONE:
            error = view.error or {}
            said = f"Session {view.id} is {view.status}: {recorded_summary(error)}"
            raise SessionFailed(said, session=view.id, error=error) from self._runtime.causes.get(view.uid)
        if view.program in PROGRAMS:
            return get_program(view.program).signature.decode_result(encode(view.result))
        return view.result

    async def _resolve_waits(self, view: SessionView) -> None:
        """Resolve waits that are met: timers, children, effects of the lineage, leases, loaded code, a policy."""
        await write_late_outcomes(self._runtime, view.uid, self._runtime.by)
        for one in view.waits:
            if one.due_at is not None and one.due_at <= self._store.clock.now():
                await self.fire(one)
            elif one.kind == WaitKind.CHILD and one.ref is not None:
                await self._run_if_free(one.ref)
                await self._runtime.requests.wake_parent(one.ref)
            elif one.kind == WaitKind.EFFECT and one.ref is not None:
                found, is_open = await self._store.read(_newest, one.ref)
                if not is_open:
                    await self._runtime.requests.resolve(one, found.state, self._runtime.by)
            elif (one.kind == WaitKind.LEASE and await self._store.read(leases.is_free, one)) or (
                (one.kind == WaitKind.PROGRAM and meets(one, self._runtime.worker.code_version))
                or (one.kind == WaitKind.POLICY and await is_met(self._runtime, one))
                or (one.kind == WaitKind.BUDGET and await self._store.read(is_within, one))
                or (one.kind == WaitKind.WORKSPACE and not is_elsewhere(self._runtime, view, is_agent=True))
            ):
                await self._runtime.requests.resolve(one, None, self._runtime.by)

    async def fire(self, due: Wait | wait.Due) -> None:
        """Fire a wait that is due. Firing it again changes nothing."""
        if due.kind == WaitKind.APPROVAL:
            await self._store.write(approval.expire(due.session_uid, wait.TIMER, due.id))
        else:
            await self._store.write(wait.fire(due.session_uid, wait.TIMER, due.id))

    async def _run_if_free(self, uid: str) -> None:
        """Run a child, unless another process runs it. One that is handed back waits for other code, as its parent."""
        try:
            await self.run(uid)
        except LeaseError:
            pass
        except ProgramChanged:
            if (await self._runtime.get(uid)).status != Status.WAITING:
                raise

    async def run_child(
        self, run: Run, bound: Bound[Any], name: str, wait_id: str, lane: ExecutionLane | None, inherited: str | None
    ) -> Wait:
        """Start a child once, run it here if no other process does, and wait for it. A branch inherits the child of its
        lineage."""
        uid = inherited or (await self._begin_child(run, bound, name, wait_id)).uid
        await run.write(wait.open_(run.holder, wait_id, WaitKind.CHILD, ref=uid))
        with run.interruption.watch(lambda by: self._stop_child(run, uid, by)):
            try:
                if not run.holder.is_limited:  # otherwise it is claimed when its queue allows it
                    await self._run_if_free(uid)
            except PerdureError as error:  # the child cannot continue here, and its end is not known
                raise run.give_up(error) from error
            await self._runtime.requests.wake_parent(uid)
            try:
                return await run.wait_for(wait_id, lane)
            except Interrupted as stop:  # the child is told before the turn ends: afterwards no run of ours would do it
                with suppress(IllegalMove):  # it has ended meanwhile
                    await self._runtime.requests.cancel(uid, by=stop.by, now=True)
                raise

    def _stop_child(self, run: Run, uid: str, by: str) -> None:
        """Its parent is interrupted: a sub-agent of an agent is cancelled, a child of a program is interrupted too."""
        requests = self._runtime.requests
        stopping = asyncio.ensure_future(
            requests.cancel(uid, by=by, now=True) if run.interruption.ends_turn else requests.interrupt(uid, by=by)
        )
        self._stopping.add(stopping)
        stopping.add_done_callback(self._stopped)

    def _stopped(self, stopping: asyncio.Task[SessionView]) -> None:
        self._stopping.discard(stopping)
        if not stopping.cancelled() and (error := stopping.exception()) is not None:  # it has ended meanwhile
            logger.info("A child session could not be stopped (%s).", error)

    async def _begin_child(self, run: Run, bound: Bound[Any], name: str, wait_id: str) -> SessionRecord:
        arguments, claims = self._runtime.values.place(bound.arguments)
        new = sessions.NewSession(
            uid=digest(encode([run.session.uid, wait_id]))[:32],
            id=name,
            program=bound.program.name,
            arguments=arguments,
            claims=claims,
            owner=run.session.owner,
            repository=run.session.repository,
            repository_id=run.session.repository_id,
            workspace=run.session.workspace,
            queue=run.session.queue,
            priority=run.session.priority,
            deadline_at=run.session.deadline_at,
            under_policy=self._runtime.policy.is_given or run.session.policy_at is not None,
            parent_uid=run.session.uid,
            parent_wait=wait_id,
            receives=bound.program.may_receive and not bound.program.reads_messages,
        )
        child = await run.write(sessions.create(new, by=run.holder.name))
        if (child.parent_uid, child.parent_wait) != (new.parent_uid, new.parent_wait):
            raise Conflict(f"Session {name} exists already, and is not this child.", hint="Give the child another id.")
        return child


def _newest(tx: StoreTransaction, effect_id: str) -> tuple[Effect, bool]:
    return newest(tx, effects.find(tx, effect_id))
