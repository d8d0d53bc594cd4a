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
from perdure.errors import LeaseHeld, StoreError, Suspended
from perdure.ids import encode
from perdure.runtime.definitions.tool import Call, Tool
from perdure.runtime.ledger import joint
from perdure.runtime.ledger.attempt_registry import BROKEN_OFF, keep_late_outcome
from perdure.runtime.ledger.execution import act
from perdure.runtime.ledger.host import ActSite, Host, ProgramHost
from perdure.runtime.ledger.progress_report import ProgressReport
from perdure.runtime.recovery.recovery import Recovery
from perdure.runtime.run.large_values import LIMIT
from perdure.runtime.run.position import ExecutionLane
from perdure.runtime.run.run import Run
from perdure.store.moves import approval, lease
from perdure.store.moves import effect as effects
from perdure.store.moves.approval import ApprovalRequest
from perdure.store.moves.effect_input import AttemptResult, Dispatch, NewEffect

logger = logging.getLogger(__name__)


class Ledger:
    """The effects of one run."""

    def __init__(self, run: Run, host: Host | None = None) -> None:
        self.run = run
        self.host: Host = host or ProgramHost(run)
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
        ruling, intent = self.host.rule(tool, arguments), await self.stored(intent, arguments)
        if ruling.answer != "allow":
            question = ruling.question and await self.with_details(tool, arguments, ruling.question)
            effect = await self.run.see_through(self._ask(intent, question, ruling.why))
        elif tool.replay is Replay.PURE:
            return await self.run.see_through(self._run_and_record(tool, intent, arguments))
        elif tool.replay is Replay.JOINT:
            effect = await self.run.see_through(self.act_inside_transaction(tool, intent, arguments, None))
            if effect.state in SETTLED:
                return effect
        else:
            effect = await self.run.see_through(self.plan_and_act(tool, intent, arguments))
        if effect.state == EffectState.ACKNOWLEDGED:
            self.run.wake_branches(effect, at_once=False)
            return effect
        return await self.recovery.drive(tool, effect, lane, fresh=True)

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
        self.run.needs_leases |= bool(leases)
        key, rule = idempotency_key(self._uid, position, tool.name, arguments, generation), tool.rule
        return NewEffect(
            id="e-" + key[:16],
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
            rule=self.run.runtime.policy.name,
            supersedes=supersedes,
            leases=encode(leases) if leases else None,
        )

    async def with_details(
        self, tool: Tool[..., Any], arguments: dict[str, Any], question: ApprovalRequest
    ) -> ApprovalRequest:
        """The request, with what helps a person to judge the call."""
        about = await self.host.details_for_approval(tool, arguments)
        return msgspec.structs.replace(question, about=about)

    async def _ask(self, intent: NewEffect, question: ApprovalRequest | None, why: str) -> Effect:
        """Plan it, and ask for approval or refuse it."""
        async with self._in_order():
            if question is not None:
                return await self.run.write(approval.request(self.run.holder, intent, question))
            planned = await self.run.write(effects.plan(self.run.holder, intent))
            if planned.state != EffectState.PLANNED:
                return planned
            return await self.run.write(effects.refuse(self.run.holder, planned.id, "policy-denied", why))

    async def plan_and_act(self, tool: Tool[..., Any], intent: NewEffect, arguments: dict[str, Any]) -> Effect:
        """Plan and dispatch in one transaction, then act and settle.

        It is only planned if it may have happened before a restore, if another effect holds a lease that it needs, or
        if the session was asked to stop.
        """
        site = self.host.act_site(tool)
        async with self._in_order():
            await self._refresh_lease()
            if tool.undoes is None and await self.run.unreleased_restore() is not None:
                return await self.run.write(effects.plan(self.run.holder, intent))
            move = effects.plan_and_dispatch(self.run.holder, intent, self._dispatch(tool, site))
            try:
                planned = await self.run.write(move)
            except LeaseHeld:
                return await self.run.write(effects.plan(self.run.holder, intent))
        if planned.state != EffectState.DISPATCHED:
            return planned
        self._fresh[intent.id] = planned
        return await self._act_and_settle(tool, self.context(intent.id, intent.idempotency_key, 1), arguments, site)

    async def dispatch_and_act(self, tool: Tool[..., Any], effect: Effect, why: str) -> Effect:
        """Dispatch an effect that is on record, then act and settle."""
        if effect.state == EffectState.DISPATCHED:
            tool.signature.unbind(effect.intent)  # if it takes other arguments now, an earlier attempt stays unknown
        site = self.host.act_site(tool)
        await self._refresh_lease()
        move = effects.dispatch(self.run.holder, effect.id, self._dispatch(tool, site), because=why)
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
        with site.enter():
            known = await act(self.run, tool, context, arguments)
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

    async def _run_and_record(self, tool: Tool[..., Any], intent: NewEffect, arguments: dict[str, Any]) -> Effect:
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
        return await self.run.write(effects.record(self.run.holder, intent, self._dispatch(tool, site), known))

    async def act_inside_transaction(
        self, tool: Tool[..., Any], intent: NewEffect, arguments: dict[str, Any], planned: Effect | None
    ) -> Effect:
        """Act inside the transaction that records it."""
        joint.check_store(self.run.store, tool)
        dispatch = self._dispatch(tool, self.host.act_site(tool))
        return await joint.act_and_record(self.run, tool, intent, arguments, dispatch, planned, self._in_order())

    def context(self, id: str, key: str, number: int) -> Call:
        report = ProgressReport(self.run.runtime.heartbeat, self.run.store, self.run.holder, id, number)
        return Call(key, number, self.run.session.id, id, report)

    def _dispatch(self, tool: Tool[..., Any], site: ActSite) -> Dispatch:
        deadline = None if tool.timeout is None else self.run.clock.now() + tool.timeout
        return Dispatch(
            worker=self._worker.id, process=self._worker.process, deadline_at=deadline, sandbox=site.sandbox
        )

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
        return self.run.runtime.values.whole(await self.run.read(effects.get, self._uid, id))
