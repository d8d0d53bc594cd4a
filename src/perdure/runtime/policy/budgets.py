"""Budgets at run time: before each call the sums are read, and a session whose budget is used up waits or ends.

    look     the sums of the budgets that a call could exceed, in one transaction
    ask      the session waits for `budget`, until the next day if the budget is for a day
    stop     the call is recorded as refused by the rule `budget:NAME`, and `PolicyDenied` ends the session unless its
             program handles it
    resume   a new version of the policy, an exemption from `budget:NAME`, or the next day: workers resolve the wait

Looking again after the wait was committed closes the gap: a policy or an exemption that came in between is seen here,
or the process that brought it sees the wait. Usage is recorded in the commit of each call, so a kill loses no count
and repeats none; a call that was killed before its answer was recorded is not counted.
"""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.domain.exemption import BUDGET, ExemptionScope
from perdure.domain.policy import Budget
from perdure.domain.session import SessionRecord
from perdure.domain.wait import Wait, WaitKind
from perdure.errors import PolicyDenied
from perdure.runtime.policy.active_policy import PolicyState, state_in
from perdure.runtime.policy.policy_wait import usable_policy
from perdure.runtime.run.position import ExecutionLane
from perdure.runtime.run.run import Run
from perdure.store.move import Log, StoreTransaction, holder_move
from perdure.store.moves import budget, exemption, refusal, wait
from perdure.store.moves import session as sessions
from perdure.store.moves.effect_input import NewEffect

FEW = 10_000  # waits that are looked at
MODEL = "model"

Reached = tuple[Budget, int]


async def affordable_policy(
    run: Run, lane: ExecutionLane | None, reach: str, *, is_pure: bool = False, reaches_nothing: bool = False
) -> PolicyState:
    """The active policy, once it allows dispatches and no budget stands against a call of this reach."""
    while True:
        state = await usable_policy(run, lane, is_pure=is_pure, reaches_nothing=reaches_nothing)
        budgets = limiting(state, reach)
        if not budgets or (found := await run.read(reached, budgets, run.session)) is None:
            return state
        if found[0].answer == "stop":
            raise PolicyDenied(_why(*found), budget=found[0].name, policy_version=str(state.version))
        run.check()
        opened = await run.write(_open(run.holder, found[0], _why(*found)))
        state = await run.runtime.active_policy.now(run.read, younger_than=0)
        budgets = limiting(state, reach)
        if state.is_usable and (not budgets or await run.read(reached, budgets, run.session) is None):
            await run.runtime.requests.resolve(opened, None, run.runtime.worker.name)
        await run.wait_for(opened.id, lane)


async def record_stop(run: Run, intent: NewEffect, denied: PolicyDenied) -> None:
    """Record the call that a budget has stopped, for those who ask later what controls caught."""
    if (name := denied.details.get("budget")) is not None:
        version = denied.details.get("policy_version")
        intent = msgspec.structs.replace(intent, rule=f"{BUDGET}{name}", policy_version=version)
        await run.write(refusal.refuse(run.holder, intent, denied.message, None))


def waits_within_budget(tx: StoreTransaction) -> list[Wait]:
    """The open waits for a budget that is not used up any more: it was raised, removed or lifted."""
    found = wait.open_waits(tx, kind=WaitKind.BUDGET, limit=FEW)
    if not found or not (state := state_in(tx)).is_usable:
        return []
    return [one for one in found if not _holds(tx, state, one)]


def is_within(tx: StoreTransaction, asked: Wait) -> bool:
    """Whether a wait for a budget is over."""
    state = state_in(tx)
    return state.is_usable and not _holds(tx, state, asked)


def _holds(tx: StoreTransaction, state: PolicyState, asked: Wait) -> bool:
    """Whether the budget that a session waits for is still used up."""
    name = (asked.ref or "").removeprefix(BUDGET)
    listed = () if state.document is None else state.document.budgets
    budgets = tuple(one for one in listed if one.name == name)
    return reached(tx, budgets, sessions.get(tx, asked.session_uid)) is not None


def limiting(state: PolicyState, reach: str) -> tuple[Budget, ...]:
    """The budgets that a call could exceed. What only changes the record is never limited."""
    if state.document is None or reach == "none":
        return ()
    return tuple(one for one in state.document.budgets if _is_limited(one, reach))


def _is_limited(one: Budget, reach: str) -> bool:
    if one.of == "effects":
        return reach != MODEL and (not one.reach or reach in one.reach)
    return one.of == "time" or reach == MODEL


def reached(tx: StoreTransaction, budgets: tuple[Budget, ...], session: SessionRecord) -> Reached | None:
    """The first budget that is used up, and that no exemption lifts."""
    for one in budgets:
        if (found := budget.first_reached(tx, (one,), session)) is not None and not _is_lifted(tx, one, session):
            return found
    return None


def _is_lifted(tx: StoreTransaction, one: Budget, session: SessionRecord) -> bool:
    scope = ExemptionScope(
        session_uid=session.uid, repository=session.repository_id, owner=session.owner, tool=None, intent_digest=None
    )
    grantor: exemption.Grantor = "owner" if one.answer == "stop" else "given"
    return bool(exemption.lifting(tx, [(f"{BUDGET}{one.name}", grantor)], scope, ""))


@holder_move
def _open(log: Log, reached: Budget, why: str) -> Wait:
    """Wait for a budget; the calls of a session that it stops share one wait."""
    ref = f"{BUDGET}{reached.name}"
    there = [one for one in wait.open_for(log.tx, log.uid, ref) if one.kind == WaitKind.BUDGET]
    if there:
        return there[0]
    detail: dict[str, Any] = {"why": why, "budget": reached.name}
    due_at = budget.next_day(log.tx.now) if reached.per in budget.DAILY else None
    return wait.open_.on(log, f"budget-{log.cursor}", WaitKind.BUDGET, ref=ref, detail=detail, due_at=due_at)


def _why(reached: Budget, used: int) -> str:
    shown = {"cost": f"${used / budget.MICROS:,.2f}", "time": f"{used // 1_000_000:,} s"}.get(reached.of, f"{used:,}")
    limit = {"cost": f"${reached.limit:,.2f}", "time": f"{reached.limit:,.0f} s"}.get(
        reached.of, f"{reached.limit:,.0f}"
    )
    said = f"The budget {reached.name} is used up: {shown} of {limit} {_UNITS[reached.of]} per {reached.per}."
    return f"{said} {reached.reason}".rstrip()


_UNITS = {"cost": "in all", "time": "in all", "tokens": "tokens", "turns": "turns", "effects": "effects"}
