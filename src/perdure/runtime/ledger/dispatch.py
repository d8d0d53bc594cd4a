"""One effect, from its intent to what came of it.

    plan      the intent is in the ledger
    dispatch  the attempt is in the ledger, durable, before anything begins
    act       the lease's deadline once more on the boot clock; the tool runs and is given the key
    settle    what came of it, fenced by the attempt

From dispatch to settle nothing interrupts: a caller that is cancelled meanwhile hears of it afterwards. A known outcome
that the store could not take is owed, and paid as soon as the store is back (`payer`). A `pure` effect needs no intent:
it runs and is recorded. A `joint` one runs inside the transaction that records it.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from functools import partial
from typing import Any

import msgspec

from perdure import faults
from perdure.domain.effect import (
    NOT_BEGUN,
    AttemptOutcome,
    Effect,
    EffectState,
    Replay,
    idempotency_key,
    intent_digest,
)
from perdure.errors import ConfigError, LeaseHeld, PerdureError, StoreError
from perdure.ids import decode, encode
from perdure.runtime.definitions.tool import Call, Tool
from perdure.runtime.description import describe
from perdure.runtime.ledger.execution import ACTING, BROKEN_OFF, ThreadedAct, call, keep_late_outcome, outcome
from perdure.runtime.ledger.isolation import IsolatedFunction
from perdure.runtime.ledger.joint import JointRollback, act_inside
from perdure.runtime.ledger.policy import Policy
from perdure.runtime.run.large_values import LIMIT
from perdure.runtime.run.position import CallPosition
from perdure.runtime.run.run import Run
from perdure.store.move import Move, StoreTransaction, hold
from perdure.store.moves import doubt, lease
from perdure.store.moves import effect as effects
from perdure.store.moves import effect_input as intents

logger = logging.getLogger(__name__)


class Intent(intents.NewEffect, frozen=True, kw_only=True):
    """An intent with its arguments still open."""

    arguments: dict[str, Any]


class Dispatcher:
    """Plans, acts and settles for one run."""

    def __init__(self, run: Run, policy: Policy) -> None:
        self.run = run
        self._policy = policy
        self._uid = run.session.uid
        self._order = asyncio.Lock()
        self._fresh: dict[str, Effect] = {}  # what was dispatched for the first time and is not settled, as it then was
        self._one_writer = run.store.database.dialect == "sqlite"

    def intent(
        self, tool: Tool[..., Any], arguments: dict[str, Any], position: list[Any], *, generation: int = 0,
        supersedes: str | None = None,
    ) -> Intent:  # fmt: skip
        targets, leases = tool.targets_of(arguments), tool.leases_of(arguments)
        self.run.needs_leases |= bool(leases)
        key, rule = idempotency_key(self._uid, position, tool.name, arguments, generation), tool.rule
        return Intent(
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
            rule=self._policy.name,
            supersedes=supersedes,
            leases=encode(leases) if leases else None,
            arguments=arguments,
        )

    def _check_store(self, tool: Tool[..., Any]) -> None:
        """A tool's own tables need a database that keeps them; text files keep only ours."""
        if tool.replay is Replay.JOINT and not tool.wants_log and not self.run.store.database.keeps_other_tables:
            raise ConfigError(
                f"Tool {tool.name} is `joint`, and a files: store cannot keep the tables of a tool.",
                hint="Use a SQLite file or PostgreSQL for this program.",
            )

    def _at(self, position: CallPosition) -> list[Any]:
        return position.stored(self.run.session.restart_number)

    def _dispatch(self, tool: Tool[..., Any]) -> intents.Dispatch:
        deadline = None if tool.timeout is None else self.run.clock.now() + tool.timeout
        worker = self.run.runtime.worker
        return intents.Dispatch(worker=worker.id, process=worker.process, deadline_at=deadline)

    def _in_order(self) -> AbstractAsyncContextManager[None]:
        """Plans commit in the order of the calls. One writer keeps it by itself, and syncs once for many."""
        return nullcontext() if self._one_writer else self._order

    async def _plan_and_act(self, tool: Tool[..., Any], intent: Intent) -> Effect:
        """Plan, dispatch and act at once; only plan what may have happened before a restore, needs what is held, or
        belongs to a session that was asked to stop."""
        async with self._in_order():
            await self._refresh_lease()
            if self.run.restore is not None and tool.undoes is None:
                return await self.run.write(effects.plan(self.run.holder, intent))
            move = effects.plan_and_dispatch(self.run.holder, intent, self._dispatch(tool))
            try:
                planned = await self.run.write(move)
            except LeaseHeld:
                return await self.run.write(effects.plan(self.run.holder, intent))
        if planned.state != EffectState.DISPATCHED:
            return planned
        self._fresh[intent.id] = planned
        return await self._act(tool, intent.id, intent.idempotency_key, intent.arguments, 1)

    async def _dispatch_and_act(self, tool: Tool[..., Any], effect: Effect, why: str) -> Effect:
        if effect.state == EffectState.DISPATCHED:
            tool.signature.unbind(effect.intent)  # if it takes something else now, an earlier attempt stays unknown
        await self._refresh_lease()
        move = effects.dispatch(self.run.holder, effect.id, self._dispatch(tool), because=why)
        if (number := await self.run.write(move)) is None:
            return await self._get(effect.id)
        return await self._act(tool, effect.id, effect.idempotency_key, effect.intent, number)

    async def _act(self, tool: Tool[..., Any], id: str, key: str, arguments: dict[str, Any], number: int) -> Effect:
        """Act and settle. A lease that has run out meanwhile is proof that the act did not begin."""
        faults.point("act.before")
        if self.run.clock.boot() >= self.run.holder.boot_deadline or self.run.unwinding:
            error = encode({"code": NOT_BEGUN, "message": "The lease had ended, or the run was being left."})
            known = intents.AttemptResult(outcome=AttemptOutcome.ABSENT, error=error)
        else:
            logger.debug("Session %s: effect %s (%s), attempt %s begins.", self._uid, id, tool.name, number)
            known = await self._call(tool, id, key, arguments, number)
            logger.debug("Session %s: effect %s, attempt %s ended: %s.", self._uid, id, number, known.outcome)
        return await self._settle(tool, id, number, known)

    async def _settle(self, tool: Tool[..., Any], id: str, number: int, known: intents.AttemptResult) -> Effect:
        """Write down what came of an attempt; if the store is away, owe it."""
        values, holder, fresh = self.run.runtime.values, self.run.holder, self._fresh.pop(id, None)
        if known.outcome is not AttemptOutcome.UNKNOWN and BROKEN_OFF:
            BROKEN_OFF.difference_update([one for one in list(BROKEN_OFF) if one[:2] == (self._uid, id)])
        try:
            kept = await values.keep(self._uid, holder.name, known)
            move = effects.settle(
                self._uid, holder.name, id, number, kept, retry=tool.retry, holder=holder, known=fresh
            )  # fmt: skip
            return await self.run.store.write(move)
        except StoreError as error:
            keep_late_outcome((self._uid, id, number), known, tool.retry)
            logger.warning("Session %s: the outcome of effect %s waits for the store [%s].", self._uid, id, error.code)
            raise self.run.give_up(error) from error

    async def _call(
        self, tool: Tool[..., Any], id: str, key: str, arguments: dict[str, Any], number: int
    ) -> intents.AttemptResult:
        attempt = (self._uid, id, number)
        try:
            opened = tool.signature.unbind(arguments)
        except Exception as error:  # the tool takes something else now: it did not begin, and that is certain
            return intents.AttemptResult(outcome=AttemptOutcome.FAILED, error=describe(error))
        given = self._given(id, key, number)
        if tool.wants_call and tool.undoes is not None:
            given.undoes = await self._undone(id)
        noted = None if tool.replay is Replay.PURE else partial(self._note_overrun, id, number)
        faults.point("act.begun")
        is_async = tool.signature.is_async and tool.isolate is None
        function = tool.function if is_async else self._in_thread(tool, attempt, given, arguments)
        timeout = tool.timeout if tool.isolate is None else None  # a process is stopped by its own thread
        ACTING.add(attempt)
        try:
            first = (given,) if tool.wants_call else ()
            ended = await call(function, is_async, timeout, noted, *first, **opened)
        except BaseException:
            if isinstance(function, ThreadedAct):
                function.leave()  # the loop ends, and the thread goes on
            else:
                BROKEN_OFF.add(attempt)
                ACTING.discard(attempt)
            raise
        known = outcome(tool, ended, given.given_reference)
        if not known.over and tool.replay is not Replay.PURE:
            BROKEN_OFF.add(attempt)
        ACTING.discard(attempt)
        faults.point("act.after")
        return known

    async def _note_overrun(self, id: str, number: int, overrun: TimeoutError) -> None:
        """Say that an attempt is overdue. It is only a note: what comes of it is settled when it has ended."""
        logger.warning("Session %s: effect %s, attempt %s is past its time limit.", self._uid, id, number)
        with suppress(PerdureError):
            move = doubt.record_overrun(self._uid, self.run.holder.name, id, number, error=describe(overrun))
            await self.run.store.write(move)

    def _in_thread(
        self, tool: Tool[..., Any], attempt: tuple[str, str, int], given: Call, arguments: dict[str, Any]
    ) -> ThreadedAct:
        if tool.isolate is None:
            return ThreadedAct(tool, tool.function, attempt, given)
        return ThreadedAct(
            tool, IsolatedFunction(tool, given, arguments, self.run.runtime.worker.pass_fds), attempt, given
        )

    def _given(self, id: str, key: str, number: int) -> Call:
        heart, holder = self.run.runtime.heartbeat, self.run.holder
        return Call(key, number, self.run.session.id, id, lambda: heart.renew(holder))

    async def _refresh_lease(self) -> None:
        """Renew a lease that is about to end, so that a dispatch is not wasted on it."""
        holder, heart, asked_at = self.run.holder, self.run.runtime.heartbeat, self.run.clock.boot()
        if holder.boot_deadline - asked_at < heart.ttl // 10:
            await self.run.write(lease.renew(holder, heart.ttl))
            holder.boot_deadline = asked_at + heart.ttl

    async def _pure(self, tool: Tool[..., Any], intent: Intent) -> Effect:
        """Run, and record what came of it; what raises is run again, up to `retry` times."""
        known, attempt = intents.AttemptResult(outcome=AttemptOutcome.UNKNOWN), 0
        while known.outcome is not AttemptOutcome.ACKNOWLEDGED and attempt < tool.retry:
            self.run.check()
            attempt += 1
            known = await self._call(tool, intent.id, intent.idempotency_key, intent.arguments, attempt)
        if known.outcome is AttemptOutcome.UNKNOWN:
            known = msgspec.structs.replace(known, outcome=AttemptOutcome.FAILED)
        known = await self._keep(known)
        return await self.run.write(effects.record(self.run.holder, intent, self._dispatch(tool), known))

    async def _joint(self, tool: Tool[..., Any], intent: Intent, planned: Effect | None) -> Effect:
        """Act inside the transaction that records it. A rollback is proof that nothing happened."""
        self._check_store(tool)
        arguments, dispatch = tool.signature.unbind(intent.arguments), self._dispatch(tool)

        def run(tx: StoreTransaction) -> Effect:
            log = hold(tx, self.run.holder)
            if effects.is_held_back(log, decode(intent.position)):
                done = planned or effects.plan.on(log, intent)
            elif planned is None:
                done = effects.record.on(log, intent, dispatch, act_inside(tool, log, arguments))
            else:
                done = effects.dispatch_and_settle.on(log, intent.id, dispatch, act_inside(tool, log, arguments))
            log.close()
            return done

        try:
            async with self._in_order():
                return await self.run.write(Move("effect.joint", "holder", run))
        except JointRollback as rolled_back:
            cause = rolled_back.__cause__
            assert cause is not None
            failed = intents.AttemptResult(outcome=AttemptOutcome.FAILED, error=describe(cause))
            holder = self.run.holder
            if planned is None:
                return await self.run.write(effects.record(holder, intent, dispatch, failed))
            return await self.run.write(effects.dispatch_and_settle(holder, intent.id, dispatch, failed))

    async def _keep(self, known: intents.AttemptResult) -> intents.AttemptResult:
        try:
            return await self.run.runtime.values.keep(self._uid, self.run.holder.name, known)
        except StoreError as error:
            raise self.run.give_up(error) from error

    async def _undone(self, id: str) -> str:
        """The key of what the undo `id` takes back."""
        return (await self._get((await self._get(id)).position[1])).idempotency_key

    async def _get(self, id: str) -> Effect:
        return self.run.runtime.values.whole(await self.run.read(effects.get, self._uid, id))

    async def _placed(self, intent: Intent) -> Intent:
        """An intent whose arguments are small enough for a row."""
        if len(intent.intent) * 4 <= LIMIT:
            return intent
        try:
            placed = await self.run.runtime.values.put_arguments(self._uid, self.run.holder.name, intent.arguments)
        except StoreError as error:
            raise self.run.give_up(error) from error
        return msgspec.structs.replace(intent, intent=encode(placed))
