"""The runtime: what a user holds. Starting sessions and moving them; looking and answering are what it inherits."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from perdure.clock import SECOND, Clock
from perdure.domain.effect import Effect
from perdure.domain.session import TERMINAL, SessionRecord, Status
from perdure.domain.wait import Wait, WaitKind
from perdure.errors import ConfigError, Conflict, IllegalMove, LeaseError, PerdureError, SessionFailed, SessionWaiting
from perdure.ids import digest, encode, new_name
from perdure.runtime.definitions.durations import microseconds
from perdure.runtime.definitions.program import PROGRAMS, Bound, check_bound, get_program
from perdure.runtime.definitions.tool import TOOLS
from perdure.runtime.description import Causes, recorded_summary
from perdure.runtime.ledger import leases
from perdure.runtime.ledger.attempt_registry import ACTING, BROKEN_OFF, LATE
from perdure.runtime.ledger.late_outcomes import LateOutcomeWriter, write_late_outcomes
from perdure.runtime.ledger.policy import Intent, Policy
from perdure.runtime.live_text import Delta, LiveText
from perdure.runtime.queries import SessionView, waiting_sentence
from perdure.runtime.requests import Outsider
from perdure.runtime.run.execute import execute
from perdure.runtime.run.large_values import Values
from perdure.runtime.run.lineage import newest
from perdure.runtime.run.position import ExecutionLane
from perdure.runtime.run.run import Run
from perdure.runtime.workers.heartbeat import Heartbeat
from perdure.store.move import StoreTransaction
from perdure.store.moves import approval, wait
from perdure.store.moves import effect as effects
from perdure.store.moves import session as sessions
from perdure.store.store import Store, open_store

__all__ = ["Runtime", "SessionView", "open", "run"]

T = TypeVar("T")
LEASE = "15s"
IN_A_LOOP = "Here use `async with perdure.open() as rt`, then `await rt.start(...)` and `await rt.complete(...)`."


class Runtime(Outsider):
    """An open store with the code that is loaded here. Use it as `async with perdure.open(...) as rt`."""

    __module__ = "perdure"

    def __init__(
        self,
        store: Store,
        *,
        policy: Callable[[Intent], str] | None = None,
        by: str = "owner",
        lease: str | float = LEASE,
        artifacts: str | Path | None = None,
    ) -> None:
        super().__init__(store, Policy(policy, store.clock), by)
        self.heartbeat = Heartbeat(store, microseconds(lease))
        self.values = Values(store, artifacts)
        self.late_outcomes = LateOutcomeWriter(self)
        self.on_delta: Callable[[Delta], None] | None = None  # is given each piece of what a model says here
        self.live_text = LiveText(store)
        self.causes = Causes()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.store.is_forked:  # otherwise the threads of this loop are the parent's too
            await asyncio.to_thread(self.close)

    def close(self) -> None:
        if self.store.is_forked:
            return
        self.late_outcomes.close()
        self.heartbeat.close()
        if self._me is not None:
            self._me.close(acting=bool(ACTING or LATE or BROKEN_OFF))
        self.store.close()

    async def start(
        self,
        bound: Bound[Any],
        *,
        id: str | None = None,
        owner: str | None = None,
        repository: str | Path | None = None,
        title: str | None = None,
        priority: int = 0,
    ) -> SessionView:
        """Begin a session. A known id with equal arguments is that session; with others it is a `Conflict`."""
        check_bound(bound)
        arguments, claims = self.values.place(bound.arguments)
        new = sessions.NewSession(
            id=id or new_name("s"),
            program=bound.program.name,
            arguments=arguments,
            claims=claims,
            owner=owner,
            repository=None if repository is None else _absolute(repository),
            title=title,
            priority=priority,
            under_policy=self.policy.is_given,
        )
        made = await self.store.write(sessions.create(new, by=owner or self.by))
        return await self.get(made.id)

    async def run(self, name: str) -> SessionView:
        """Move a session here until it is finished or waits."""
        view = await self.get(name)
        await self._poke(view)
        view = await self.get(view.uid)
        if view.status in TERMINAL or view.status == Status.WAITING:
            return view
        try:
            await execute(self, view)
        except IllegalMove:
            if (await self.get(view.uid)).status not in (*TERMINAL, Status.WAITING):
                raise  # otherwise another worker finished or parked it between our look and our request for the lease
        return await self.get(view.uid)

    async def complete(self, name: str) -> SessionView:
        """Run a session to its end, timers and children included, or to where only a person can go on."""
        while True:
            view = await self.run(name)
            if view.status in TERMINAL:
                return view
            if view.status == Status.READY:  # what it waited for came while we looked
                continue
            due = await self._next_due(view)
            if due is None:
                raise SessionWaiting(waiting_sentence(view), waits=list(view.waits))
            seen = self.store.wakeups.version
            pause = max(0.0, (due - self.store.clock.now()) / SECOND)
            await self.store.wakeups.wait(seen, view.uid, min(pause, 5.0))

    async def _next_due(self, view: SessionView) -> int | None:
        """When something other than a person will let the session go on."""
        dues: list[int] = []
        for one in view.waits:
            if one.kind == WaitKind.TIMER and one.due_at is not None:
                dues.append(one.due_at)
            elif one.kind == WaitKind.CHILD and one.ref is not None:
                child = await self.run(one.ref)
                due = self.store.clock.now() if child.status in TERMINAL else await self._next_due(child)
                dues += [] if due is None else [due]
            elif one.kind == WaitKind.LEASE and (look := await self.store.read(leases.next_look, one)) is not None:
                dues.append(look)
        return min(dues, default=None)

    async def undo(self, effect_id: str, *, by: str, because: str) -> Effect:
        """Take back an effect that was done, by its tool's undo; the program is told `EffectCompensated` afterwards.

        If somebody else holds the session, they do it before they leave it.
        """
        asked = await self.ask_undo(effect_id, by=by, because=because)
        view = await self.get(asked.session_uid)
        if view.status in (Status.READY, Status.RUNNING):
            with suppress(LeaseError):
                await execute(self, view, only_settle=True)
        return await self.store.read(effects.get, asked.session_uid, asked.id)

    async def result(self, name: str) -> Any:
        """Wait for a session's end, wherever it runs, and return its result as the program's type."""
        while True:
            seen = self.store.wakeups.version
            view = await self.get(name)
            if view.status in TERMINAL:
                return self.result_of(view)
            await self.store.wakeups.wait(seen, view.uid)

    def result_of(self, view: SessionView) -> Any:
        if view.status != Status.DONE:
            error = view.error or {}
            said = f"Session {view.id} is {view.status}: {recorded_summary(error)}"
            raise SessionFailed(said, session=view.id, error=error) from self.causes.get(view.uid)
        if view.program in PROGRAMS:
            return get_program(view.program).signature.decode_result(encode(view.result))
        return view.result

    async def _poke(self, view: SessionView) -> None:
        """Give a session what it waits for and what has come meanwhile: timers, children, its line's effects, code."""
        await write_late_outcomes(self, view.uid, self.by)
        for one in view.waits:
            if one.due_at is not None and one.due_at <= self.store.clock.now():
                await self.fire(one)
            elif one.kind == WaitKind.CHILD and one.ref is not None:
                with suppress(LeaseError):  # somebody else moves it
                    await self.run(one.ref)
                await self.tell_parent(one.ref)
            elif one.kind == WaitKind.EFFECT and one.ref is not None:
                found, is_open = await self.store.read(_newest, one.ref)
                if not is_open:
                    await self.give(one, found.state, self.by)
            elif (one.kind == WaitKind.LEASE and await self.store.read(leases.is_free, one)) or (
                (one.kind == WaitKind.PROGRAM and (one.ref in PROGRAMS or one.ref in TOOLS))
                or (one.kind == WaitKind.POLICY and self.policy.is_given)
            ):
                await self.give(one, None, self.by)

    async def fire(self, due: Wait | wait.Due) -> None:
        """A wait whose time has come. Firing it twice is firing it once."""
        if due.kind == WaitKind.APPROVAL:
            await self.store.write(approval.expire(due.session_uid, "timer", due.id))
        else:
            await self.store.write(wait.fire(due.session_uid, "timer", due.id))

    async def run_child(
        self, run: Run, bound: Bound[Any], name: str, wait_id: str, lane: ExecutionLane | None, inherited: str | None
    ) -> Wait:
        """Begin a child once, run it here if nobody else does, and wait for it. A branch inherits its line's child."""
        uid = inherited or (await self._begin_child(run, bound, name, wait_id)).uid
        await run.write(wait.open_(run.holder, wait_id, WaitKind.CHILD, ref=uid))
        try:
            await self.run(uid)
        except LeaseError:
            pass  # another worker runs it; its end resolves the wait
        except PerdureError as error:  # the child cannot go on here: nothing is known of its end
            raise run.give_up(error) from error
        await self.tell_parent(uid)
        return await run.wait_for(wait_id, lane)

    async def _begin_child(self, run: Run, bound: Bound[Any], name: str, wait_id: str) -> SessionRecord:
        arguments, claims = self.values.place(bound.arguments)
        new = sessions.NewSession(
            uid=digest(encode([run.session.uid, wait_id]))[:32],
            id=name,
            program=bound.program.name,
            arguments=arguments,
            claims=claims,
            owner=run.session.owner,
            repository=run.session.repository,
            queue=run.session.queue,
            priority=run.session.priority,
            under_policy=self.policy.is_given or run.session.policy_at is not None,
            parent_uid=run.session.uid,
            parent_wait=wait_id,
        )
        child = await run.write(sessions.create(new, by=run.holder.name))
        if (child.parent_uid, child.parent_wait) != (new.parent_uid, new.parent_wait):
            raise Conflict(f"Session {name} exists already, and is not this child.", hint="Give the child another id.")
        return child


def _newest(tx: StoreTransaction, effect_id: str) -> tuple[Effect, bool]:
    return newest(tx, effects.find(tx, effect_id))


def _absolute(path: str | Path) -> str:
    return os.path.abspath(path)


def open(
    target: str | Path | None = None,
    *,
    policy: Callable[[Intent], str] | None = None,
    by: str = "owner",
    clock: Clock | None = None,
    connections: int = 8,
    lease: str | float = LEASE,
    artifacts: str | Path | None = None,
) -> Runtime:
    """Open a store and the runtime over it: `async with perdure.open() as rt`.

    `artifacts` is the folder for large things where the store has none of its own: on PostgreSQL, one that all workers
    share.
    """
    store = open_store(target, clock=clock, connections=connections)
    return Runtime(store, policy=policy, by=by, lease=lease, artifacts=artifacts)


def run(
    bound: Bound[T],
    *,
    id: str | None = None,
    store: str | Path | None = None,
    policy: Callable[[Intent], str] | None = None,
    by: str = "owner",
) -> T:
    """Start or continue a session here and return its result. Run it again after a crash: it goes on."""
    with suppress(RuntimeError):  # none runs here, as it should be
        asyncio.get_running_loop()
        raise ConfigError("perdure.run needs a thread without an event loop.", hint=IN_A_LOOP)

    async def complete() -> T:
        async with open(store, policy=policy, by=by) as runtime:
            session = await runtime.start(bound, id=id)
            result: T = runtime.result_of(await runtime.complete(session.id))
            return result

    return asyncio.run(complete())
