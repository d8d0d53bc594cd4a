"""The ledger: how one effect is done. This is the crash story; the tests kill a real process between every two lines.

    1 plan      one transaction: the holder's epoch; the effect is in the ledger, planned
    2 gate      policy and gate: allow, ask or deny
    3 dispatch  one synced transaction: the holder's epoch, the approval; the attempt is in the ledger
    4 act       the lease's deadline once more on the boot clock; the tool runs and is given the key
    5 settle    one transaction, fenced by the attempt: the outcome

`begin` follows these lines from top to bottom. When nothing asks, 1 and 3 are one transaction. From dispatch to settle
nothing interrupts: a caller that is cancelled meanwhile is told afterwards. An outcome that the store could not take is
kept, and written as soon as the store is back (`late_outcomes`). A `pure` effect needs no intent: it runs and is
recorded. A `joint` effect runs inside the transaction that records it (`joint`).

After a crash, `recovery` continues with an effect from its last durable line.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

import msgspec

from perdure import faults
from perdure.domain.effect import (
    NOT_BEGUN,
    SETTLED,
    AttemptOutcome,
    Effect,
    EffectState,
    Replay,
    idempotency_key,
    intent_digest,
)
from perdure.errors import LeaseHeld, PolicyChanged, PolicyDenied, StoreError, Suspended
from perdure.ids import encode
from perdure.runtime.definitions.tool import Call, Tool
from perdure.runtime.ledger import joint
from perdure.runtime.ledger.attempt_registry import BROKEN_OFF, keep_late_outcome
from perdure.runtime.ledger.execution import act, check_no_secret
from perdure.runtime.ledger.exemptions import lift
from perdure.runtime.ledger.host import ActSite, Host, ProgramHost
from perdure.runtime.ledger.policy import ALLOWED, Ruling, under
from perdure.runtime.ledger.progress_report import ProgressReport
from perdure.runtime.policy.budgets import record_stop
from perdure.runtime.policy.call_judgement import CallJudgement
from perdure.runtime.recovery.recovery import Recovery
from perdure.runtime.run.large_values import LIMIT
from perdure.runtime.run.position import ExecutionLane
from perdure.runtime.run.run import Run
from perdure.runtime.telemetry import hook
from perdure.runtime.telemetry.hook import Kind
from perdure.store.moves import approval, lease, refusal
from perdure.store.moves import effect as effects
from perdure.store.moves.approval import ApprovalRequest
from perdure.store.moves.effect_input import AttemptResult, Dispatch, NewEffect

logger = logging.getLogger(__name__)


class Ledger:
    """The effects of one run."""

    def __init__(self, run: Run, host: Host | None = None) -> None:
        self.run = run
        self.host: Host = host or ProgramHost(run)
        self.judgement = CallJudgement(run, self.host)
        self.recovery = Recovery(self)
        self._uid = run.session.uid
        self._worker = run.runtime.worker
        self._order = asyncio.Lock()
        self._fresh: dict[str, Effect] = {}  # effects dispatched for the first time and not settled, as they were then
        self._one_writer = run.store.database.dialect == "sqlite"

    async def begin(
        self,
        tool: Tool[..., Any],
        arguments: dict[str, Any],
        position: list[Any],
        lane: ExecutionLane | None,
        *,
        generation: int = 0,
        supersedes: str | None = None,
    ) -> Effect:
        """Do an effect that nothing is recorded for, until it is settled."""
        intent = self.intent(tool, arguments, position, generation=generation, supersedes=supersedes)
        if tool.replay is Replay.JOINT:
            joint.check_store(self.run.store, tool)
        tool.signature.check_secrets(arguments)
        intent = await self.stored(intent, arguments)
        with hook.span(Kind.TOOL, self._uid, tool.name, effect=intent.id, replay=tool.replay) as span:
            effect = await self._to_its_end(tool, intent, arguments, lane)
            span.note(state=effect.state)
        return effect

    async def _to_its_end(
        self, tool: Tool[..., Any], intent: NewEffect, arguments: dict[str, Any], lane: ExecutionLane | None
    ) -> Effect:
        effect, ruling = None, ALLOWED
        while effect is None:
            try:
                ruling = await self.judgement.rule(tool, arguments, lane)
            except PolicyDenied as denied:
                await record_stop(self.run, intent, denied)
                raise
            ruling = await lift(self.run, ruling, tool.name, intent.id, intent.intent_digest)
            intent = under(intent, ruling)
            try:
                effect = await self.run.see_through(self._carry_out(tool, intent, arguments, ruling))
            except PolicyChanged:  # it, or an exemption, is another one now, and the call is judged anew
                self.judgement.outdated()
        if effect.state in SETTLED and tool.replay in (Replay.PURE, Replay.JOINT) and ruling.answer == "allow":
            return effect
        if effect.state == EffectState.ACKNOWLEDGED:
            self.run.wake_branches(effect, at_once=False)
            return effect
        return await self.recovery.drive(tool, effect, lane, fresh=True)

    async def _carry_out(
        self, tool: Tool[..., Any], intent: NewEffect, arguments: dict[str, Any], ruling: Ruling
    ) -> Effect:
        """Ask, refuse, or dispatch and act."""
        if ruling.answer != "allow":
            question = ruling.question and await self.with_details(tool, arguments, ruling.question)
            return await self._ask(intent, question, ruling)
        if tool.replay is Replay.PURE:
            return await self._run_and_record(tool, intent, arguments, ruling)
        if tool.replay is Replay.JOINT:
            return await self.act_inside_transaction(tool, intent, arguments, None, ruling)
        return await self.plan_and_act(tool, intent, arguments, ruling)

    def intent(
        self,
        tool: Tool[..., Any],
        arguments: dict[str, Any],
        position: list[Any],
        *,
        generation: int = 0,
        supersedes: str | None = None,
    ) -> NewEffect:
        targets, leases = tool.targets_of(arguments), tool.leases_of(arguments)
        check_no_secret(tool, [*targets, *leases])
        self.run.needs_leases |= bool(leases)
        key, rule = idempotency_key(self._uid, position, tool.name, arguments, generation), tool.rule
        return NewEffect(
            id="e-" + key[:16],
            task_id=self.host.task_id,
            position=encode(position),
            generation=generation,
            tool=tool.name,
            replay=rule.replay,
            inflight=rule.inflight,
            key_ttl=rule.key_ttl,
            retry=rule.retry,
            targets=encode(targets),
            intent=encode(arguments),
            intent_digest=intent_digest(tool.name, arguments, targets),
            idempotency_key=key,
            reach=tool.reach,
            supersedes=supersedes,
            leases=encode(leases) if leases else None,
        )

    async def with_details(
        self, tool: Tool[..., Any], arguments: dict[str, Any], question: ApprovalRequest
    ) -> ApprovalRequest:
        """The request, with what helps a person to judge the call."""
        about = await self.host.details_for_approval(tool, arguments)
        return msgspec.structs.replace(question, about=about)

    async def _ask(self, intent: NewEffect, question: ApprovalRequest | None, ruling: Ruling) -> Effect:
        """Plan it, and ask for approval or refuse it."""
        async with self._in_order():
            if question is not None:
                return await self.run.write(approval.request(self.run.holder, intent, question))
            return await self.run.write(refusal.refuse(self.run.holder, intent, ruling.why, ruling.basis.fence))

    async def plan_and_act(
        self, tool: Tool[..., Any], intent: NewEffect, arguments: dict[str, Any], ruling: Ruling = ALLOWED
    ) -> Effect:
        """Plan and dispatch in one transaction, then act and settle.

        It is only planned if it may have happened before a restore, if another effect holds a lease that it needs, or
        if the session was asked to stop.
        """
        site = self.host.act_site(tool)
        async with self._in_order():
            await self._refresh_lease()
            if tool.undoes is None and await self.run.unreleased_restore() is not None:
                return await self.run.write(effects.plan(self.run.holder, intent))
            move = effects.plan_and_dispatch(self.run.holder, intent, self._dispatch(tool, site, ruling))
            try:
                planned = await self.run.write(move)
            except LeaseHeld:
                return await self.run.write(effects.plan(self.run.holder, intent))
        if planned.state != EffectState.DISPATCHED:
            return planned
        self._fresh[intent.id] = planned
        return await self._act_and_settle(tool, self.context(intent.id, intent.idempotency_key, 1), arguments, site)

    async def begin_undo(
        self, undo: Tool[..., Any], intent: NewEffect, arguments: dict[str, Any], lane: ExecutionLane | None
    ) -> Effect:
        """Do an undo that nothing is recorded for. The policy allows it unless a rule is about undoing."""
        undo.signature.check_secrets(arguments)
        while True:
            ruling = await self.judgement.rule(undo, arguments, lane, "undo")
            ruling = await lift(self.run, ruling, undo.name, intent.id, intent.intent_digest)
            intent = under(intent, ruling)
            try:
                if ruling.answer == "allow":
                    return await self.run.see_through(self.plan_and_act(undo, intent, arguments, ruling))
                question = ruling.question and await self.with_details(undo, arguments, ruling.question)
                return await self.run.see_through(self._ask(intent, question, ruling))
            except PolicyChanged:
                self.judgement.outdated()

    async def dispatch_and_act(
        self, tool: Tool[..., Any], effect: Effect, why: str, ruling: Ruling = ALLOWED
    ) -> Effect:
        """Dispatch an effect that is on record, then act and settle."""
        if effect.state == EffectState.DISPATCHED:
            tool.signature.unbind(effect.intent)  # if it takes other arguments now, an earlier attempt stays unknown
        tool.signature.check_secrets(effect.intent)
        site = self.host.act_site(tool)
        await self._refresh_lease()
        move = effects.dispatch(self.run.holder, effect.id, self._dispatch(tool, site, ruling), because=why)
        if (number := await self.run.write(move)) is None:
            return await self.get(effect.id)
        context = self.context(effect.id, effect.idempotency_key, number)
        return await self._act_and_settle(tool, context, effect.intent, site)

    async def _act_and_settle(
        self, tool: Tool[..., Any], context: Call, arguments: dict[str, Any], site: ActSite
    ) -> Effect:
        """Lines 4 and 5. A lease that has run out meanwhile is proof that the act did not begin."""
        id, number = context.effect_id, context.attempt
        faults.point("act.before")
        if self.run.clock.boot() >= self.run.holder.boot_deadline or self.run.unwinding:
            error = encode({"code": NOT_BEGUN, "message": "The lease had ended, or the run was being left."})
            known = AttemptResult(outcome=AttemptOutcome.ABSENT, error=error)
        else:
            logger.debug("Session %s: effect %s (%s), attempt %s begins.", self._uid, id, tool.name, number)
            known = await self._act(tool, context, arguments, site)
            logger.debug("Session %s: effect %s, attempt %s ended: %s.", self._uid, id, number, known.outcome)
        return await self.settle(tool, id, number, known)

    async def _act(
        self, tool: Tool[..., Any], context: Call, arguments: dict[str, Any], site: ActSite
    ) -> AttemptResult:
        if tool.context.name is not None and tool.undoes is not None:
            undo = await self.get(context.effect_id)
            context.undoes = (await self.get(undo.position[1])).idempotency_key
        id, number = context.effect_id, context.attempt
        with site.enter(), hook.span(Kind.ATTEMPT, self._uid, tool.name, effect=id, attempt=number) as span:
            known = await act(self.run, tool, context, arguments)
            span.note(outcome=known.outcome)
        is_stopped = context.stopped_by is not None and not self.run.interruption.ends_turn
        if is_stopped and tool.replay is Replay.PURE and known.outcome is AttemptOutcome.UNKNOWN:
            return msgspec.structs.replace(known, outcome=AttemptOutcome.ABSENT)  # a program that is resumed repeats it
        if known.reference is None and known.result is not None and site.reference is not None:
            return msgspec.structs.replace(known, reference=site.reference(known.result, arguments))
        return known

    async def settle(self, tool: Tool[..., Any], id: str, number: int, known: AttemptResult) -> Effect:
        """Record the outcome of an attempt. If the store is away, keep it as a late outcome."""
        holder, fresh = self.run.holder, self._fresh.pop(id, None)
        if known.outcome is not AttemptOutcome.UNKNOWN and BROKEN_OFF:
            BROKEN_OFF.difference_update([one for one in list(BROKEN_OFF) if one[:2] == (self._uid, id)])
        try:
            kept = await self._small(known)
            move = effects.settle(
                self._uid, holder.name, id, number, kept, retry=tool.retry, holder=holder, known=fresh
            )  # fmt: skip
            return await self.run.store.write(move)
        except StoreError as error:
            keep_late_outcome((self._uid, id, number), known, tool.retry)
            logger.warning("Session %s: the outcome of effect %s waits for the store [%s].", self._uid, id, error.code)
            raise self.run.give_up(error) from error

    async def _run_and_record(
        self, tool: Tool[..., Any], intent: NewEffect, arguments: dict[str, Any], ruling: Ruling
    ) -> Effect:
        """Run a `pure` effect and record its outcome; one that raises runs again, up to `retry` times."""
        known, attempt, site = AttemptResult(outcome=AttemptOutcome.UNKNOWN), 0, self.host.act_site(tool)
        while known.outcome is not AttemptOutcome.ACKNOWLEDGED and attempt < tool.retry:
            self.run.check()
            if attempt and self.run.interruption.ends_turn:
                break
            attempt += 1
            context = self.context(intent.id, intent.idempotency_key, attempt)
            known = await self._act(tool, context, arguments, site)
            if known.outcome is AttemptOutcome.ABSENT:
                raise Suspended
        if known.outcome is AttemptOutcome.UNKNOWN:
            known = msgspec.structs.replace(known, outcome=AttemptOutcome.FAILED)
        try:
            known = await self._small(known)
        except StoreError as error:
            raise self.run.give_up(error) from error
        return await self.run.write(effects.record(self.run.holder, intent, self._dispatch(tool, site, ruling), known))

    async def act_inside_transaction(
        self,
        tool: Tool[..., Any],
        intent: NewEffect,
        arguments: dict[str, Any],
        planned: Effect | None,
        ruling: Ruling = ALLOWED,
    ) -> Effect:
        """Act inside the transaction that records it."""
        joint.check_store(self.run.store, tool)
        dispatch = self._dispatch(tool, self.host.act_site(tool), ruling)
        return await joint.act_and_record(self.run, tool, intent, arguments, dispatch, planned, self._in_order())

    def context(self, id: str, key: str, number: int) -> Call:
        report = ProgressReport(self.run.runtime.heartbeat, self.run.store, self.run.holder, id, number)
        return Call(key, number, self.run.session.id, id, report)

    def _dispatch(self, tool: Tool[..., Any], site: ActSite, ruling: Ruling) -> Dispatch:
        deadline = None if tool.timeout is None else self.run.clock.now() + tool.timeout
        return Dispatch(
            worker=self._worker.id, process=self._worker.process, deadline_at=deadline, sandbox=site.sandbox,
            exemptions=ruling.exemptions, policy_version=ruling.basis.version, rule=ruling.rule,
            fence=ruling.basis.fence,
        )  # fmt: skip

    def _in_order(self) -> AbstractAsyncContextManager[None]:
        """Plans commit in the order of the calls. One writer keeps the order by itself, and syncs once for many."""
        return nullcontext() if self._one_writer else self._order

    async def _refresh_lease(self) -> None:
        """Renew a lease that is about to end, so that a dispatch is not wasted on it."""
        holder, ttl, asked_at = self.run.holder, self.run.runtime.heartbeat.ttl, self.run.clock.boot()
        if holder.boot_deadline - asked_at < ttl // 10:
            await self.run.write(lease.renew(holder, ttl))
            holder.boot_deadline = asked_at + ttl

    async def _small(self, known: AttemptResult) -> AttemptResult:
        """An outcome whose result is small enough for a row."""
        if known.result is None or len(known.result) * 4 <= LIMIT:
            return known
        return await self.run.runtime.values.keep(self._uid, self.run.holder.name, known)

    async def stored(self, intent: NewEffect, arguments: dict[str, Any]) -> NewEffect:
        """An intent whose arguments are small enough for a row."""
        if len(intent.intent) * 4 <= LIMIT:
            return intent
        try:
            placed = await self.run.runtime.values.put_arguments(self._uid, self.run.holder.name, arguments)
        except StoreError as error:
            raise self.run.give_up(error) from error
        return msgspec.structs.replace(intent, intent=encode(placed))

    async def get(self, id: str) -> Effect:
        """An effect with its whole arguments."""
        return self.run.runtime.values.whole(await self.run.read(effects.get, self._uid, id))
