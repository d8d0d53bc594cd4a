"""The recovery plan: what a run would do with each unsettled effect, and why; nothing is done.

The decision comes from the same functions that a run uses (`domain.recovery_decision`), on the same evidence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from perdure.domain.effect import PRESUMED, Attempt, Effect, EffectState
from perdure.domain.recovery_decision import (
    Action,
    Evidence,
    GateFinding,
    RecoveryDecision,
    awaits_approval,
    binding_rule,
    interrupted,
    is_due,
    open_attempts,
    permit,
    recover,
)
from perdure.domain.restore import Restore, presumed_attempt
from perdure.domain.session import SessionRecord
from perdure.domain.worker import Liveness, combined
from perdure.runtime.definitions.program import PROGRAMS
from perdure.runtime.definitions.tool import TOOLS, Tool
from perdure.runtime.ledger.exemptions import lift_in
from perdure.runtime.ledger.policy import Basis, Policy, rule_on
from perdure.runtime.policy.active_policy import state_in
from perdure.runtime.policy.call_facts import CallSite, facts_of, folder_of
from perdure.runtime.policy.call_judgement import NOTHING
from perdure.runtime.policy.objections import OwnPolicy, Sources, objections_to
from perdure.runtime.policy.repository_policy import recorded
from perdure.runtime.run.lineage import newest, was_cancelled
from perdure.runtime.run.records import line_of
from perdure.store.move import StoreTransaction
from perdure.store.moves import approval, doubt, interrupt, lease, restore
from perdure.store.moves import effect as effects
from perdure.store.moves import session as sessions
from perdure.store.moves.attempt import attempts_of

LifeOf = Callable[[Attempt], Liveness]
Whole = Callable[[Effect], Effect]


class RecoveryStep(msgspec.Struct, frozen=True):
    """What a run would do with one effect."""

    effect_id: str
    tool: str
    state: str
    attempts: int
    action: str
    why: str
    not_before: int | None


def plan(
    tx: StoreTransaction, uid: str, life_of: LifeOf, policy: Policy, whole: Whole = lambda effect: effect
) -> list[RecoveryStep]:
    """The recovery plan of a session; reads only. `life_of` tells whether an attempt may still be under way, and
    `whole` opens arguments that are not in their row."""
    session = sessions.get(tx, uid)
    sources = Sources(state_in(tx), policy, _own_policy(session), recorded(tx, session))
    own = [_for(tx, whole(effect), session, sources, life_of) for effect in doubt.unfinished(tx, uid)]
    return own + _of_line(tx, session)


def _for(
    tx: StoreTransaction, effect: Effect, session: SessionRecord, sources: Sources, life_of: LifeOf
) -> RecoveryStep:
    attempts = attempts_of(tx, effect.session_uid, effect.id)
    tool = TOOLS.get(effect.tool)
    if session.policy_at is not None and not sources.code.is_given:
        return _say(effect, attempts, "wait for policy", "The session was started under a policy; there is none here.")
    if tool is None:
        return _say(effect, attempts, "wait for code", f"No tool named {effect.tool} is loaded here.")
    if effect.undo_requested_at is not None:
        why = f"{effect.undo_by} asks to take it back: {effect.undo_because}"
        return _say(effect, attempts, Action.UNDO, why)
    stopping, rule = session.cancel_requested_at is not None, binding_rule(effect, tool.rule)
    if (by := _interrupter(tx, session)) is not None and effect.position[0] != "undo":
        return _as_found(effect, tool, attempts, interrupted(effect, rule, by))
    asked = None if effect.approval_id is None else approval.get(tx, effect.session_uid, effect.approval_id)
    if asked is not None and awaits_approval(effect, asked, stopping):
        why = f"The gate {asked.gate} asks, and approval {asked.id} is undecided."
        return _say(effect, attempts, Action.WAIT_FOR_APPROVAL, why)
    evidence = _evidence(attempts, life_of, tx.now, restore.unreleased_for(tx, session.uid), stopping)
    decision = recover(effect, evidence, rule)
    if decision.action is Action.PRESUME and evidence.restore is not None:  # what follows from it is what matters
        attempts = [*evidence.attempts, presumed_attempt(effect, attempts, evidence.restore, tx.now)]
        evidence = msgspec.structs.replace(evidence, attempts=attempts)
        effect = msgspec.structs.replace(effect, state=EffectState.DISPATCHED, doubted_at=None, verdict=None)
        decision = recover(effect, evidence, rule)
    attempts = evidence.attempts
    if is_due(decision, tx.now):
        held = lease.blocking_lease(tx, effect)
        if not sources.state.is_usable and tool.reach != NOTHING:
            return _say(effect, attempts, "wait for policy", sources.state.error or "")
        gate = _gate_finding(tx, effect, tool, session, sources)
        permitted = permit(effect, decision, gate, None if held is None else held.message)
        if permitted is not decision:
            return _say(effect, attempts, permitted.action, permitted.why)
    return _as_found(effect, tool, attempts, decision)


def _own_policy(session: SessionRecord) -> OwnPolicy | None:
    """The policy of the session's agent, if its code is loaded here."""
    program = PROGRAMS.get(session.program)
    return None if program is None else program.own_policy(session)


def _interrupter(tx: StoreTransaction, session: SessionRecord) -> str | None:
    """Who interrupted the turn of an agent that has not ended yet."""
    program = PROGRAMS.get(session.program)
    return interrupt.pending(tx, session.uid) if program is not None and program.reads_messages else None


def _as_found(
    effect: Effect, tool: Tool[..., Any], attempts: list[Attempt], decision: RecoveryDecision
) -> RecoveryStep:
    """A decision; a person is asked about what may have outlived its worker only if it is not found."""
    if decision.action is Action.ASK and tool.outlives_worker and effect.doubted_at is None:
        why = "It may have outlived its worker: it is looked for, and a person is asked only if it is not found."
        return _say(effect, attempts, "look for it", why)
    why = decision.why + _last_word(attempts, decision.action)
    return _say(effect, attempts, decision.action, why, decision.not_before)


def _evidence(attempts: list[Attempt], life_of: LifeOf, now: int, over: Restore | None, stopping: bool) -> Evidence:
    """The evidence as a run would take it: it would note now that a process is dead."""
    lives = {one.number: life_of(one) for one in open_attempts(attempts)}
    dead = {number for number, life in lives.items() if life is Liveness.DEAD}
    found = [msgspec.structs.replace(one, ended_at=now) if one.number in dead else one for one in attempts]
    return Evidence(found, now, combined(list(lives.values())), over, stopping)


def _gate_finding(
    tx: StoreTransaction, effect: Effect, tool: Tool[..., Any], session: SessionRecord, sources: Sources
) -> GateFinding:
    """What a run would find; where the tool would act is known only to a run, so the plan takes it as unlimited."""
    site = CallSite(folder=folder_of(session), model=session.model, cost=session.cost_micros)
    facts = facts_of(tool, effect.intent, session, site, "undo" if effect.position[0] == "undo" else "do")
    found, allowed_by = objections_to(tool, effect.intent, facts, session, sources)
    basis = Basis(rule=allowed_by, requester=session.owner or session.id, now=tx.now)
    ruling = lift_in(tx, rule_on(found, basis), session, tool.name, effect.id, effect.intent_digest)
    return approval.gate_finding(tx, effect, ruling.answer, ruling.why, ruling.question)


def _of_line(tx: StoreTransaction, session: SessionRecord) -> list[RecoveryStep]:
    """What a branch would do about the effects of its line: wait for those unsettled at the fork, and do without those
    that were planned after it."""
    found = []
    for one, after, through in line_of(tx, session):
        if one.uid == session.uid:
            continue
        for effect in effects.of_session(tx, one.uid, after=after):
            if effect.position[0] == "undo" or effect.state == EffectState.SUPERSEDED:
                continue
            attempts = attempts_of(tx, one.uid, effect.id)
            if effect.number > through:
                why = f"Session {one.id} planned it after event {through}, where this branch begins."
                found.append(_say(effect, attempts, "not inherited", why))
            elif newest(tx, effect)[1]:
                why = f"It belongs to session {one.id}; the branch waits for its outcome."
                found.append(_say(effect, attempts, "wait for its session", why))
            elif was_cancelled(effect):
                why = f"It was refused when session {one.id} was; the branch plans its own."
                found.append(_say(effect, attempts, "plan anew", why))
    return found


def _say(effect: Effect, attempts: list[Attempt], action: str, why: str, not_before: int | None = None) -> RecoveryStep:
    return RecoveryStep(effect.id, effect.tool, effect.state, len(attempts), action, why, not_before)


def _last_word(attempts: list[Attempt], action: Action) -> str:
    if not attempts or action in (Action.DISPATCH, Action.REFUSE):
        return ""
    last = attempts[-1]
    if last.worker == PRESUMED:
        return " The store was put back to an earlier time, and it may have been done before."
    if last.outcome is not None:
        return f" Attempt {last.number} ended with an unknown outcome."
    return f" Worker {last.worker} ended in the middle of attempt {last.number}." if last.ended_at else ""
