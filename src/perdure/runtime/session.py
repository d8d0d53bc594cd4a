"""The session as a program sees it: `s.step`, `s.do`, `s.ask`, `s.sleep`, `s.child` and the rest.

Every method takes its place in the program when it is called and answers from the record if there is one. What is not
on record is done once and recorded. Code between these calls runs again in every run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, NoReturn, ParamSpec, Self, TypeVar, overload

from perdure.domain.artifact import Retention
from perdure.domain.effect import Effect, EffectState, Replay, Verdict
from perdure.domain.fact import Fact, private_scope
from perdure.domain.wait import WaitKind
from perdure.errors import (
    ApprovalDenied,
    ApprovalExpired,
    ConfigError,
    EffectCompensated,
    EffectInDoubt,
    NotDone,
    PerdureError,
    PolicyDenied,
    SessionFailed,
    StepFailed,
    Suspended,
    ToolError,
)
from perdure.ids import decode, digest, encode
from perdure.runtime.act import call, describe
from perdure.runtime.durations import microseconds
from perdure.runtime.place import Lane, Place
from perdure.runtime.program import Bound
from perdure.runtime.run import Run
from perdure.runtime.shape import Shape, argument_digest
from perdure.runtime.tool import Call, Tool, Transaction
from perdure.store import artifact, decision, fact, step, task, wait
from perdure.store import effect as effects
from perdure.store.move import Move
from perdure.store.move import Transaction as StoreTransaction

if TYPE_CHECKING:
    from perdure.runtime.effect import Ledger

P = ParamSpec("P")
T = TypeVar("T")


class Session:
    """One running session, given to its program."""

    def __init__(self, run: Run, ledger: Ledger) -> None:
        self._run = run
        self._ledger = ledger
        self._lanes: dict[asyncio.Task[Any] | None, Lane] = {}
        self._shapes: dict[Any, Shape] = {}

    @property
    def id(self) -> str:
        return self._run.session.id

    @property
    def uid(self) -> str:
        return self._run.session.uid

    def _begin(self) -> None:
        """The program's own task is its first lane."""
        owner = asyncio.current_task()
        lane = Lane("", owner)
        self._lanes[owner] = lane
        self._run.lanes.append(lane)

    def _lane(self) -> Lane:
        if self._run.unwinding:
            raise Suspended
        lane = self._lanes.get(asyncio.current_task())
        if lane is None:
            raise ConfigError(
                "A task that runs beside others used the session without a scope of its own.",
                hint='Wrap its work in `async with s.scope("name"):`.',
            )
        return lane

    def scope(self, name: str) -> Scope:
        """A line of its own for a task that runs beside others: `async with s.scope("left"):`."""
        lane = self._lanes.get(asyncio.current_task()) or self._run.lanes[0]
        return Scope(self, lane, name)

    @overload
    def step(
        self, name: str, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Awaitable[T]: ...

    @overload
    def step(self, name: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]: ...

    def step(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Awaitable[Any]:
        """Compute something once and record it. An error is recorded too, and raised as `StepFailed` in every run."""
        shape = self._shape(function)
        return self._step(name, shape, function, shape.bind(args, kwargs))

    def _shape(self, function: Callable[..., Any]) -> Shape:
        key = getattr(function, "__code__", function)
        if key not in self._shapes:
            self._shapes[key] = Shape(function)
        return self._shapes[key]

    def _step(self, name: str, shape: Shape, function: Callable[..., Any], arguments: dict[str, Any]) -> Awaitable[Any]:
        place = self._lane().place("step", name, argument_digest(arguments))
        return self._compute(place, shape, function, arguments)

    async def _compute(
        self, place: Place, shape: Shape, function: Callable[..., Any], arguments: dict[str, Any]
    ) -> Any:
        with self._run.active():
            recorded = self._run.records.step_at(place)
            if recorded is not None:
                if recorded.error is not None:
                    raise _step_failed(place.name, decode(recorded.error))
                return shape.decode_result(self._run.runtime.values.get(recorded.result, recorded.artifact))
            ended = await call(function, shape.is_async, None, **shape.unbind(arguments))
            if ended.error is not None and not isinstance(ended.error, Exception):
                raise ended.error
            if ended.error is not None:
                error = describe(ended.error)
                await self._record(place, error=error)
                raise _step_failed(place.name, decode(error)) from ended.error
            text = shape.encode_result(ended.value)
            result, kept = self._run.runtime.values.put(text)
            await self._record(place, result=result, artifact=kept)
            return shape.decode_result(text)

    async def _record(self, place: Place, **came: str | None) -> None:
        recorded = step.Recorded(
            restart_number=self._run.session.restart_number,
            scope=place.scope,
            name=place.name,
            argument_digest=place.argument_digest,
            occurrence=place.occurrence,
            **came,
        )
        await self._run.write(step.record(self._run.holder, recorded))

    @overload
    def do(
        self, tool: Tool[Concatenate[Call, P], Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Awaitable[T]: ...

    @overload
    def do(self, tool: Tool[Concatenate[Call, P], T], /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]: ...

    @overload
    def do(self, tool: Tool[Concatenate[Transaction, P], T], /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]: ...

    @overload
    def do(self, tool: Tool[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]: ...

    @overload
    def do(self, tool: Tool[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]: ...

    def do(self, tool: Tool[..., Any], /, *args: Any, **kwargs: Any) -> Awaitable[Any]:
        """One effect in the ledger: done once, whatever happens on the way."""
        if not isinstance(tool, Tool):
            raise ConfigError(f"{tool!r} is not a tool.", hint="Declare it with @perdure.tool.")
        arguments, lane = tool.shape.bind(args, kwargs), self._lane()
        label = tool.name if tool.key is None else f"{tool.name}#{tool.key}"
        return self._perform(tool, arguments, lane.place("do", label, argument_digest(arguments)), lane)

    async def _perform(self, tool: Tool[..., Any], arguments: dict[str, Any], place: Place, lane: Lane) -> Any:
        with self._run.active():
            self._run.honour_requests()
            recorded = self._run.records.effect_at(place)
            if recorded is None:
                effect = await self._ledger.begin(tool, arguments, place, lane)
            elif self._run.records.is_foreign(recorded):
                effect = await self._inherited(recorded, lane)
            else:
                effect = await self._ledger.drive(tool, recorded, lane)
            self._run.records.add(place, effect)
            return self._outcome(tool, effect)

    async def _inherited(self, effect: Effect, lane: Lane) -> Effect:
        """An effect of the line before the fork: settled there, or its planner's to settle."""
        now = await self._run.store.read(_effect_of, effect)
        if now.state in (EffectState.PLANNED, EffectState.DISPATCHED):
            id = f"effect-{effect.id}"
            await self._run.write(wait.open_(self._run.holder, id, WaitKind.EFFECT, ref=effect.id))
            now = await self._run.store.read(_effect_of, effect)
            if now.state in (EffectState.PLANNED, EffectState.DISPATCHED):
                await self._run.wait_for(id, lane)
                now = await self._run.store.read(_effect_of, effect)
        return now

    def _outcome(self, tool: Tool[..., Any], effect: Effect) -> Any:
        """What the program gets for a settled effect, in this run and in every later one."""
        if effect.state == EffectState.ACKNOWLEDGED:
            return tool.shape.decode_result(self._run.runtime.values.get(effect.result, effect.artifact))
        if effect.state == EffectState.COMPENSATED:
            raise EffectCompensated(f"{effect.tool} ({effect.id}) happened and was undone.", effect=effect.id)
        error = effect.error or {}
        message = f"{effect.tool} ({effect.id}): {error.get('message') or error.get('type') or effect.state}"
        raise _failure(effect, error)(message, effect=effect.id)

    def ask(self, question: str, *, choices: Sequence[str] | None = None) -> Awaitable[Any]:
        """Wait, for as long as it takes, for a person's answer."""
        asked = {"question": question, "choices": list(choices) if choices else None}
        lane = self._lane()
        place = lane.place("ask", "ask", argument_digest(asked))
        return self._wait(place, WaitKind.INPUT, lane, detail=asked)

    def sleep(
        self, duration: str | float | None = None, *, seconds: float = 0, minutes: float = 0, hours: float = 0,
        days: float = 0,
    ) -> Awaitable[None]:  # fmt: skip
        """Sleep durably; it costs nothing meanwhile."""
        span = timedelta(seconds=seconds, minutes=minutes, hours=hours, days=days) // timedelta(microseconds=1)
        span += microseconds(duration) if duration is not None else 0
        lane = self._lane()
        place = lane.place("sleep", "sleep", str(span))
        return self._wait(place, WaitKind.TIMER, lane, span=span)

    async def _wait(
        self, place: Place, kind: WaitKind, lane: Lane, *, detail: Any = None, span: int | None = None
    ) -> Any:
        with self._run.active():
            self._run.honour_requests()
            recorded = self._run.records.wait_at("w", place)
            if recorded is None or recorded.resolved_at is None:
                id = self._run.records.wait_id("w", place)
                due = None if span is None else self._run.clock.now() + span
                await self._run.write(wait.open_(self._run.holder, id, kind, detail=detail, due_at=due))
                recorded = await self._run.wait_for(id, lane)
            return recorded.answer

    def child(self, bound: Bound[T], *, id: str | None = None) -> Awaitable[T]:
        """Run another program as a session of its own, and wait for its result."""
        lane = self._lane()
        place = lane.place("child", bound.program.name, argument_digest(bound.arguments))
        return self._child(bound, id, place, lane)

    async def _child(self, bound: Bound[T], id: str | None, place: Place, lane: Lane) -> T:
        with self._run.active():
            self._run.honour_requests()
            recorded = self._run.records.wait_at("c", place)
            if recorded is None or recorded.resolved_at is None:
                wait_id = self._run.records.wait_id("c", place)
                recorded = await self._run.runtime.run_child(
                    self._run, bound, id or f"{self.id}.{wait_id}", wait_id, lane
                )
            answer = recorded.answer
            if answer["status"] != "done":
                raise SessionFailed(f"Child {answer['id']} is {answer['status']}.", session=answer["id"])
            result: T = bound.program.shape.decode_result(encode(answer["result"]))
            return result

    def decide(self, text: str, *, because: str, then: str | None = None) -> Awaitable[Decided]:
        """Write down what was chosen and why, before acting on it."""
        place = self._lane().place("step", ":decide", argument_digest({"t": text, "b": because, "n": then}))
        id = self._named("d", place)
        return self._then(
            Decided(self, id), place, lambda: decision.decide(self._run.holder, id, text, because=because, then=then)
        )

    def task(
        self, title: str, *, id: str | None = None, parent: str | None = None, priority: int = 0
    ) -> Awaitable[Plan]:
        """Add a task to the plan."""
        place = self._lane().place("step", ":task", argument_digest({"t": title, "i": id, "p": parent}))
        name = id or self._named("t", place)
        return self._then(
            Plan(self, name),
            place,
            lambda: task.add(self._run.holder, name, title, parent_id=parent, priority=priority),
        )

    def _change(self, kind: str, id: str, said: dict[str, Any], move: Callable[[], Move[Any]]) -> Awaitable[None]:
        """A change to a decision or a task: made once, whatever runs again."""
        place = self._lane().place("step", kind, argument_digest({"id": id} | said))
        return self._then(None, place, move)

    async def _then(self, value: T, place: Place, move: Callable[[], Move[Any]]) -> T:
        """Make a move once. It is recorded as a step after it, and safe to make again before that."""

        async def make() -> None:
            await self._run.write(move())

        await self._compute(place, Shape(make), make, {})
        return value

    def remember(
        self, key: str, value: Any, *, scope: str | None = None, expected: int | None = None,
        stale_after: str | float | None = None, verify: str | None = None,
    ) -> Awaitable[int]:  # fmt: skip
        """Keep a fact, once per call; returns its version."""
        where = scope or private_scope(self.uid)
        stale = None if stale_after is None else microseconds(stale_after)
        place = self._lane().place("step", ":remember", argument_digest({"k": key, "s": scope, "v": _plain(value)}))

        async def write() -> int:
            move = fact.remember(
                self.uid, self._run.holder.name, where, key, value, expected=expected, verify=verify, stale_after=stale
            )
            return (await self._run.write(move)).version

        return self._compute(place, Shape(write), write, {})

    def recall(self, key: str, *, scope: str | None = None) -> Awaitable[Any]:
        """A fact's value as it was when this line first asked; None when nobody knew."""
        where = scope or private_scope(self.uid)
        place = self._lane().place("step", ":recall", argument_digest({"k": key, "s": scope}))

        async def read() -> Any:
            found: Fact | None = await self._run.store.read(fact.get, where, key)
            return None if found is None else found.value

        return self._compute(place, Shape(read), read, {})

    def save(self, content: bytes | str, *, kind: str = "application/octet-stream") -> Awaitable[str]:
        """Keep something large as an artifact; returns its digest."""
        data = content.encode() if isinstance(content, str) else content
        place = self._lane().place("step", ":save", digest(data))

        async def keep() -> str:
            directory = self._run.runtime.values.directory
            if directory is None:
                raise ConfigError("This store has no folder for artifacts.")
            name, size = directory.put(data)
            claim = artifact.index(
                self.uid, self._run.holder.name, name,
                kind=kind, size=size, location=f"{name[:2]}/{name}", retention=Retention.SESSION,
            )  # fmt: skip
            await self._run.write(claim)
            return name

        return self._compute(place, Shape(keep), keep, {})

    async def restart(self, **arguments: Any) -> NoReturn:
        """Begin the program anew in the same session, with these arguments; what was recorded stays in the log."""
        self._lane()
        self._run.restart = arguments
        self._run.unwind()
        raise Suspended

    def _named(self, prefix: str, place: Place) -> str:
        return f"{prefix}-{digest(encode(place.position(self._run.session.restart_number)))[:12]}"


class Scope:
    """A line of execution of its own, for one task."""

    def __init__(self, session: Session, parent: Lane, name: str) -> None:
        self._session = session
        self._path = parent.enter(name)
        self._before: Lane | None = None
        self._lane: Lane | None = None

    async def __aenter__(self) -> Self:
        owner = asyncio.current_task()
        self._before = self._session._lanes.get(owner)
        self._lane = Lane(self._path, owner)
        self._session._lanes[owner] = self._lane
        self._session._run.lanes.append(self._lane)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        owner = asyncio.current_task()
        assert self._lane is not None
        self._session._run.lanes.remove(self._lane)
        if self._before is None:
            self._session._lanes.pop(owner, None)
        else:
            self._session._lanes[owner] = self._before


class Decided:
    """A decision that was made; `settle` writes down what came of it."""

    def __init__(self, session: Session, id: str) -> None:
        self._session = session
        self.id = id

    def settle(self, outcome: str) -> Awaitable[None]:
        holder = self._session._run.holder
        return self._session._change(
            ":settle", self.id, {"o": outcome}, lambda: decision.settle(holder, self.id, outcome)
        )


class Plan:
    """A task of the plan."""

    def __init__(self, session: Session, id: str) -> None:
        self._session = session
        self.id = id

    def become(self, state: str, *, note: str | None = None) -> Awaitable[None]:
        """Move the task on: active, blocked, done, dropped."""
        holder = self._session._run.holder
        changes = {"state": state} | ({"note": note} if note is not None else {})
        return self._session._change(":task-change", self.id, changes, lambda: task.change(holder, self.id, **changes))


def _step_failed(name: str, error: dict[str, Any]) -> StepFailed:
    return StepFailed(f"Step {name} failed: {error.get('type')}: {error.get('message')}", error=error)


def _failure(effect: Effect, error: dict[str, Any]) -> type[PerdureError]:
    if effect.state == EffectState.REFUSED:
        return {
            "approval-denied": ApprovalDenied,
            "approval-expired": ApprovalExpired,
            "policy-denied": PolicyDenied,
        }.get(error.get("code", ""), ApprovalDenied)
    if effect.verdict == Verdict.ABANDON:
        return EffectInDoubt
    return ToolError if effect.replay == Replay.PURE else NotDone


def _plain(value: Any) -> Any:
    return decode(encode(value))


def _effect_of(tx: StoreTransaction, effect: Effect) -> Effect:
    return effects.get(tx, effect.session_uid, effect.id)
