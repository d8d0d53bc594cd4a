"""The session as a program sees it: `s.step`, `s.do`, `s.ask`, `s.sleep`, `s.child` and the rest.

Every method takes its position in the program when it is called, and answers from the record if there is one. Otherwise
the work is done once and recorded. Code between these calls runs again in every run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar, overload
from uuid import UUID

from perdure.domain.approval import ApprovalDecision
from perdure.domain.effect import SETTLED, Effect
from perdure.domain.wait import Wait, WaitKind
from perdure.errors import ApprovalDenied, ApprovalExpired, ConfigError, ProgramChanged, SessionFailed, Suspended
from perdure.ids import encode
from perdure.runtime.awaitable import UnawaitedCalls
from perdure.runtime.calls.approval_tool import approval_tool
from perdure.runtime.calls.gather import gather
from perdure.runtime.calls.messages import Messages
from perdure.runtime.calls.recorded_values import RecordedValues
from perdure.runtime.calls.step_retries import RetryRule, retry_rule, with_retries
from perdure.runtime.definitions.durations import microseconds
from perdure.runtime.definitions.program import Bound, check_bound, get_program
from perdure.runtime.definitions.signature import Signature, argument_digest
from perdure.runtime.definitions.tool import Call, Tool
from perdure.runtime.deploy.code_fit import read_record
from perdure.runtime.description import recorded_summary
from perdure.runtime.ledger.errors import failure, has_result
from perdure.runtime.ledger.joint import Transaction
from perdure.runtime.ledger.ledger import Ledger
from perdure.runtime.run.lanes import Lanes, Scope
from perdure.runtime.run.lineage import expects_successor, inherited
from perdure.runtime.run.position import CallPosition, ExecutionLane
from perdure.runtime.run.run import Run
from perdure.runtime.session_records import DecisionHandle, SessionRecords, TaskHandle
from perdure.secrets.redaction import redact_value
from perdure.store.moves import wait

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")


class Session:
    """One running session, given to its program."""

    __module__ = "perdure"

    def __init__(self, run: Run, ledger: Ledger) -> None:
        self._run = run
        self._ledger = ledger
        self._calls = UnawaitedCalls()
        self._lanes = Lanes(run)
        self._records = SessionRecords(run, self._lanes, self._calls)
        self._values = RecordedValues(run, self._lanes, self._calls, self._records)
        self._messages = Messages(run, self._lanes, self._calls, self._records)
        self._signatures: dict[Any, Signature] = {}

    @property
    def id(self) -> str:
        return self._run.session.id

    @property
    def uid(self) -> str:
        return self._run.session.uid

    def scope(self, name: str) -> Scope:
        """A line of execution for a task that runs beside others: `async with s.scope("left"):`."""
        outer = self._lanes.enclosing()
        return Scope(self._run, outer, outer.enter(name))

    def now(self) -> Coroutine[Any, Any, datetime]:
        """The time in UTC at the first call; the same in every run."""
        return self._values.now()

    def uuid(self) -> Coroutine[Any, Any, UUID]:
        """A random UUID; the same in every run."""
        return self._values.uuid()

    def random(self) -> Coroutine[Any, Any, float]:
        """A random number from 0 up to, not including, 1; the same in every run."""
        return self._values.random()

    def decide(self, text: str, *, because: str, then: str | None = None) -> Coroutine[Any, Any, DecisionHandle]:
        """Record what was chosen and why, before acting on it."""
        return self._records.decide(text, because=because, then=then)

    def task(
        self, title: str, *, id: str | None = None, parent: str | None = None, priority: int = 0
    ) -> Coroutine[Any, Any, TaskHandle]:
        """Add a task to the plan."""
        return self._records.task(title, id=id, parent=parent, priority=priority)

    def remember(
        self,
        key: str,
        value: Any,
        *,
        scope: str | None = None,
        expected: int | None = None,
        stale_after: str | float | None = None,
        verify: str | None = None,
    ) -> Coroutine[Any, Any, int]:
        """Keep a fact, once per call; returns its version."""
        return self._records.remember(
            key, value, scope=scope, expected=expected, stale_after=stale_after, verify=verify
        )

    def recall(self, key: str, *, scope: str | None = None) -> Coroutine[Any, Any, Any]:
        """The value of a fact as it was at the first call, in every run; None if there was none."""
        return self._records.recall(key, scope=scope)

    def save(self, content: bytes | str, *, kind: str = "application/octet-stream") -> Coroutine[Any, Any, str]:
        """Keep something large as an artifact; returns its digest."""
        return self._records.save(content, kind=kind)

    @overload
    def step(
        self, name: str, function: Callable[..., Awaitable[T]], /, *args: Any, retries: int,
        backoff: str | float = ..., **kwargs: Any,
    ) -> Coroutine[Any, Any, T]: ...  # fmt: skip

    @overload
    def step(
        self, name: str, function: Callable[..., T], /, *args: Any, retries: int, backoff: str | float = ...,
        **kwargs: Any,
    ) -> Coroutine[Any, Any, T]: ...  # fmt: skip

    @overload
    def step(
        self, name: str, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]: ...

    @overload
    def step(
        self, name: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]: ...

    def step(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        """Compute something once and record it. An error is recorded too, and raised as `StepFailed` in every run.

        With `retries`, a function that raised runs again up to that many times, after durable pauses: `backoff`, one
        second by default, which doubles each time. They are the function's own arguments if it has such parameters.
        """
        if not name or name.startswith(":"):
            raise ConfigError(f"A step cannot be named {name!r}.", hint="Names that begin with a colon are reserved.")
        signature = self._signature(function)
        rule = None
        if "retries" in kwargs and "retries" not in signature.parameters:
            rule = retry_rule(name, kwargs.pop("retries"), kwargs.pop("backoff", "1s"))
        arguments, lane = signature.bind(args, kwargs), self._lanes.current()
        position = lane.next_position("step", name, argument_digest(arguments))
        compute = partial(self._records.compute, position, signature, signature.by_name(function), arguments)
        return self._calls.later(position, compute() if rule is None else self._retry(rule, position, lane, compute))

    async def _retry(
        self, rule: RetryRule, position: CallPosition, lane: ExecutionLane, compute: Callable[..., Awaitable[Any]]
    ) -> Any:
        if self._run.records.step_at(position) is not None:
            return await compute()

        async def pause(timer: CallPosition, span: int, why: str) -> None:
            await self._wait(timer, WaitKind.TIMER, lane, detail={"why": why}, span=span)

        waited = partial(self._run.records.wait_at, "w")
        return await with_retries(rule, position, waited, lambda is_last: compute(is_last=is_last), pause)

    def _signature(self, function: Callable[..., Any]) -> Signature:
        """A function's signature; those made in a loop share one unless their defaults, types or wrappings differ."""
        key: Any = function
        if hasattr(function, "__code__") and not hasattr(function, "__wrapped__"):
            defaults = (function.__defaults__, function.__kwdefaults__)
            if defaults == (None, None) and not function.__annotations__:
                key = function.__code__
        try:
            if key not in self._signatures:
                self._signatures[key] = Signature(function, nameless=True)
            return self._signatures[key]
        except TypeError:  # a callable that cannot be a key
            return Signature(function, nameless=True)

    @overload
    def do(
        self, tool: Tool[Concatenate[Call, P], Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]: ...

    @overload
    def do(
        self, tool: Tool[Concatenate[Call, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]: ...

    @overload
    def do(
        self, tool: Tool[Concatenate[Transaction, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]: ...

    @overload
    def do(self, tool: Tool[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]: ...

    @overload
    def do(self, tool: Tool[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]: ...

    def do(self, tool: Tool[..., Any], /, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        """One effect in the ledger: done once, whatever happens on the way."""
        if not isinstance(tool, Tool):
            raise ConfigError(f"{tool!r} is not a tool.", hint="Declare it with @perdure.tool.")
        arguments, lane = tool.signature.bind(args, kwargs), self._lanes.current()
        label = tool.name if tool.key is None else f"{tool.name}#{tool.key}"
        position = lane.next_position("do", label, argument_digest(arguments))
        self._run.records.ask(position)
        return self._calls.later(position, self._perform(tool, arguments, position, lane))

    async def _perform(
        self, tool: Tool[..., Any], arguments: dict[str, Any], position: CallPosition, lane: ExecutionLane
    ) -> Any:
        with self._run.active():
            self._run.honour_requests()
            try:
                recorded = self._run.records.effect_at(position, tool.replay)
            except ProgramChanged as error:
                self._run.give_up(error)  # whatever the program catches, this run is over
                raise
            effect: Effect | None = None
            if recorded is not None and self._run.records.is_foreign(recorded):
                effect = await inherited(self._run, recorded, lane)
            elif recorded is not None and recorded.state in SETTLED and not expects_successor(recorded, tool.retry):
                effect = recorded
            elif recorded is not None:
                effect = await self._ledger.recovery.drive(tool, recorded, lane)
            if effect is None:
                stored = position.stored(self._run.session.restart_number)
                generation = self._run.records.next_generation(position, tool.retry)
                effect = await self._ledger.begin(tool, arguments, stored, lane, generation=generation)
            if not has_result(effect):
                raise failure(effect)
            text = self._run.runtime.values.get(effect.result, effect.artifact)
            return read_record(self._run, lambda: tool.signature.decode_result(text), is_old=recorded is not None)

    def ask(
        self, question: str, *, choices: Sequence[str] | None = None, timeout: str | float | None = None
    ) -> Coroutine[Any, Any, Any]:
        """Wait for a person's answer, for as long as it takes; with `timeout`, raise `TimeoutError` after that time."""
        lane, asked = self._lanes.current(), {"question": question, "choices": list(choices) if choices else None}
        position = lane.next_position("ask", "ask", argument_digest(asked))
        span = None if timeout is None else microseconds(timeout)
        return self._calls.later(position, self._ask(position, lane, redact_value(asked), span))

    async def _ask(self, position: CallPosition, lane: ExecutionLane, asked: dict[str, Any], span: int | None) -> Any:
        answered = await self._wait(position, WaitKind.INPUT, lane, ref="ask", detail=asked, span=span)
        if answered.resolved_by == wait.TIMER and answered.answer is None:
            raise TimeoutError(f"The question {asked['question']!r} was not answered in time.")
        return answered.answer

    def approve(
        self, title: str, *, detail: Any = None, quorum: int = 1, timeout: str | float | None = None
    ) -> Coroutine[Any, Any, ApprovalDecision]:
        """Ask people for approval and wait for their decision, which is true only if it is `approved`.

        They vote as on an effect, with `rt.approve` or `perdure approve`; the session's owner may not decide. `detail`
        is shown with the title. With `timeout`, the decision is `expired` after that time.
        """
        tool, lane = approval_tool(title, quorum, timeout), self._lanes.current()
        arguments = tool.signature.bind((title, detail), {})
        position = lane.next_position("do", tool.name, argument_digest(arguments))
        self._run.records.ask(position)
        return self._calls.later(position, self._approve(tool, arguments, position, lane))

    async def _approve(
        self, tool: Tool[..., None], arguments: dict[str, Any], position: CallPosition, lane: ExecutionLane
    ) -> ApprovalDecision:
        try:
            await self._perform(tool, arguments, position, lane)
        except ApprovalDenied as error:
            if error.details["error"].get("code") != "approval-denied":  # the session that asked has ended
                raise
            return ApprovalDecision.DENIED
        except ApprovalExpired:
            return ApprovalDecision.EXPIRED
        return ApprovalDecision.APPROVED

    @overload
    def receive(self, type: None = None, *, timeout: str | float | None = None) -> Coroutine[Any, Any, Any]: ...

    @overload
    def receive(self, type: type[T], *, timeout: str | float | None = None) -> Coroutine[Any, Any, T]: ...

    @overload
    def receive(self, type: Any, *, timeout: str | float | None = None) -> Coroutine[Any, Any, Any]: ...

    def receive(self, type: Any = None, *, timeout: str | float | None = None) -> Coroutine[Any, Any, Any]:
        """The next message that was sent to this session with `rt.send` or `perdure send`; each is received once.

        With a type, the oldest message of that type, as that type; others stay unread. With `timeout`, raise
        `TimeoutError` after that time.
        """
        return self._messages.receive(type, timeout)

    def sleep(
        self, duration: str | float | None = None, *, seconds: float = 0, minutes: float = 0, hours: float = 0,
        days: float = 0,
    ) -> Coroutine[Any, Any, None]:  # fmt: skip
        """Sleep durably; it costs nothing meanwhile."""
        span = timedelta(seconds=seconds, minutes=minutes, hours=hours, days=days) // timedelta(microseconds=1)
        span += microseconds(duration) if duration is not None else 0
        lane = self._lanes.current()
        position = lane.next_position("sleep", "sleep", str(span))
        return self._calls.later(position, self._sleep(position, lane, span))

    async def _sleep(self, position: CallPosition, lane: ExecutionLane, span: int) -> None:
        await self._wait(position, WaitKind.TIMER, lane, span=span)

    async def _wait(
        self,
        position: CallPosition,
        kind: WaitKind,
        lane: ExecutionLane,
        *,
        ref: str | None = None,
        detail: Any = None,
        span: int | None = None,
    ) -> Wait:
        with self._run.active():
            self._run.honour_requests()
            recorded = self._run.records.wait_at("w", position)
            if recorded is None or recorded.resolved_at is None:
                id = self._run.records.wait_id("w", position)
                due = None if span is None else self._run.clock.now() + span
                if recorded is not None and recorded.session_uid == self.uid:
                    due = recorded.due_at  # it was closed with a session that failed, and is opened again
                await self._run.write(wait.open_(self._run.holder, id, kind, ref=ref, detail=detail, due_at=due))
                recorded = await self._run.wait_for(id, lane)
            return recorded

    @overload
    def gather(self) -> Coroutine[Any, Any, tuple[()]]: ...

    @overload
    def gather(self, one: Awaitable[A], /) -> Coroutine[Any, Any, tuple[A]]: ...

    @overload
    def gather(self, one: Awaitable[A], two: Awaitable[B], /) -> Coroutine[Any, Any, tuple[A, B]]: ...

    @overload
    def gather(
        self, one: Awaitable[A], two: Awaitable[B], three: Awaitable[C], /
    ) -> Coroutine[Any, Any, tuple[A, B, C]]: ...

    @overload
    def gather(
        self, one: Awaitable[A], two: Awaitable[B], three: Awaitable[C], four: Awaitable[D], /
    ) -> Coroutine[Any, Any, tuple[A, B, C, D]]: ...

    @overload  # five or more, so that mypy does not find two overloads for fewer
    def gather(
        self, one: Awaitable[T], two: Awaitable[T], three: Awaitable[T], four: Awaitable[T], five: Awaitable[T], /,
        *work: Awaitable[T],
    ) -> Coroutine[Any, Any, tuple[T, ...]]: ...  # fmt: skip

    def gather(self, *work: Awaitable[Any]) -> Coroutine[Any, Any, tuple[Any, ...]]:
        """Await calls of `s.*` and coroutines of the program side by side; the results in the order given.

        All are awaited to their ends; then the error of the lowest index is raised.
        """
        lane = self._lanes.current()
        position = CallPosition(lane.path, "gather", "gather", "", 0)
        return self._calls.later(position, gather(self._run, lane, work))

    def child(self, bound: Bound[T], *, id: str | None = None) -> Coroutine[Any, Any, T]:
        """Run another program as a session of its own, and wait for its result."""
        check_bound(bound)
        lane = self._lanes.current()
        position = lane.next_position("child", bound.program.name, argument_digest(bound.arguments))
        return self._calls.later(position, self._child(bound, id, position, lane))

    async def _child(self, bound: Bound[T], id: str | None, position: CallPosition, lane: ExecutionLane) -> T:
        with self._run.active():
            self._run.honour_requests()
            recorded = self._run.records.wait_at("c", position)
            if recorded is None or recorded.resolved_at is None:
                wait_id = self._run.records.wait_id("c", position)
                name = f"{self.id[:150]}.{wait_id}" if id is None else id
                inherited = recorded.ref if recorded is not None else None
                recorded = await self._run.runtime.driver.run_child(self._run, bound, name, wait_id, lane, inherited)
            answer = recorded.answer
            if answer["status"] != "done":
                said = f"Child {answer['id']} is {answer['status']}: {recorded_summary(answer['error'] or {})}"
                cause = self._run.runtime.causes.get(recorded.ref)
                raise SessionFailed(said, session=answer["id"], error=answer["error"], wait=recorded.id) from cause
            result: T = bound.program.signature.decode_result(
                encode(self._run.runtime.values.get_whole(answer["result"]))
            )
            return result

    def restart(self, **arguments: Any) -> Coroutine[Any, Any, NoReturn]:
        """Begin the program anew in the same session, with these arguments; what was recorded stays in the log."""
        position = CallPosition(self._lanes.current().path, "restart", "restart", "", 0)
        return self._calls.later(position, self._restart(arguments))

    async def _restart(self, arguments: dict[str, Any]) -> NoReturn:
        self._lanes.current()
        self._run.restart = get_program(self._run.session.program).signature.bind((), arguments)
        self._run.unwind()
        raise Suspended


async def run_program(run: Run, ledger: Ledger, function: Callable[..., Awaitable[T]], arguments: dict[str, Any]) -> T:
    """Call a program's function with its session. Calls that it made and did not await are an error."""
    session = Session(run, ledger)
    session._lanes.begin()
    with session._calls:
        result = await function(session, **arguments)
        if not run.unwinding and (unawaited := session._calls.forgotten()) is not None:
            raise run.give_up(unawaited)  # nothing final is recorded: the code is wrong, not the session
        return result
