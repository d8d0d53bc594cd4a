"""The runtime: what a user holds. Starting, running, answering, settling, forking, and looking."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from perdure.artifacts.directory import Directory
from perdure.clock import SECOND, Clock
from perdure.domain.approval import Approval, Decided
from perdure.domain.decision import Decision
from perdure.domain.effect import Effect, EffectState, Verdict
from perdure.domain.event import Event
from perdure.domain.fact import Fact
from perdure.domain.inbox import InboxMessage, Mode
from perdure.domain.session import TERMINAL, SessionRecord, Status
from perdure.domain.state import SessionState
from perdure.domain.task import Task
from perdure.domain.wait import Wait, WaitKind
from perdure.errors import ConfigError, LeaseHeld, NotFound, SessionFailed, SessionWaiting
from perdure.ids import encode, new_name
from perdure.runtime import recovery
from perdure.runtime.durations import microseconds
from perdure.runtime.execute import execute
from perdure.runtime.heart import Heart
from perdure.runtime.place import Lane
from perdure.runtime.policy import Intent, Policy
from perdure.runtime.program import PROGRAMS, Bound, get_program
from perdure.runtime.run import Run, needs_person
from perdure.runtime.tool import TOOLS
from perdure.runtime.values import Values
from perdure.runtime.worker import Me
from perdure.store import approval, decision, event, fact, inbox, task, wait
from perdure.store import effect as effects
from perdure.store import session as sessions
from perdure.store.store import Store, open_store

T = TypeVar("T")
LEASE = "15s"


class SessionView(SessionRecord, frozen=True):
    """A session with what it waits for."""

    waits: tuple[Wait, ...] = ()


class Runtime:
    """An open store with the code that is loaded here. Use it as `async with perdure.open(...) as rt`."""

    def __init__(
        self,
        store: Store,
        *,
        policy: Callable[[Intent], str] | None = None,
        by: str = "owner",
        lease: str | float = LEASE,
    ) -> None:
        self.store = store
        self.by = by
        self.policy = Policy(policy, store.clock)
        self.heart = Heart(store, microseconds(lease))
        self.values = Values(Directory(store.folder / "artifacts") if store.folder is not None else None)
        self._me: Me | None = None

    @property
    def worker(self) -> Me:
        """This process as a worker; registered when it first runs something."""
        if self._me is None:
            self._me = Me(self.store, sorted(PROGRAMS))
        return self._me

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        self.heart.close()
        if self._me is not None:
            self._me.close()
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
        new = sessions.NewSession(
            id=id or new_name("s"),
            program=bound.program.name,
            arguments=bound.arguments,
            owner=owner,
            repository=None if repository is None else _absolute(repository),
            title=title,
            priority=priority,
        )
        made = await self.store.write(sessions.create(new, by=owner or self.by))
        return await self.get(made.id)

    async def get(self, name: str) -> SessionView:
        """A session by its id or a beginning of it, with what it waits for."""
        record = await self.store.read(sessions.find, name)
        waits = await self.store.read(wait.open_of_session, record.uid)
        return SessionView(**record.to_dict(), waits=tuple(waits))

    async def run(self, name: str) -> SessionView:
        """Move a session here until it is finished or waits."""
        view = await self.get(name)
        await self._poke(view)
        view = await self.get(view.uid)
        while view.status not in TERMINAL:
            if view.status == Status.WAITING:
                if not self._can_go_on(view):
                    return view
                await self.store.write(sessions.wake_up(view.uid, self.by))
            await execute(self, view)
            view = await self.get(view.uid)
            if view.status == Status.WAITING:
                break
        return view

    def _can_go_on(self, view: SessionView) -> bool:
        """Whether code that a waiting session waited for is loaded now."""
        names = [one.ref for one in view.waits if one.kind == WaitKind.PROGRAM]
        return bool(names) and all(name in PROGRAMS or name in TOOLS for name in names)

    async def complete(self, name: str) -> SessionView:
        """Run a session to its end, timers and children included, or to where only a person can go on."""
        while True:
            view = await self.run(name)
            if view.status in TERMINAL:
                return view
            due = await self._next_due(view)
            if due is None:
                raise SessionWaiting(_waiting_sentence(view), waits=list(view.waits))
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
        return min(dues, default=None)

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
            said = error.get("message") or error.get("type") or ""
            raise SessionFailed(f"Session {view.id} is {view.status}: {said}", session=view.id, error=error)
        if view.program in PROGRAMS:
            return get_program(view.program).shape.decode_result(encode(view.result))
        return view.result

    async def _poke(self, view: SessionView) -> None:
        """Give a session what it waits for and what has come meanwhile: timers, children, effects of its parent."""
        for one in view.waits:
            if one.due_at is not None and one.due_at <= self.store.clock.now():
                await self.fire(one)
            elif one.kind == WaitKind.CHILD and one.ref is not None:
                await self.tell_parent(one.ref)
            elif one.kind == WaitKind.EFFECT and one.ref is not None:
                found = await self.store.read(effects.find, one.ref)
                if found.state not in (EffectState.PLANNED, EffectState.DISPATCHED):
                    await self.store.write(wait.resolve(view.uid, self.by, one.id, found.state))

    async def fire(self, due: Wait) -> None:
        """A wait whose time has come. Firing it twice is firing it once."""
        if due.kind == WaitKind.APPROVAL:
            await self.store.write(approval.expire(due.session_uid, "timer", due.id))
        else:
            await self.store.write(wait.fire(due.session_uid, "timer", due.id))

    async def run_child(self, run: Run, bound: Bound[Any], name: str, wait_id: str, lane: Lane) -> Wait:
        """Begin a child once, run it here if nobody else does, and wait for it."""
        new = sessions.NewSession(
            id=name,
            program=bound.program.name,
            arguments=bound.arguments,
            owner=run.session.owner,
            repository=run.session.repository,
            parent_uid=run.session.uid,
            parent_wait=wait_id,
        )
        child = await run.write(sessions.create(new, by=run.holder.name))
        await run.write(wait.open_(run.holder, wait_id, WaitKind.CHILD, ref=child.uid))
        try:
            await self.run(child.uid)
        except LeaseHeld:
            pass  # another worker runs it; its end resolves the wait
        await self.tell_parent(child.uid)
        return await run.wait_for(wait_id, lane)

    async def tell_parent(self, uid: str) -> None:
        """Resolve the wait of a finished child's parent. Done again after a crash, it changes nothing."""
        child = await self.store.read(sessions.get, uid)
        if child.parent_uid is None or child.parent_wait is None or child.status not in TERMINAL:
            return
        try:
            asked = await self.store.read(wait.get, child.parent_uid, child.parent_wait)
        except NotFound:
            return
        if asked.resolved_at is None:
            answer = {"id": child.id, "status": child.status, "result": child.result, "error": child.error}
            await self.store.write(wait.resolve(child.parent_uid, f"child:{child.id}", child.parent_wait, answer))

    async def send(
        self, name: str, text: Any, *, message_id: str | None = None, mode: str = "queue", by: str | None = None
    ) -> InboxMessage:
        """Send a session a message, from any process. The same id again is the same message."""
        session = await self.store.read(sessions.find, name)
        move = inbox.receive(session.uid, by or self.by, message_id or new_name("m"), text, Mode(mode))
        return await self.store.write(move)

    async def answer(self, wait_id: str, answer: Any, *, by: str | None = None) -> Wait:
        """Answer what a session asked."""
        asked = await self.store.read(wait.find, wait_id)
        choices = (asked.detail or {}).get("choices") if isinstance(asked.detail, dict) else None
        if asked.kind != WaitKind.INPUT:
            raise ConfigError(f"{wait_id} waits for {asked.kind}, not for an answer.")
        if choices and answer not in choices:
            raise ConfigError(f"{answer!r} is not one of {', '.join(choices)}.")
        return await self.store.write(wait.resolve(asked.session_uid, by or self.by, asked.id, answer))

    async def approve(self, approval_id: str, *, by: str, because: str) -> Approval:
        """Say yes to exactly what the approval is bound to."""
        return await self._vote(approval_id, Decided.APPROVED, by, because)

    async def deny(self, approval_id: str, *, by: str, because: str) -> Approval:
        """Say no."""
        return await self._vote(approval_id, Decided.DENIED, by, because)

    async def _vote(self, approval_id: str, decision: Decided, by: str, because: str) -> Approval:
        asked = await self.store.read(approval.find, approval_id)
        return await self.store.write(approval.vote(asked.session_uid, by, asked.id, decision, because=because))

    async def settle(
        self, effect_id: str, verdict: str, *, by: str, because: str, reference: str | None = None, result: Any = None
    ) -> Effect:
        """Say what came of an effect in doubt: happened, absent or abandon."""
        found = await self.store.read(effects.find, effect_id)
        given = None if result is None else encode(result)
        if verdict == Verdict.HAPPENED and found.tool in TOOLS:
            shape = TOOLS[found.tool].shape
            if given is None and not shape.allows_none():
                raise ConfigError(f"{found.tool} returns a value; say which.", hint="Give it with --result.")
            shape.decode_result(given or "null")
        move = effects.pronounce(
            found.session_uid, by, found.id, Verdict(verdict), because=because, reference=reference, result=given
        )
        settled = await self.store.write(move)
        for waiting in await self.store.read(wait.for_ref, settled.id):
            if waiting.kind == WaitKind.EFFECT and settled.state != EffectState.PLANNED:
                await self.store.write(wait.resolve(waiting.session_uid, by, waiting.id, settled.state))
        return settled

    async def cancel(self, name: str, *, by: str | None = None) -> SessionView:
        """Ask a session to stop; its children are asked too."""
        view = await self.get(name)
        await self.store.write(sessions.request_cancel(view.uid, by or self.by))
        for one in view.waits:
            if one.kind == WaitKind.CHILD and one.ref is not None:
                await self.cancel(one.ref, by=by)
        return await self.get(view.uid)

    async def pause(self, name: str, *, by: str | None = None) -> SessionView:
        """Ask a session to pause between acts."""
        view = await self.get(name)
        await self.store.write(sessions.request_pause(view.uid, by or self.by))
        return await self.get(view.uid)

    async def resume(self, name: str, *, by: str | None = None) -> SessionView:
        """Let a paused session go on."""
        view = await self.get(name)
        for one in view.waits:
            if one.kind == WaitKind.PAUSED:
                await self.store.write(wait.resolve(view.uid, by or self.by, one.id))
        if view.pause_requested_at is not None:
            await self.store.write(sessions.resume(view.uid, by or self.by))
        return await self.get(view.uid)

    async def fork(self, name: str, *, at: int | None = None, id: str | None = None) -> SessionView:
        """Branch a session at one of its events. It inherits what was settled there, and repeats none of it."""
        parent = await self.store.read(sessions.find, name)
        number = parent.cursor if at is None else at
        then = (await self.store.read(event.state_at, parent.uid, number)).session
        new = sessions.NewSession(
            id=id or new_name(f"{parent.id[:180]}.b"),
            program=parent.program,
            arguments=parent.arguments,
            title=parent.title,
            repository=parent.repository,
            owner=parent.owner,
            forked_from=parent.uid,
            forked_at=number,
            branch=f"{parent.branch}@{number}",
            restart_number=then["restart_number"],
            restart_arguments=then["restart_arguments"],
        )
        made = await self.store.write(sessions.create(new, by=self.by))
        return await self.get(made.id)

    async def recovery_plan(self, name: str) -> list[recovery.Recovery]:
        """What a run would do with each unsettled effect, and why; nothing is done."""
        session = await self.store.read(sessions.find, name)
        return await self.store.read(recovery.plan, session.uid, self.worker.life_of)

    async def state_at(self, name: str, number: int | None = None) -> SessionState:
        """Time travel: the state of a session after event `number`."""
        session = await self.store.read(sessions.find, name)
        return await self.store.read(event.state_at, session.uid, number)

    async def sessions(
        self, *, status: str | None = None, waiting_for: str | None = None, owner: str | None = None,
        repository: str | None = None,
    ) -> AsyncIterator[SessionRecord]:  # fmt: skip
        """Sessions, the most recently moved first."""
        before: SessionRecord | None = None
        while page := await self.store.read(
            sessions.page, status=status, waiting_for=waiting_for, owner=owner, repository=repository, before=before
        ):
            for before in page:
                yield before

    async def events(self, name: str, *, after: int = 0, follow: bool = False) -> AsyncIterator[Event]:
        """A session's events; with `follow`, each new one as it comes."""
        session = await self.store.read(sessions.find, name)
        if follow:
            async for line in self.store.follow(session.uid, after):
                yield line
            return
        while page := await self.store.read(event.after, session.uid, after):
            for line in page:
                yield line
            after = page[-1].number

    async def effects(
        self, *, session: str | None = None, state: str | None = None, tool: str | None = None,
        in_doubt: bool = False, since: int = 0,
    ) -> AsyncIterator[Effect]:  # fmt: skip
        """Effects, the newest first."""
        uid = await self._uid(session)
        for one in await self.store.read(
            effects.listing, uid=uid, state=state, tool=tool, in_doubt=in_doubt, since=since
        ):
            yield one

    async def approvals(self, *, session: str | None = None, decision: str | None = None) -> AsyncIterator[Approval]:
        """Approvals; those that wait come first."""
        for one in await self.store.read(approval.listing, uid=await self._uid(session), decision=decision):
            yield one

    async def tasks(self, *, session: str) -> AsyncIterator[Task]:
        """A session's plan."""
        uid = await self._uid(session)
        assert uid is not None
        for one in await self.store.read(task.of_session, uid):
            yield one

    async def decisions(self, *, session: str | None = None, incomplete: bool = False) -> AsyncIterator[Decision]:
        """Decisions, the newest first; or those whose outcome nobody wrote down."""
        uid = await self._uid(session)
        for one in await self.store.read(decision.incomplete if incomplete else decision.recent, uid):
            yield one

    async def facts(self, *, scope: str | None = None) -> AsyncIterator[Fact]:
        """What is known."""
        for one in await self.store.read(fact.known, scope):
            yield one

    async def _uid(self, name: str | None) -> str | None:
        return None if name is None else (await self.store.read(sessions.find, name)).uid


def _absolute(path: str | Path) -> str:
    return os.path.abspath(path)


def _waiting_sentence(view: SessionView) -> str:
    kinds = ", ".join(sorted({one.kind for one in view.waits if needs_person(one)} or {one.kind for one in view.waits}))
    return f"Session {view.id} waits for {kinds}."


def open(
    target: str | Path | None = None,
    *,
    policy: Callable[[Intent], str] | None = None,
    by: str = "owner",
    clock: Clock | None = None,
    connections: int = 8,
    lease: str | float = LEASE,
) -> Runtime:
    """Open a store and the runtime over it: `async with perdure.open() as rt`."""
    return Runtime(open_store(target, clock=clock, connections=connections), policy=policy, by=by, lease=lease)


def run(
    bound: Bound[T],
    *,
    id: str | None = None,
    store: str | Path | None = None,
    policy: Callable[[Intent], str] | None = None,
    by: str = "owner",
) -> T:
    """Start or continue a session here and return its result. Run it again after a crash: it goes on."""

    async def complete() -> T:
        async with open(store, policy=policy, by=by) as runtime:
            session = await runtime.start(bound, id=id)
            result: T = runtime.result_of(await runtime.complete(session.id))
            return result

    return asyncio.run(complete())
