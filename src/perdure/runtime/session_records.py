"""What a program records: steps, decisions, tasks of the plan, facts and artifacts.

`decide`, `task`, `remember`, `recall` and `save` are steps with reserved names: the change and the record of the step
are one transaction, so a program that runs again never makes the change twice.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from perdure.domain.fact import private_scope
from perdure.domain.literals import TaskStateWord
from perdure.domain.step import INHERITED, Step
from perdure.errors import ConfigError, PerdureError, StepFailed, StoreError, Suspended
from perdure.ids import decode, digest, encode
from perdure.runtime.awaitable import UnawaitedCalls
from perdure.runtime.calls.step_retries import AttemptFailed
from perdure.runtime.definitions.durations import microseconds
from perdure.runtime.definitions.signature import Signature, argument_digest
from perdure.runtime.deploy.code_fit import read_record
from perdure.runtime.description import describe
from perdure.runtime.function_call import INTERRUPTIONS, call
from perdure.runtime.ledger.errors import step_failed
from perdure.runtime.run.interruption import StoppableCoroutine
from perdure.runtime.run.lanes import Lanes
from perdure.runtime.run.position import CallPosition
from perdure.runtime.run.records import recall
from perdure.runtime.run.run import Run
from perdure.runtime.run.step import compute
from perdure.secrets.redaction import redact, redact_value
from perdure.store.moves import record_change, step
from perdure.store.moves.record_change import RecordChange

T = TypeVar("T")
Changes = tuple[RecordChange, ...]

OLD_PERMISSIONS = "allowed:"  # the scopes in which older versions kept what a person allows


class SessionRecords:
    """Computes steps and writes records for one run of a program."""

    def __init__(self, run: Run, lanes: Lanes, calls: UnawaitedCalls) -> None:
        self._run = run
        self._lanes = lanes
        self._calls = calls
        self._tasks: dict[str, Changes] = {}  # how to write a task again, in a branch that inherited it

    async def compute(
        self, position: CallPosition, shape: Signature, function: Callable[..., Any], arguments: dict[str, Any],
        *, is_last: bool = True,
    ) -> Any:  # fmt: skip
        """The recorded result of a step, or compute it. `is_last`: an error is recorded; otherwise `AttemptFailed`."""
        with self._run.active():
            self._run.honour_requests()
            recorded = self._run.records.step_at(position)
            if recorded is None:
                return await self._run.see_through(self._first(position, shape, function, arguments, is_last))
            if recorded.error is not None:
                raise self._recorded_failure(position, recorded)
            text = self._run.runtime.values.get(recorded.result, recorded.artifact)
            return read_record(self._run, lambda: shape.decode_result(text))

    async def _first(
        self, position: CallPosition, shape: Signature, function: Callable[..., Any], arguments: dict[str, Any],
        is_last: bool,
    ) -> Any:  # fmt: skip
        """Compute a step that nothing is recorded for."""
        if shape.is_async:
            coroutine = StoppableCoroutine(function)
            with self._run.interruption.watch(coroutine.stop):
                ended = await call(coroutine, True, None, None, **shape.unbind(arguments))
            if coroutine.is_stopped and ended.broken_off:
                raise Suspended  # it is computed again when the session is resumed
        else:
            text_or_end = await compute(
                self._run, function, shape, arguments,
                lambda text: step.record(self._run.holder, self.new_step(position, result=text)),
            )  # fmt: skip
            if isinstance(text_or_end, str):
                return shape.decode_result(text_or_end)
            ended = text_or_end
        if ended.error is None:
            text = shape.encode_result(ended.value)
            try:
                result, kept = await self._run.runtime.values.put(self._run.session.uid, self._run.holder.name, text)
            except StoreError as error:
                raise self._run.give_up(error) from error
            await self._run.write(step.record(self._run.holder, self.new_step(position, result=result, artifact=kept)))
            return shape.decode_result(text)
        if issubclass(type(ended.error), INTERRUPTIONS):
            raise ended.error
        if not is_last:
            raise AttemptFailed(ended.error)
        return await self._failed(position, ended.error)

    async def _failed(self, position: CallPosition, error: BaseException) -> Any:
        text = describe(error)
        number = await self._run.write(step.record(self._run.holder, self.new_step(position, error=text)))
        raise step_failed(position.name, decode(text), number) from error

    def _recorded_failure(self, position: CallPosition, recorded: Step) -> StepFailed:
        """The error of a recorded step; one that a branch inherited names no event of its own log."""
        number = recorded.number if recorded.session_uid == self._run.session.uid else INHERITED
        return step_failed(position.name, decode(recorded.error or "null"), number)

    def new_step(self, position: CallPosition, **came: str | None) -> step.NewStep:
        """A step to record at a position, with its result or error."""
        return step.NewStep(
            restart_number=self._run.session.restart_number,
            scope=position.scope,
            name=self._run.records.step_name(position),
            argument_digest=position.argument_digest,
            occurrence=position.occurrence,
            **came,
        )

    async def _make(self, position: CallPosition, changes: Changes) -> Any:
        """Make changes and record the step, in one transaction; returns the result of the last."""
        with self._run.active():
            self._run.honour_requests()
            recorded = self._run.records.step_at(position)
            if recorded is None:
                move = record_change.record_with(self._run.holder, self.new_step(position), changes)
                try:
                    return decode(await self._run.see_through(self._run.write(move)))
                except PerdureError as error:
                    return await self._failed(position, error)
            if recorded.error is not None:
                raise self._recorded_failure(position, recorded)
            return decode(self._run.runtime.values.get(recorded.result, recorded.artifact))

    def change(self, kind: str, id: str, said: dict[str, Any], changes: Changes) -> Coroutine[Any, Any, None]:
        """A change to a decision or a task, made once."""
        position = self._lanes.current().next_position("step", kind, argument_digest({"id": id} | said))
        return self._calls.later(position, self._then(None, position, changes))

    async def _then(self, value: T, position: CallPosition, changes: Changes) -> T:
        await self._make(position, changes)
        return value

    def decide(self, text: str, *, because: str, then: str | None = None) -> Coroutine[Any, Any, DecisionHandle]:
        """Record what was chosen and why, before acting on it."""
        position = self._lanes.current().next_position(
            "step", ":decide", argument_digest({"t": text, "b": because, "n": then})
        )
        id = self._named("d", position)

        made = (_change("decision.decide", id, {"text": text, "because": because, "then": then}),)
        return self._calls.later(position, self._then(DecisionHandle(self, id, made), position, made))

    def task(
        self, title: str, *, id: str | None = None, parent: str | None = None, priority: int = 0
    ) -> Coroutine[Any, Any, TaskHandle]:
        """Add a task to the plan."""
        position = self._lanes.current().next_position(
            "step", ":task", argument_digest({"t": title, "i": id, "p": parent})
        )
        name = id or self._named("t", position)

        given = {"parent_id": parent, "priority": priority}
        made = (*self._tasks.get(parent or "", ()), _change("task.add", name, {"title": title}, **given))
        self._tasks[name] = made
        return self._calls.later(position, self._then(TaskHandle(self, name, made), position, made))

    def remember(
        self, key: str, value: Any, *, scope: str | None = None, expected: int | None = None,
        stale_after: str | float | None = None, verify: str | None = None,
    ) -> Coroutine[Any, Any, int]:  # fmt: skip
        """Keep a fact, once per call; returns its version."""
        if scope is not None and scope.startswith(OLD_PERMISSIONS):
            raise ConfigError(f"The scope {scope[:60]} is reserved.", hint="`perdure exemptions` lifts a rule.")
        where, plain = scope or private_scope(self._run.session.uid), decode(encode(value))
        stale = None if stale_after is None else microseconds(stale_after)
        position = self._lanes.current().next_position(
            "step", ":remember", argument_digest({"k": key, "s": scope, "v": plain})
        )

        shown = {"key": key, "value": plain, "verify": verify}
        given = {"scope": where, "expected": expected} | redact_value(shown)
        change = RecordChange("fact.remember", given | {"stale_after": stale})
        return self._calls.later(position, self._make(position, (change,)))

    def recall(self, key: str, *, scope: str | None = None) -> Coroutine[Any, Any, Any]:
        """The value of a fact as it was at the first call, in every run; None if there was none."""
        position = self._lanes.current().next_position("step", ":recall", argument_digest({"k": key, "s": scope}))

        async def read() -> Any:
            return await self._run.read(recall, self._run.session, scope, redact(key))

        return self._calls.later(position, self.compute(position, Signature(read), read, {}))

    def save(self, content: bytes | str, *, kind: str = "application/octet-stream") -> Coroutine[Any, Any, str]:
        """Keep something large as an artifact; returns its digest. Known secrets in a text are replaced."""
        given = content.encode() if isinstance(content, str) else content
        data = redact(content).encode() if isinstance(content, str) else content
        position = self._lanes.current().next_position("step", ":save", digest(given))
        return self._calls.later(position, self._save(position, data, kind))

    async def _save(self, position: CallPosition, data: bytes, kind: str) -> str:
        directory = self._run.runtime.values.directory
        if directory is None:
            raise ConfigError(
                "This store has no folder for artifacts.",
                hint="Name one: perdure.open(..., artifacts=FOLDER), or the setting `artifacts`.",
            )
        name = digest(data)
        if self._run.records.step_at(position) is None:
            self._run.check()
            try:
                directory.put(data)
            except StoreError as error:
                raise self._run.give_up(error) from error

        claim = RecordChange("artifact.claim", {"digest": name, "kind": kind, "size": len(data)})
        kept: str = await self._make(position, (claim,))
        return kept

    def _named(self, prefix: str, position: CallPosition) -> str:
        return f"{prefix}-{digest(encode(position.stored(self._run.session.restart_number)))[:12]}"


def _change(kind: str, id: str, said: dict[str, Any], **others: Any) -> RecordChange:
    """A change, with markers in place of known secrets. Its position is that of what was given: a replay finds it."""
    return RecordChange(kind, {"id": id} | redact_value(said) | others)


class DecisionHandle:
    """A recorded decision; `settle` records its outcome."""

    def __init__(self, records: SessionRecords, id: str, made: Changes) -> None:
        self._records = records
        self._made = made  # in a branch that inherited it, it is recorded there first
        self.id = id

    def settle(self, outcome: str) -> Coroutine[Any, Any, None]:
        settled = _change("decision.settle", self.id, {"outcome": outcome})
        return self._records.change(":settle", self.id, {"o": outcome}, (*self._made, settled))


class TaskHandle:
    """A recorded task of the plan."""

    def __init__(self, records: SessionRecords, id: str, made: Changes) -> None:
        self._records = records
        self._made = made  # in a branch that inherited it, it is recorded there first
        self.id = id

    def become(self, state: TaskStateWord, *, note: str | None = None) -> Coroutine[Any, Any, None]:
        """Change the state of the task: active, blocked, done, dropped."""
        changes = {"state": state} | ({"note": note} if note is not None else {})
        changed = _change("task.change", self.id, changes)
        return self._records.change(":task-change", self.id, changes, (*self._made, changed))
