"""The ledger at work. This is the crash story, and a real process is killed between every two lines in the tests.

    1 plan      one transaction: holder's epoch; the effect is in the ledger, planned
    2 gate      policy and gate: allow, ask or deny
    3 dispatch  one synced transaction: holder's epoch, approval; the attempt is in the ledger
    4 act       the lease's deadline once more on the boot clock; the tool runs and is given the key
    5 settle    one transaction, fenced by the attempt: what came of it

When nothing asks, 1 and 3 are one transaction. A `pure` effect needs no intent: it runs and is recorded. A `joint` one
runs inside the transaction that records it. After a crash `drive` takes up an effect wherever it was left and follows
the replay table (`domain.effect.recover`) until it is settled or somebody must be waited for.
"""

from __future__ import annotations

import asyncio
from typing import Any

from perdure import faults
from perdure.domain.effect import (
    SETTLED,
    Action,
    Attempt,
    AttemptOutcome,
    Course,
    Effect,
    EffectState,
    Replay,
    after_absent,
    idempotency_key,
    intent_digest,
    recover,
)
from perdure.domain.wait import WaitKind
from perdure.domain.worker import Life
from perdure.errors import ConfigError
from perdure.ids import encode
from perdure.runtime.act import call, describe, outcome
from perdure.runtime.place import Lane, Place
from perdure.runtime.policy import Policy, Ruling
from perdure.runtime.run import Run
from perdure.runtime.tool import TOOLS, Call, Outcome, Tool, Transaction
from perdure.store import approval, lease, wait
from perdure.store import effect as effects
from perdure.store.move import Move, hold
from perdure.store.move import Transaction as StoreTransaction


class Ledger:
    """The effects of one run."""

    def __init__(self, run: Run, policy: Policy) -> None:
        self.run = run
        self._policy = policy
        self._uid = run.session.uid
        self._order = asyncio.Lock()

    async def begin(self, tool: Tool[..., Any], arguments: dict[str, Any], place: Place, lane: Lane | None) -> Effect:
        """A call that nothing is recorded for: plan it, and see it through."""
        intent = self.intent(tool, arguments, place)
        ruling = self._policy.rule(tool, self.run.session, arguments)
        if ruling.answer != "allow":
            async with self._order:
                effect = await self._ask(intent, ruling)
            return await self.drive(tool, effect, lane)
        if tool.replay is Replay.PURE:
            return await self._pure(tool, intent)
        if tool.replay is Replay.JOINT:
            return await self._joint(tool, intent, None)
        await self._refresh_lease()
        async with self._order:
            number = await self.run.write(effects.plan_and_dispatch(self.run.holder, intent, self._dispatch(tool)))
        effect = await self._act(tool, intent.id, intent.idempotency_key, intent.intent_arguments, number)
        return await self.drive(tool, effect, lane)

    def intent(
        self, tool: Tool[..., Any], arguments: dict[str, Any], place: Place, *, generation: int = 0,
        supersedes: str | None = None,
    ) -> Intent:  # fmt: skip
        position = place.position(self.run.session.restart_number)
        targets = tool.targets_of(arguments)
        key = idempotency_key(self._uid, position, tool.name, arguments, generation)
        return Intent(
            id="e-" + key[:16],
            position=encode(position),
            generation=generation,
            tool=tool.name,
            replay=tool.rule.replay,
            targets=encode(targets),
            intent=encode(arguments),
            intent_digest=intent_digest(tool.name, arguments, targets),
            idempotency_key=key,
            rule=self._policy.name,
            supersedes=supersedes,
            intent_arguments=arguments,
        )

    def _dispatch(self, tool: Tool[..., Any]) -> effects.Dispatch:
        deadline = None if tool.timeout is None else self.run.clock.now() + tool.timeout
        worker = self.run.runtime.worker
        return effects.Dispatch(worker=worker.id, process=worker.process, deadline_at=deadline)

    async def _ask(self, intent: Intent, ruling: Ruling) -> Effect:
        if ruling.question is not None:
            return await self.run.write(approval.ask(self.run.holder, intent, ruling.question))
        planned = await self.run.write(effects.plan(self.run.holder, intent))
        if planned.state != EffectState.PLANNED:
            return planned
        return await self.run.write(effects.refuse(self.run.holder, planned.id, "policy-denied", ruling.why))

    async def _pure(self, tool: Tool[..., Any], intent: Intent) -> Effect:
        """Run, and record what came of it; what raises is run again, up to `retry` times."""
        known, attempt = effects.Outcome(outcome=AttemptOutcome.UNKNOWN), 0
        while known.outcome is not AttemptOutcome.ACKNOWLEDGED and attempt < tool.retry:
            attempt += 1
            known = await self._call(tool, intent.id, intent.idempotency_key, intent.intent_arguments, attempt)
        if known.outcome is AttemptOutcome.UNKNOWN:
            known = effects.Outcome(outcome=AttemptOutcome.FAILED, error=known.error)
        kept = self.run.runtime.values.keep(known)
        await self.run.write(effects.record(self.run.holder, intent, self._dispatch(tool), kept))
        return await self._get(intent.id)

    async def _joint(self, tool: Tool[..., Any], intent: Intent, planned: Effect | None) -> Effect:
        """Act inside the transaction that records it. A rollback is proof that nothing happened."""
        arguments, dispatch = tool.shape.unbind(intent.intent_arguments), self._dispatch(tool)
        raised: list[BaseException] = []

        def run(tx: StoreTransaction) -> None:
            log = hold(tx, self.run.holder)
            try:
                value = tool.function(Transaction(tx.execute), **arguments)
                known = effects.Outcome(outcome=AttemptOutcome.ACKNOWLEDGED, result=tool.shape.encode_result(value))
            except Exception as error:
                raised.append(error)
                raise
            if planned is None:
                effects.record.on(log, intent, dispatch, known)
            else:
                effects.settle.on(log, intent.id, effects.dispatch.on(log, intent.id, dispatch), known)
            log.close()

        try:
            await self.run.write(Move("effect.joint", "holder", run))
        except Exception:
            if not raised:
                raise
            failed = effects.Outcome(outcome=AttemptOutcome.FAILED, error=describe(raised[-1]))
            if planned is None:
                await self.run.write(effects.record(self.run.holder, intent, dispatch, failed))
            else:
                number = await self.run.write(effects.dispatch(self.run.holder, intent.id, dispatch))
                await self.run.write(effects.settle(self._uid, self.run.holder.name, intent.id, number, failed))
        return await self._get(intent.id)

    async def _act(self, tool: Tool[..., Any], id: str, key: str, arguments: dict[str, Any], number: int) -> Effect:
        """Act and settle. A lease that has run out meanwhile is proof that the act did not begin."""
        faults.point("act.before")
        if self.run.clock.boot() >= self.run.holder.boot_deadline or self.run.unwinding:
            known = effects.Outcome(outcome=AttemptOutcome.ABSENT)
        else:
            known = await self._call(tool, id, key, arguments, number)
        settled = effects.settle(
            self._uid, self.run.holder.name, id, number, self.run.runtime.values.keep(known), retry=tool.retry
        )
        effect = await self.run.write(settled)
        await self._tell_branches(effect)
        return effect

    async def _refresh_lease(self) -> None:
        """Renew a lease that is about to end, so that a dispatch is not wasted on it."""
        holder, heart, asked_at = self.run.holder, self.run.runtime.heart, self.run.clock.boot()
        if holder.boot_deadline - asked_at < heart.ttl // 10:
            await self.run.write(lease.renew(holder, heart.ttl))
            holder.boot_deadline = asked_at + heart.ttl

    async def _call(
        self, tool: Tool[..., Any], id: str, key: str, arguments: dict[str, Any], number: int
    ) -> effects.Outcome:
        given = [self._given(id, key, number)] if tool.wants_call else []
        opened = tool.shape.unbind(arguments)
        faults.point("act.begun")
        ended = await call(tool.function, tool.shape.is_async, tool.timeout, *given, **opened)
        faults.point("act.after")
        return outcome(tool, ended)

    def _given(self, id: str, key: str, number: int) -> Call:
        heart, holder = self.run.runtime.heart, self.run.holder
        return Call(key, number, self.run.session.id, id, lambda: heart.beat(holder))

    async def drive(self, tool: Tool[..., Any], effect: Effect, lane: Lane | None = None) -> Effect:
        """Take an effect from wherever it is to its end."""
        while effect.state not in SETTLED:
            if await self._await_approval(effect, lane):
                effect = await self._get(effect.id)
                continue
            attempts = await self._attempts(effect)
            course = recover(effect, attempts, tool.rule, self.run.clock.now())
            if course.action is Action.PROBE:
                effect, course = await self._probe(tool, effect, attempts, course)
            effect = await self._follow(tool, effect, course, lane)
        if effect.state == EffectState.COMPENSATED and effect.result is None and effect.artifact is None:
            return await self._successor(
                tool, effect, lane
            )  # it was undone because nobody knew, not because somebody wanted
        return effect

    async def _follow(self, tool: Tool[..., Any], effect: Effect, course: Course, lane: Lane | None) -> Effect:
        """Do what was decided, unless it is too early for it."""
        if course.not_before is not None and course.not_before > self.run.clock.now():
            await self._until(effect, course, lane)
            return await self._get(effect.id)
        match course.action:
            case Action.DISPATCH | Action.RUN_AGAIN:
                return await self._again(tool, effect, course.why)
            case Action.UNDO:
                return await self._undo(tool, effect, lane)
            case Action.FAIL:
                return await self.run.write(effects.give_up(self.run.holder, effect.id, course.why))
            case Action.ASK:
                await self.run.wait_for(
                    await self.run.write(effects.doubt(self.run.holder, effect.id, course.why)), lane
                )
        return await self._get(effect.id)

    async def _again(self, tool: Tool[..., Any], effect: Effect, why: str) -> Effect:
        """Gate again, dispatch, act, settle."""
        if effect.approval_id is None and effect.state == EffectState.PLANNED:
            ruling = self._policy.rule(tool, self.run.session, effect.intent)
            if ruling.answer == "deny":
                return await self.run.write(effects.refuse(self.run.holder, effect.id, "policy-denied", ruling.why))
        if tool.replay is Replay.JOINT:
            return await self._joint(tool, self._intent_of(tool, effect), effect)
        await self._refresh_lease()
        move = effects.dispatch(self.run.holder, effect.id, self._dispatch(tool), because=why)
        number = await self.run.write(move)
        return await self._act(tool, effect.id, effect.idempotency_key, effect.intent, number)

    def _intent_of(self, tool: Tool[..., Any], effect: Effect) -> Intent:
        return self.intent(tool, effect.intent, Place(*effect.position[1:]), generation=effect.generation)

    async def _await_approval(self, effect: Effect, lane: Lane | None) -> bool:
        if effect.approval_id is None or effect.state != EffectState.PLANNED:
            return False
        asked = await self.run.store.read(approval.get, self._uid, effect.approval_id)
        if asked.decision is not None:
            return False
        await self.run.wait_for(asked.id, lane)
        return True

    async def _probe(
        self, tool: Tool[..., Any], effect: Effect, attempts: list[Attempt], course: Course
    ) -> tuple[Effect, Course]:
        """Ask the outside system; only a positive answer, or an absence that counts, settles anything."""
        answer = await self._ask_probe(tool, effect, attempts[-1].number)
        await self._note(effect, attempts, f"{course.why} It answers: {answer.said}.")
        if answer.said == "happened":
            known = effects.Outcome(
                outcome=AttemptOutcome.ACKNOWLEDGED,
                result=tool.shape.encode_result(answer.result),
                reference=answer.reference,
            )
            return await self._settle(effect, attempts[-1], known, tool), course
        if answer.said == "unknown":
            return effect, Course(Action.ASK, answer.why or "The probe cannot tell.")
        course = after_absent(attempts, tool.rule, self.run.clock.now())
        if course.action is Action.DISPATCH:
            absent = effects.Outcome(outcome=AttemptOutcome.ABSENT)
            effect = await self._settle(effect, attempts[-1], absent, tool)
        return effect, course

    async def _ask_probe(self, tool: Tool[..., Any], effect: Effect, number: int) -> Outcome:
        assert tool.probing is not None
        given = [self._given(effect.id, effect.idempotency_key, number)] if tool.wants_call else []
        is_async = asyncio.iscoroutinefunction(tool.probing)
        ended = await call(tool.probing, is_async, tool.timeout, *given, **tool.shape.unbind(effect.intent))
        faults.point("probe.after")
        if isinstance(ended.value, Outcome) and ended.error is None:
            return ended.value
        why = str(ended.error) if ended.error else f"it returned {type(ended.value).__name__} and no Outcome"
        return Outcome.unknown(f"The probe failed: {why}.")

    async def _settle(self, effect: Effect, attempt: Attempt, known: effects.Outcome, tool: Tool[..., Any]) -> Effect:
        move = effects.settle(self._uid, self.run.holder.name, effect.id, attempt.number, known, retry=tool.retry)
        settled = await self.run.write(move)
        await self._tell_branches(settled)
        return settled

    async def _undo(self, tool: Tool[..., Any], effect: Effect, lane: Lane | None) -> Effect:
        """Take it back: an effect of its own. An undo that fails puts the original in doubt."""
        undo = tool.undoing
        assert undo is not None
        arguments = undo.shape.bind((), {"result": None} | effect.intent)
        place = Place(effect.id, "undo", undo.name, "", effect.generation)
        intent = self.intent(undo, arguments, place)
        number = None
        undoing = await self._find(intent.id)
        if undoing is None:
            number = await self.run.write(effects.plan_and_dispatch(self.run.holder, intent, self._dispatch(undo)))
            undoing = await self._act(undo, intent.id, intent.idempotency_key, arguments, number)
        undoing = await self.drive(undo, undoing, lane)
        if undoing.state == EffectState.ACKNOWLEDGED:
            return await self.run.write(effects.compensated(self.run.holder, effect.id, by_effect=undoing.id))
        await self.run.wait_for(
            await self.run.write(effects.doubt(self.run.holder, effect.id, f"Its undo {undoing.id} failed.")), lane
        )
        return await self._get(effect.id)

    async def _successor(self, tool: Tool[..., Any], effect: Effect, lane: Lane | None) -> Effect:
        """The next generation of an undone effect: a new key, planned where the old one is superseded."""
        place = Place(*effect.position[1:])
        intent = self.intent(tool, effect.intent, place, generation=effect.generation + 1, supersedes=effect.id)
        number = await self.run.write(effects.plan_and_dispatch(self.run.holder, intent, self._dispatch(tool)))
        successor = await self._act(tool, intent.id, intent.idempotency_key, effect.intent, number)
        return await self.drive(tool, successor, lane)

    async def _attempts(self, effect: Effect) -> list[Attempt]:
        """The attempts, after noting whose process was found dead."""
        attempts = await self.run.store.read(effects.of_effect, self._uid, effect.id)
        if attempts and attempts[-1].ended_at is None and effect.state != EffectState.PLANNED:
            last = attempts[-1]
            if self.run.runtime.worker.life_of(last.process) is Life.DEAD:
                because = f"worker {last.worker} was found dead"
                await self.run.write(
                    effects.ended(self._uid, self.run.holder.name, effect.id, last.number, because=because)
                )
                return await self.run.store.read(effects.of_effect, self._uid, effect.id)
        return attempts

    async def _until(self, effect: Effect, course: Course, lane: Lane | None) -> None:
        """Wait, durably, until a request can no longer be in flight."""
        assert course.not_before is not None
        id = f"inflight-{effect.id}-{course.not_before}"
        move = wait.open_(
            self.run.holder, id, WaitKind.TIMER, ref=effect.id, detail={"why": course.why}, due_at=course.not_before
        )
        await self.run.write(move)
        await self.run.wait_for(id, lane)

    async def _note(self, effect: Effect, attempts: list[Attempt], why: str) -> None:
        await self.run.write(effects.noted(self.run.holder, effect.id, attempts[-1].number, why))

    async def _tell_branches(self, effect: Effect) -> None:
        """Branches that wait for this effect's outcome may go on."""
        if effect.state not in SETTLED:
            return
        for waiting in await self.run.store.read(wait.for_ref, effect.id):
            if waiting.kind == WaitKind.EFFECT:
                await self.run.write(wait.resolve(waiting.session_uid, self.run.holder.name, waiting.id, effect.state))

    async def _get(self, id: str) -> Effect:
        return await self.run.store.read(effects.get, self._uid, id)

    async def _find(self, id: str) -> Effect | None:
        return await self.run.store.read(effects.maybe, self._uid, id)


class Intent(effects.Intent, frozen=True, kw_only=True):
    """An intent with its arguments still open."""

    intent_arguments: dict[str, Any]


def tool_of(effect: Effect) -> Tool[..., Any]:
    """The code for a recorded effect. Rows name tools, never modules."""
    if effect.tool not in TOOLS:
        raise ConfigError(
            f"No tool named {effect.tool} is loaded here.", hint="Name the module that defines it with --app."
        )
    return TOOLS[effect.tool]
