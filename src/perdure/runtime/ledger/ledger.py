"""The ledger at work. This is the crash story, and a real process is killed between every two lines in the tests.

    1 plan      one transaction: holder's epoch; the effect is in the ledger, planned
    2 gate      policy and gate: allow, ask or deny
    3 dispatch  one synced transaction: holder's epoch, approval; the attempt is in the ledger
    4 act       the lease's deadline once more on the boot clock; the tool runs and is given the key
    5 settle    one transaction, fenced by the attempt: what came of it

When nothing asks, 1 and 3 are one transaction (`dispatch` has the details). After a crash `drive` takes up an effect
wherever it was left and follows the replay table (`domain.recovery`) until it is settled or somebody must be
waited for. Nothing here guesses: every action is one that the table allows, and the log says why it was taken.

A request to stop the session is honoured between acts: what it has begun is probed or undone, and nothing else begins.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from perdure import faults
from perdure.domain.effect import SETTLED, AttemptOutcome, Effect, EffectState, Replay, Rule
from perdure.domain.recovery import (
    Action,
    Evidence,
    RecoveryDecision,
    after_absent,
    binding_rule,
    open_attempts,
    recover,
)
from perdure.domain.wait import WaitKind
from perdure.domain.worker import Liveness, combined
from perdure.errors import ConfigError, IllegalMove, LeaseHeld
from perdure.ids import encode
from perdure.runtime.definitions.tool import TOOLS, Outcome, Tool
from perdure.runtime.description import summary, type_name
from perdure.runtime.ledger import leases
from perdure.runtime.ledger.dispatch import Dispatcher, Intent
from perdure.runtime.ledger.execution import call
from perdure.runtime.ledger.policy import Ruling
from perdure.runtime.run.lineage import expects_successor
from perdure.runtime.run.position import CallPosition, ExecutionLane
from perdure.store.moves import approval, doubt, restore, wait
from perdure.store.moves import effect as effects
from perdure.store.moves import effect_input as intents
from perdure.store.moves.attempt import attempts_of

logger = logging.getLogger(__name__)


class Ledger(Dispatcher):
    """The effects of one run."""

    async def begin(
        self, tool: Tool[..., Any], arguments: dict[str, Any], position: CallPosition, lane: ExecutionLane | None
    ) -> Effect:
        """A call that nothing is recorded for: plan it, and see it through."""
        return await self._begin(tool, self.intent(tool, arguments, self._at(position)), lane)

    async def _begin(self, tool: Tool[..., Any], intent: Intent, lane: ExecutionLane | None) -> Effect:
        self._check_store(tool)
        ruling, intent = self._rule(tool, intent.arguments), await self._placed(intent)
        if ruling.answer != "allow":
            effect = await self.run.see_through(self._ask(intent, ruling))
        elif tool.replay is Replay.PURE:
            return await self.run.see_through(self._pure(tool, intent))
        elif tool.replay is Replay.JOINT:
            effect = await self.run.see_through(self._joint(tool, intent, None))
            if effect.state in SETTLED:
                return effect
        else:
            effect = await self.run.see_through(self._plan_and_act(tool, intent))
        return await self.drive(tool, effect, lane, fresh=True)

    async def _ask(self, intent: Intent, ruling: Ruling) -> Effect:
        async with self._in_order():
            if ruling.question is not None:
                return await self.run.write(approval.request(self.run.holder, intent, ruling.question))
            planned = await self.run.write(effects.plan(self.run.holder, intent))
            if planned.state != EffectState.PLANNED:
                return planned
            return await self.run.write(effects.refuse(self.run.holder, planned.id, "policy-denied", ruling.why))

    async def recover(self, tool: Tool[..., Any], effect: Effect) -> None:
        """Settle an effect that an earlier run left under way, before the program runs again."""
        await self.drive(tool, effect)

    def _rule(self, tool: Tool[..., Any], arguments: dict[str, Any]) -> Ruling:
        return self._policy.rule(tool, self.run.session, arguments)

    async def drive(
        self, tool: Tool[..., Any], effect: Effect, lane: ExecutionLane | None = None, *, fresh: bool = False
    ) -> Effect:
        """Take an effect from wherever it is to its end; one that was there long ago (not `fresh`) costs nothing."""
        at_its_end = effect.state in SETTLED and not fresh
        if effect.state not in SETTLED:
            effect = await self._get(effect.id)  # its outcome may have come since the record was read
        while effect.state not in SETTLED:
            self.run.check()
            effect = self.run.runtime.values.whole(effect)
            if not self.run.holder.cancel_requested and await self._await_approval(effect, lane):
                effect = await self._get(effect.id)
                continue
            rule, evidence = binding_rule(effect, tool.rule), await self._evidence(effect)
            course = recover(effect, evidence, rule)
            logger.info("Session %s: effect %s (%s): recovery: %s.", self._uid, effect.id, effect.tool, course.action)
            if course.action is Action.PROBE:
                course = await self._probe(tool, effect, evidence, rule, course.why)
            self.run.check()
            effect = await self._follow_or_look(tool, effect, course, rule, lane)
        if expects_successor(effect, tool.retry):
            self.run.honour_requests()
            return await self._succeed(tool, effect, lane)
        if not at_its_end:
            self.run.tell(effect, at_once=not fresh)
        return effect

    async def _follow_or_look(
        self, tool: Tool[..., Any], effect: Effect, course: RecoveryDecision, rule: Rule, lane: ExecutionLane | None
    ) -> Effect:
        """Follow a course, unless an outcome came in between and made it illegal, or somebody holds what it needs."""
        try:
            return await self._follow(tool, effect, course, rule, lane)
        except LeaseHeld as held:
            await leases.wait_until_free(self.run, effect, held, lane)
            return await self._get(effect.id)
        except IllegalMove:
            now = await self._get(effect.id)
            if now == effect:
                raise
            return now

    async def _follow(
        self, tool: Tool[..., Any], effect: Effect, course: RecoveryDecision, rule: Rule, lane: ExecutionLane | None
    ) -> Effect:
        """Do what was decided, unless it is too early for it."""
        effect = self.run.runtime.values.whole(effect)
        if course.not_before is not None and course.not_before > self.run.clock.now():
            await self._until(effect, course, lane)
            return await self._get(effect.id)
        match course.action:
            case Action.DISPATCH | Action.RUN_AGAIN:
                return await self._again(tool, effect, course.why, lane)
            case Action.PRESUME:
                assert self.run.restore is not None
                return await self.run.write(restore.presume(self.run.holder, effect.id, self.run.restore, rule))
            case Action.REFUSE:
                self.run.honour_requests()
            case Action.UNDO:
                return await self._undo(tool, effect, course, lane)
            case Action.FAIL:
                absent = rule.replay is not Replay.PURE
                return await self.run.write(doubt.fail(self.run.holder, effect.id, course.why, absent=absent))
            case Action.ASK if await self._is_original_in_doubt(effect):  # that is what a person is asked about
                return await self.run.write(doubt.fail(self.run.holder, effect.id, course.why))
            case Action.ASK:
                return await self._doubt(effect, course.why, lane)
        return await self._get(effect.id)

    async def _is_original_in_doubt(self, effect: Effect) -> bool:
        """Whether it takes back something of which nobody knows; an undo on request has an original that is known."""
        if effect.position[0] != "undo":
            return False
        return (await self._get(effect.position[1])).state != EffectState.ACKNOWLEDGED

    async def _doubt(self, effect: Effect, why: str, lane: ExecutionLane | None) -> Effect:
        asked = await self.run.write(doubt.open_doubt(self.run.holder, effect.id, why))
        await self.run.wait_for(asked, lane)
        return await self._get(effect.id)

    async def _again(self, tool: Tool[..., Any], effect: Effect, why: str, lane: ExecutionLane | None) -> Effect:
        """Gate again, dispatch, act, settle. What was begun without an approval that counts now is in doubt."""
        if effect.position[0] != "undo" and (ruling := self._rule(tool, effect.intent)).answer != "allow":
            if effect.state == EffectState.DISPATCHED and effect.approval_id is None:
                return await self._doubt(effect, f"It was begun without an approval. {ruling.why}", lane)
            if effect.state == EffectState.PLANNED and ruling.question is None:
                return await self.run.write(effects.refuse(self.run.holder, effect.id, "policy-denied", ruling.why))
            if effect.state == EffectState.PLANNED and ruling.question is not None:
                if await self.run.read(approval.must_ask, effect, ruling.question):
                    return await self.run.write(approval.request(self.run.holder, intent_of(effect), ruling.question))
        if tool.replay is Replay.JOINT:
            return await self.run.see_through(self._joint(tool, intent_of(effect), effect))
        return await self.run.see_through(self._dispatch_and_act(tool, effect, why))

    async def _await_approval(self, effect: Effect, lane: ExecutionLane | None) -> bool:
        if effect.approval_id is None or effect.state != EffectState.PLANNED:
            return False
        asked = await self.run.read(approval.get, self._uid, effect.approval_id)
        if asked.decision is not None:
            return False
        await self.run.wait_for(asked.id, lane)
        return True

    async def _probe(
        self, tool: Tool[..., Any], effect: Effect, evidence: Evidence, rule: Rule, why: str
    ) -> RecoveryDecision:
        """Ask the outside system; only a positive answer, or an absence that counts, settles anything.

        The evidence was taken before the question, and an absence counts as of then, however late the answer comes.
        """
        number = evidence.attempts[-1].number
        answer, result = await self._ask_probe(tool, effect, number)
        said = answer.said if answer.why is None else f"{answer.said}: {answer.why}"
        asked = {"attempt": number, "asked_at": evidence.at, "replay": rule.replay}
        await self.run.write(
            doubt.record_recovery(self.run.holder, effect.id, f"{why} It answers: {said}", evidence=asked)
        )
        if answer.said == "unknown":
            return RecoveryDecision(Action.ASK, answer.why or "The probe cannot tell.")
        known = intents.AttemptResult(outcome=AttemptOutcome.ACKNOWLEDGED, result=result, reference=answer.reference)
        if answer.said != "happened":
            course = after_absent(evidence, rule)
            if course.action is not Action.DISPATCH:
                return course
            known = intents.AttemptResult(outcome=AttemptOutcome.ABSENT)
        await self._settle(tool, effect.id, number, known)
        return RecoveryDecision(Action.NOTHING, "The probe settled it.")

    async def _ask_probe(self, tool: Tool[..., Any], effect: Effect, number: int) -> tuple[Outcome, str | None]:
        """The probe's answer, with its result as JSON text. A probe that fails cannot tell."""
        assert tool.probe_function is not None
        given = [self._given(effect.id, effect.idempotency_key, number)] if tool.wants_call else []
        is_async = asyncio.iscoroutinefunction(tool.probe_function)
        asked = call(tool.probe_function, is_async, tool.timeout, None, *given, **tool.signature.unbind(effect.intent))
        ended = await self.run.see_through(asked)
        faults.point("probe.after")
        if ended.error is not None or not issubclass(type(ended.value), Outcome):
            returned = f"it returned {type_name(ended.value)} and no Outcome"
            why = returned if ended.error is None else summary(ended.error)
            return Outcome.unknown(f"The probe failed: {why}."), None
        answer = ended.value.storable()
        if answer.said != "happened":
            return answer, None
        try:
            return answer, tool.signature.encode_result(answer.result)
        except ConfigError as error:
            return Outcome.unknown(f"The probe says that it happened, but {error.message}"), None

    async def _undo(
        self, tool: Tool[..., Any], effect: Effect, course: RecoveryDecision, lane: ExecutionLane | None
    ) -> Effect:
        """Take it back: an effect of its own. An undo that fails puts the original in doubt.

        One that began before anything in flight had landed is no evidence: it is done again, with a key of its own.
        """
        early = await self.run.read(doubt.early_undos, effect, course.not_before or 0)
        undoing = await self.undo(tool, effect, None, lane, generation=early, because=course.why)
        if undoing.state == EffectState.ACKNOWLEDGED:
            return await self.run.write(doubt.record_compensation(self.run.holder, effect.id, by_effect=undoing.id))
        error = (undoing.error or {}).get("message") or undoing.state
        return await self._doubt(effect, f"Its undo {undoing.id} failed: {error}", lane)

    async def undo(
        self, tool: Tool[..., Any], effect: Effect, result: Any, lane: ExecutionLane | None, *, generation: int = 0,
        because: str | None = None,
    ) -> Effect:  # fmt: skip
        """The effect that takes another one back, seen through to its end."""
        undo = tool.undo_tool
        assert undo is not None
        arguments = undo.signature.bind((), {"result": result} | effect.intent)
        intent = self.intent(undo, arguments, ["undo", effect.id], generation=generation)
        undoing = await self.run.read(effects.get_or_none, self._uid, intent.id)
        if undoing is None:
            if because is not None:
                await self.run.write(doubt.record_recovery(self.run.holder, effect.id, because))
            undoing = await self.run.see_through(self._plan_and_act(undo, await self._placed(intent)))
        return await self.drive(undo, undoing, lane)

    async def _succeed(self, tool: Tool[..., Any], effect: Effect, lane: ExecutionLane | None) -> Effect:
        """The next generation of an undone effect: a new key, planned where the old one is superseded."""
        generation, effect = effect.generation + 1, self.run.runtime.values.whole(effect)
        intent = self.intent(tool, effect.intent, effect.position, generation=generation, supersedes=effect.id)
        return await self._begin(tool, intent, lane)

    async def _evidence(self, effect: Effect) -> Evidence:
        """What is known now, after noting each process that was found dead."""
        attempts = await self.run.read(attempts_of, self._uid, effect.id)
        lives = [(one, self.run.runtime.life_of(one)) for one in open_attempts(attempts)]
        for one, life in lives:
            if life is Liveness.DEAD:
                because = f"worker {one.worker} was found dead"
                await self.run.write(
                    doubt.record_end(self._uid, self.run.holder.name, effect.id, one.number, because=because)
                )
        if any(life is Liveness.DEAD for _, life in lives):
            attempts = await self.run.read(attempts_of, self._uid, effect.id)
        return Evidence(
            attempts, self.run.clock.now(), combined([life for _, life in lives]), self.run.restore,
            self.run.holder.cancel_requested,
        )  # fmt: skip

    async def _until(self, effect: Effect, course: RecoveryDecision, lane: ExecutionLane | None) -> None:
        """Wait, durably, until a request can no longer be in flight."""
        assert course.not_before is not None
        id = f"inflight-{effect.id}-{course.not_before}"
        move = wait.open_(
            self.run.holder, id, WaitKind.TIMER, ref=effect.id, detail={"why": course.why}, due_at=course.not_before
        )
        await self.run.write(move)
        await self.run.wait_for(id, lane)


def intent_of(effect: Effect) -> Intent:
    """The intent of an effect as it was recorded."""
    kept = {name: getattr(effect, name) for name in _KEPT}
    position, targets, intent = (encode(one) for one in (effect.position, effect.targets, effect.intent))
    return Intent(**kept, position=position, targets=targets, intent=intent, arguments=effect.intent)


_KEPT = (
    "id", "generation", "tool", "replay", "intent_digest", "idempotency_key", "rule", "inflight", "key_ttl", "retry",
)  # fmt: skip


def tool_of(effect: Effect) -> Tool[..., Any]:
    """The code for a recorded effect. Rows name tools, never modules."""
    if effect.tool not in TOOLS:
        raise ConfigError(
            f"No tool named {effect.tool} is loaded here.", hint="Name the module that defines it with --app."
        )
    return TOOLS[effect.tool]
