"""Recovery: continue with an effect from its last durable line, until it is settled or must wait.

Each round gathers the evidence, asks `domain.recovery_decision` for a decision, and carries it out. Nothing here
guesses: every action is one that the replay table allows, and the log records why it was taken. `recovery_plan` shows
the decision of the same functions before it is carried out.

A request to stop the session is honoured between acts: effects that have begun are probed or undone, and no other act
begins.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from perdure.domain.effect import SETTLED, AttemptOutcome, Effect, EffectState, Replay, Rule
from perdure.domain.recovery_decision import (
    NOT_ALLOWED,
    Action,
    Evidence,
    RecoveryDecision,
    after_absent,
    awaits_approval,
    binding_rule,
    interrupted,
    open_attempts,
    permit,
    recover,
)
from perdure.domain.wait import WaitKind
from perdure.domain.worker import Liveness, combined
from perdure.errors import ConfigError, IllegalMove, LeaseHeld, PolicyChanged, Suspended
from perdure.ids import encode
from perdure.runtime.definitions.tool import TOOLS, Tool
from perdure.runtime.ledger import leases
from perdure.runtime.ledger.exemptions import lift
from perdure.runtime.ledger.host import OpenDoubt
from perdure.runtime.ledger.policy import Ruling, under
from perdure.runtime.recovery.probe import ask_probe
from perdure.runtime.run.interruption import Interrupted
from perdure.runtime.run.lineage import expects_successor
from perdure.runtime.run.position import ExecutionLane
from perdure.runtime.telemetry import hook
from perdure.runtime.telemetry.hook import Kind
from perdure.store.moves import approval, doubt, interrupt, refusal, restore, wait
from perdure.store.moves import effect as effects
from perdure.store.moves import effect_input as intents
from perdure.store.moves.attempt import attempts_of

if TYPE_CHECKING:
    from perdure.runtime.ledger.ledger import Ledger

logger = logging.getLogger(__name__)
_BLOCKED = (Action.ASK, Action.REFUSE, Action.ASK_FOR_APPROVAL)


class Recovery:
    """Continues with the effects of one run."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._run = ledger.run
        self._uid = ledger.run.session.uid

    async def recover(self, tool: Tool[..., Any], effect: Effect) -> None:
        """Settle an effect that an earlier run left under way, before the program runs again."""
        try:
            if (found := await self._ledger.host.reattach(tool, effect)) is not None:
                await self._run.write(doubt.record_recovery(self._run.holder, effect.id, found.because))
                await self._ledger.settle(tool, effect.id, found.number, found.outcome)
            with hook.span(Kind.RECOVERY, self._uid, tool.name, effect=effect.id) as span:
                span.note(state=(await self.drive(tool, effect)).state)
        except OpenDoubt:
            await self._ledger.host.stand_by()

    async def drive(
        self, tool: Tool[..., Any], effect: Effect, lane: ExecutionLane | None = None, *, fresh: bool = False
    ) -> Effect:
        """Continue with an effect until it is settled. One that was settled before (not `fresh`) costs nothing."""
        at_its_end = effect.state in SETTLED and not fresh
        if effect.state not in SETTLED:
            effect = await self._ledger.get(effect.id)  # its outcome may have come since the record was read
        while effect.state not in SETTLED:
            self._run.check()
            is_undo = effect.position[0] == "undo"  # it is not refused: a later run continues it
            if self._run.interruption.ends_turn and not is_undo:
                effect = await self._interrupt(tool, effect, lane)
                continue
            try:
                effect = await self._round(tool, effect, lane)
            except Interrupted:
                if is_undo:
                    raise
                effect = await self._ledger.get(effect.id)
        if expects_successor(effect, tool.retry):
            self._run.honour_requests()
            await self._run.interruption.check()
            return await self._succeed(tool, effect, lane)
        if not at_its_end:
            self._run.wake_branches(effect, at_once=not fresh)
        return effect

    async def _interrupt(self, tool: Tool[..., Any], effect: Effect, lane: ExecutionLane | None) -> Effect:
        """An effect of a turn that was interrupted: it does not begin, and is not repeated."""
        by = await self._run.interruption.requester()
        decision = interrupted(effect, binding_rule(effect, tool.rule), by)
        match decision.action:
            case Action.REFUSE:
                return await self._run.write(interrupt.refuse(self._run.holder, effect.id, decision.why))
            case Action.FAIL:
                return await self._run.write(doubt.fail(self._run.holder, effect.id, decision.why))
        return await self._doubt(effect, decision.why, lane)

    async def _round(self, tool: Tool[..., Any], effect: Effect, lane: ExecutionLane | None) -> Effect:
        """One round: wait for an approval, or gather the evidence, decide, and follow the decision."""
        effect = self._run.runtime.values.whole(effect)
        if await self._await_approval(effect, lane):
            return await self._ledger.get(effect.id)
        rule, evidence = binding_rule(effect, tool.rule), await self._evidence(effect)
        decision = recover(effect, evidence, rule)
        logger.info("Session %s: effect %s (%s): recovery: %s.", self._uid, effect.id, effect.tool, decision.action)
        if decision.action is Action.PROBE:
            decision = await self._probe(tool, effect, evidence, rule, decision.why)
        self._run.check()
        return await self._follow_or_reread(tool, effect, decision, rule, lane)

    async def _follow_or_reread(
        self, tool: Tool[..., Any], effect: Effect, decision: RecoveryDecision, rule: Rule, lane: ExecutionLane | None
    ) -> Effect:
        """Follow a decision, unless an outcome came meanwhile and made it illegal, or a lease that it needs is held."""
        try:
            return await self._follow(tool, effect, decision, rule, lane)
        except LeaseHeld as held:
            await leases.wait_until_free(self._run, effect, held, lane)
            return await self._ledger.get(effect.id)
        except IllegalMove:
            now = await self._ledger.get(effect.id)
            if now == effect:
                raise
            return now

    async def _follow(
        self, tool: Tool[..., Any], effect: Effect, decision: RecoveryDecision, rule: Rule, lane: ExecutionLane | None
    ) -> Effect:
        """Carry out a decision, or wait until it is due."""
        effect = self._run.runtime.values.whole(effect)
        if decision.not_before is not None and decision.not_before > self._run.clock.now():
            await self._until(effect, decision, lane)
            return await self._ledger.get(effect.id)
        match decision.action:
            case Action.DISPATCH | Action.RUN_AGAIN:
                return await self._again(tool, effect, decision, lane)
            case Action.PRESUME:
                assert self._run.restore is not None
                return await self._run.write(restore.presume(self._run.holder, effect.id, self._run.restore, rule))
            case Action.REFUSE:
                self._run.honour_requests()
            case Action.UNDO:
                return await self._undo(tool, effect, decision, lane)
            case Action.FAIL:
                absent = rule.replay is not Replay.PURE
                return await self._run.write(doubt.fail(self._run.holder, effect.id, decision.why, absent=absent))
            case Action.ASK if await self._is_original_in_doubt(effect):  # that is what a person is asked about
                return await self._run.write(doubt.fail(self._run.holder, effect.id, decision.why))
            case Action.ASK:
                return await self._doubt(effect, decision.why, lane)
        return await self._ledger.get(effect.id)

    async def _is_original_in_doubt(self, effect: Effect) -> bool:
        """Whether it undoes an effect with an unknown outcome; the original of an undo on request is acknowledged."""
        if effect.position[0] != "undo":
            return False
        return (await self._ledger.get(effect.position[1])).state != EffectState.ACKNOWLEDGED

    async def _doubt(self, effect: Effect, why: str, lane: ExecutionLane | None) -> Effect:
        await self._ledger.host.doubt(effect, why, lane)
        return await self._ledger.get(effect.id)

    async def _again(
        self, tool: Tool[..., Any], effect: Effect, decision: RecoveryDecision, lane: ExecutionLane | None
    ) -> Effect:
        """Gate again, dispatch, act, settle. A lease that another effect holds is found by the dispatch itself."""
        ledger = self._ledger
        ruling = await ledger.judgement.rule(
            tool, effect.intent, lane, "undo" if effect.position[0] == "undo" else "do",
            is_counted=effect.state == EffectState.DISPATCHED,
        )  # fmt: skip
        try:
            if ruling.answer != "allow":
                action = await self._needs(effect, decision, ruling)
                if action in _BLOCKED:  # the approval that it has is not enough
                    ruling = await lift(self._run, ruling, tool.name, effect.id, effect.intent_digest)
                    action = await self._needs(effect, decision, ruling)
                if (held := await self._gated(tool, effect, action, ruling, lane)) is not None:
                    return held
            if tool.replay is Replay.JOINT:
                intent = intent_of(effect)
                acting = ledger.act_inside_transaction(tool, intent, effect.intent, effect, ruling)
            else:
                acting = ledger.dispatch_and_act(tool, effect, decision.why, ruling)
            return await self._run.see_through(acting)
        except PolicyChanged:  # it, or an exemption, is another one now, and the call is judged anew
            ledger.judgement.outdated()
            return await ledger.get(effect.id)

    async def _needs(self, effect: Effect, decision: RecoveryDecision, ruling: Ruling) -> Action:
        """What the dispatch of an effect needs, by a ruling and by the approval that it has."""
        gate = await self._run.read(approval.gate_finding, effect, ruling.answer, ruling.why, ruling.question)
        return permit(effect, decision, gate).action

    async def _gated(
        self, tool: Tool[..., Any], effect: Effect, action: Action, ruling: Ruling, lane: ExecutionLane | None
    ) -> Effect | None:
        """Ask, or refuse, where policy and gate do not allow a dispatch; None: an approval allows it."""
        ledger = self._ledger
        match action:
            case Action.ASK:
                return await self._doubt(effect, f"{NOT_ALLOWED} {ruling.why}", lane)
            case Action.REFUSE:
                intent = under(intent_of(effect), ruling)
                return await self._run.write(refusal.refuse(self._run.holder, intent, ruling.why, ruling.basis.fence))
            case Action.ASK_FOR_APPROVAL if ruling.question is not None:
                question = await ledger.with_details(tool, effect.intent, ruling.question)
                return await self._run.write(approval.request(self._run.holder, intent_of(effect), question))
        return None

    async def _await_approval(self, effect: Effect, lane: ExecutionLane | None) -> bool:
        if effect.approval_id is None or effect.state != EffectState.PLANNED:
            return False
        asked = await self._run.read(approval.get, self._uid, effect.approval_id)
        if not awaits_approval(effect, asked, self._run.holder.cancel_requested):
            return False
        await self._run.wait_for(asked.id, lane)
        return True

    async def _probe(
        self, tool: Tool[..., Any], effect: Effect, evidence: Evidence, rule: Rule, why: str
    ) -> RecoveryDecision:
        """Ask the outside system; only a positive answer, or an absence that counts, settles anything.

        The evidence was taken before the question, and an absence counts from that moment, however late the answer is.
        """
        number = evidence.attempts[-1].number
        answer, result = await ask_probe(self._ledger, tool, effect, number)
        said = answer.said if answer.why is None else f"{answer.said}: {answer.why}"
        asked = {"attempt": number, "asked_at": evidence.at, "replay": rule.replay}
        await self._run.write(
            doubt.record_recovery(self._run.holder, effect.id, f"{why} It answers: {said}", evidence=asked)
        )
        if answer.said == "unknown":
            return RecoveryDecision(Action.ASK, answer.why or "The probe cannot tell.")
        known = intents.AttemptResult(outcome=AttemptOutcome.ACKNOWLEDGED, result=result, reference=answer.reference)
        if answer.said != "happened":
            decision = after_absent(evidence, rule)
            if decision.action is not Action.DISPATCH:
                return decision
            known = intents.AttemptResult(outcome=AttemptOutcome.ABSENT)
        await self._ledger.settle(tool, effect.id, number, known)
        return RecoveryDecision(Action.NOTHING, "The probe settled it.")

    async def _undo(
        self, tool: Tool[..., Any], effect: Effect, decision: RecoveryDecision, lane: ExecutionLane | None
    ) -> Effect:
        """Undo it, as an effect of its own. An undo that fails puts the original in doubt.

        An undo that began while a request could still land is no evidence: it is repeated, with a key of its own.
        """
        early = await self._run.read(doubt.early_undos, effect, decision.not_before or 0)
        undoing = await self.undo(tool, effect, None, lane, generation=early, because=decision.why)
        if undoing.state == EffectState.ACKNOWLEDGED:
            return await self._run.write(doubt.record_compensation(self._run.holder, effect.id, by_effect=undoing.id))
        error = (undoing.error or {}).get("message") or undoing.state
        return await self._doubt(effect, f"Its undo {undoing.id} failed: {error}", lane)

    async def undo(
        self,
        tool: Tool[..., Any],
        effect: Effect,
        result: Any,
        lane: ExecutionLane | None,
        *,
        generation: int = 0,
        because: str | None = None,
    ) -> Effect:
        """Do the effect that takes another one back, until it is settled.

        If the undo is in doubt and the caller does not wait for it, the request stays, and a later run continues it.
        """
        undo, ledger = tool.undo_tool, self._ledger
        assert undo is not None
        arguments = undo.signature.bind((), {"result": result} | effect.intent)
        intent = ledger.intent(undo, arguments, ["undo", effect.id], generation=generation)
        try:
            undoing = await self._run.read(effects.get_or_none, self._uid, intent.id)
            if undoing is None:
                if because is not None:
                    await self._run.write(doubt.record_recovery(self._run.holder, effect.id, because))
                undoing = await ledger.begin_undo(undo, await ledger.stored(intent, arguments), arguments, lane)
            return await self.drive(undo, undoing, lane)
        except OpenDoubt as open_doubt:
            await ledger.host.stand_by()
            raise Suspended from open_doubt

    async def _succeed(self, tool: Tool[..., Any], effect: Effect, lane: ExecutionLane | None) -> Effect:
        """The next generation of an undone effect: a new key, planned where the old one is superseded."""
        whole = self._run.runtime.values.whole(effect)
        return await self._ledger.begin(
            tool, whole.intent, whole.position, lane, generation=whole.generation + 1, supersedes=whole.id
        )

    async def _evidence(self, effect: Effect) -> Evidence:
        """What is known now, after noting each process that was found dead."""
        attempts = await self._run.read(attempts_of, self._uid, effect.id)
        lives = [(one, self._run.runtime.life_of(one)) for one in open_attempts(attempts)]
        for one, life in lives:
            if life is Liveness.DEAD:
                because = f"worker {one.worker} was found dead"
                await self._run.write(
                    doubt.record_end(self._uid, self._run.holder.name, effect.id, one.number, because=because)
                )
        if any(life is Liveness.DEAD for _, life in lives):
            attempts = await self._run.read(attempts_of, self._uid, effect.id)
        return Evidence(
            attempts, self._run.clock.now(), combined([life for _, life in lives]),
            await self._run.unreleased_restore(), self._run.holder.cancel_requested,
        )  # fmt: skip

    async def _until(self, effect: Effect, decision: RecoveryDecision, lane: ExecutionLane | None) -> None:
        """Wait, durably, until a request can no longer be in flight."""
        assert decision.not_before is not None
        id = f"inflight-{effect.id}-{decision.not_before}"
        detail, due = {"why": decision.why}, decision.not_before
        await self._run.write(
            wait.open_(self._run.holder, id, WaitKind.TIMER, ref=effect.id, detail=detail, due_at=due)
        )
        await self._run.wait_for(id, lane)


def intent_of(effect: Effect) -> intents.NewEffect:
    """The intent of an effect as it was recorded."""
    kept = {name: getattr(effect, name) for name in _KEPT}
    position, targets, intent = (encode(one) for one in (effect.position, effect.targets, effect.intent))
    return intents.NewEffect(**kept, position=position, targets=targets, intent=intent)


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
