"""Recovery: what may be done with an effect, given what is known of it. This is the replay table of the design.

These pure functions decide, and nothing else does. A run and the recovery plan that is shown before it call them in the
same order, on the same evidence, so they reach the same decision:

    awaits_approval   the effect is planned, and its approval is undecided: wait
    recover           the replay table
    permit            what policy, gate and leases allow now, for a dispatch that is due
    interrupted       instead of these, for the effects of a turn that a person interrupted

Three things are easy to get wrong, and each has its place here:

    when     evidence counts from the moment it was asked for. A probe that looked early and answered late, because it
             was slow or the machine was suspended, is an early look: `Evidence.at` is taken before the question.
    whose    the rule that was recorded with the plan and the rule of the loaded code may differ; the stricter of the
             two decides (`binding_rule`).
    ended    an absence and an undo count only `inflight` after every act that may have been made is known to have
             ended. Nothing acts beside an attempt that is known to be under way.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from perdure.clock import SECOND
from perdure.domain.approval import Approval
from perdure.domain.effect import (
    PRESUMED,
    SETTLED,
    Attempt,
    AttemptOutcome,
    Effect,
    EffectState,
    Replay,
    Rule,
    Verdict,
    attempts_allowed,
    attempts_made,
)
from perdure.domain.restore import Restore, may_have_happened
from perdure.domain.worker import Liveness


class Action(StrEnum):
    """What recovery does with an effect."""

    NOTHING = "nothing"
    DISPATCH = "dispatch"
    RUN_AGAIN = "run again"
    PROBE = "probe"
    UNDO = "undo"
    PRESUME = "presume"
    FAIL = "fail"
    ASK = "ask"
    REFUSE = "refuse"
    ASK_FOR_APPROVAL = "ask for approval"
    WAIT_FOR_APPROVAL = "wait for approval"
    WAIT_FOR_LEASE = "wait for lease"


class RecoveryDecision(msgspec.Struct, frozen=True):
    """An action, not before a time, and the reason in one sentence."""

    action: Action
    why: str
    not_before: int | None = None


class Evidence(msgspec.Struct, frozen=True):
    """What is known of an effect, as of `at`: for a probe's answer, the moment the probe was asked.

    `life` is that of the processes of attempts that are not known to have ended (`unended`): alive if one of them is
    alive, dead if all are. `stopping`: the session was asked to stop.
    """

    attempts: list[Attempt]
    at: int
    life: Liveness = Liveness.CANNOT_TELL
    restore: Restore | None = None
    stopping: bool = False


class GateFinding(msgspec.Struct, frozen=True):
    """What policy and gate say about an intent now. `must_ask`: it needs an approval that it does not have."""

    answer: str = "allow"
    why: str = ""
    must_ask: bool = False


STRICTNESS = {Replay.PURE: 0, Replay.IDEMPOTENT: 1, Replay.PROBE: 2, Replay.COMPENSATE: 2, Replay.ESCALATE: 3}


def binding_rule(effect: Effect, loaded: Rule) -> Rule:
    """The stricter of the rule recorded with the plan and the rule of the loaded code."""
    ttls = [ttl for ttl in (effect.key_ttl, loaded.key_ttl) if ttl is not None]
    rule = Rule(
        _stricter(Replay(effect.replay), loaded),
        max(effect.inflight or 0, loaded.inflight),
        attempts_allowed(effect, loaded.retry),
        min(ttls, default=None),
        loaded.can_probe,
        loaded.can_undo,
    )
    return msgspec.structs.replace(rule, note=_difference(effect, loaded, rule))


def _stricter(recorded: Replay, loaded: Rule) -> Replay:
    said = {recorded, loaded.replay}
    if len(said) > 1 and (Replay.JOINT in said or said == {Replay.PROBE, Replay.COMPENSATE}):
        return Replay.ESCALATE
    strict = max(said, key=lambda one: STRICTNESS.get(one, 0))
    lacks_probe = strict is Replay.PROBE and not loaded.can_probe
    lacks_undo = strict is Replay.COMPENSATE and not loaded.can_undo
    return Replay.ESCALATE if lacks_probe or lacks_undo else strict


def _difference(effect: Effect, loaded: Rule, rule: Rule) -> str:
    """How the record and the code differ and which applies, for readers of the plan or the log."""
    if effect.replay != loaded.replay:
        both = f"It was planned as {effect.replay}, and the loaded code says {loaded.replay}"
        return f" {both}: {rule.replay} counts."
    changed = [name for name in ("inflight", "key_ttl", "retry") if getattr(rule, name) != getattr(loaded, name)]
    return f" Its {' and '.join(changed)} as recorded with the plan counts: it is stricter." if changed else ""


def open_attempts(attempts: list[Attempt]) -> list[Attempt]:
    """The attempts that may be under way for all the ledger knows; of the older ones, a verdict closes each."""
    return [
        one
        for one in attempts
        if one.ended_at is None and (one is attempts[-1] or one.outcome in (None, AttemptOutcome.UNKNOWN))
    ]


def recover(effect: Effect, evidence: Evidence, rule: Rule) -> RecoveryDecision:
    """The replay table: what the last durable state of an effect allows.

    While the session is being stopped nothing is dispatched, run again or planned anew; probes and undos are not
    affected.
    """
    if effect.state in SETTLED:
        return RecoveryDecision(Action.NOTHING, f"It is {effect.state}; its outcome is returned as recorded.")
    stopping = evidence.stopping and effect.position[0] != "undo"
    if effect.state == EffectState.PLANNED and stopping:
        return RecoveryDecision(Action.REFUSE, "The session was asked to stop, and it has not begun.")
    if evidence.restore is not None and may_have_happened(effect, evidence.attempts, evidence.restore, rule):
        return RecoveryDecision(Action.PRESUME, "The store was put back; it may have been done before.")
    if effect.state == EffectState.PLANNED:
        return _planned(effect, evidence, rule)
    if effect.verdict is None and effect.doubted_at is not None:
        return RecoveryDecision(Action.ASK, effect.doubt or "Its outcome is unknown.")
    course = _unknown(evidence, rule, stopping)
    return msgspec.structs.replace(course, why=course.why + rule.note)


def _planned(effect: Effect, evidence: Evidence, rule: Rule) -> RecoveryDecision:
    if not evidence.attempts:
        return RecoveryDecision(Action.DISPATCH, "It was planned and never dispatched.")
    if effect.verdict != Verdict.ABSENT:
        return RecoveryDecision(Action.DISPATCH, "It is known not to have happened, and attempts are left.")
    why, last = f"{effect.verdict_by} says that it did not happen.", evidence.attempts[-1]
    if open_attempts(evidence.attempts) and evidence.life is Liveness.CANNOT_TELL:
        return RecoveryDecision(Action.DISPATCH, why, (last.settled_at or evidence.at) + rule.inflight)
    return _counted(Action.DISPATCH, evidence, rule, why)


def _unknown(evidence: Evidence, rule: Rule, stopping: bool) -> RecoveryDecision:
    """It was dispatched, and its outcome is not known."""
    last = evidence.attempts[-1]
    match rule.replay:
        case Replay.PURE:
            return _unless_under_way(_pure(evidence, rule, stopping), evidence, rule)
        case Replay.IDEMPOTENT:
            return _unless_under_way(_idempotent(evidence, rule, stopping), evidence, rule)
        case Replay.PROBE:
            return RecoveryDecision(Action.PROBE, "Its outcome is unknown; the probe is asked.")
        case Replay.COMPENSATE:
            then = "" if stopping else ", and then planned anew"
            return _counted(Action.UNDO, evidence, rule, f"Its outcome is unknown; it is undone{then}.")
    why = "The store was put back; it may have been done before" if last.worker == PRESUMED else _UNKNOWN
    return RecoveryDecision(Action.ASK, f"{why}, and nothing but a person can tell.")


_UNKNOWN = "Its outcome is unknown"


def _pure(evidence: Evidence, rule: Rule, stopping: bool) -> RecoveryDecision:
    if stopping:
        return RecoveryDecision(
            Action.FAIL, "The session was asked to stop; it changes nothing outside and is not run again."
        )
    made = attempts_made(evidence.attempts)
    if evidence.attempts[-1].outcome == AttemptOutcome.UNKNOWN and made >= rule.retry:
        return RecoveryDecision(Action.FAIL, f"It raised in each of {made} attempts.")
    return RecoveryDecision(Action.RUN_AGAIN, "It changes nothing outside, so it may run again.")


def _idempotent(evidence: Evidence, rule: Rule, stopping: bool) -> RecoveryDecision:
    attempts = evidence.attempts
    young = rule.key_ttl is None or evidence.at - attempts[0].dispatched_at < rule.key_ttl
    if young and attempts_made(attempts) < rule.retry and not stopping:
        return RecoveryDecision(Action.RUN_AGAIN, f"{_UNKNOWN}; the same key makes a second request harmless.")
    if stopping:
        spent = "the session was asked to stop"
    elif young:
        spent = f"{attempts_made(attempts)} attempts are spent"
    else:
        spent = "its key may have been forgotten outside"
    if rule.can_probe:
        return RecoveryDecision(Action.PROBE, f"{_UNKNOWN} and {spent}; the probe is asked.")
    return RecoveryDecision(Action.ASK, f"{_UNKNOWN} and {spent}.")


def _unless_under_way(course: RecoveryDecision, evidence: Evidence, rule: Rule) -> RecoveryDecision:
    """A probe may be asked at any time; everything else waits while an attempt is known to be under way."""
    if course.action is Action.PROBE or not open_attempts(evidence.attempts) or evidence.life is not Liveness.ALIVE:
        return course
    return _later(course.action, evidence, rule)


def _later(action: Action, evidence: Evidence, rule: Rule) -> RecoveryDecision:
    number = open_attempts(evidence.attempts)[-1].number
    return RecoveryDecision(action, f"Attempt {number} is still under way.", evidence.at + max(rule.inflight, SECOND))


def _counted(action: Action, evidence: Evidence, rule: Rule, why: str) -> RecoveryDecision:
    """A request in flight may still land: these count only `inflight` after every act is known to have ended.

    An act that is known to be under way is checked again later; a person is asked only if it cannot be known.
    """
    if not open_attempts(evidence.attempts):
        ended_at = max(one.ended_at or 0 for one in evidence.attempts)
        return RecoveryDecision(action, why, ended_at + rule.inflight)
    if evidence.life is Liveness.ALIVE:
        return _later(action, evidence, rule)
    if evidence.life is Liveness.DEAD:
        return RecoveryDecision(action, why, evidence.at + rule.inflight)
    return RecoveryDecision(Action.ASK, "It is unknown whether an attempt is still under way.")


def interrupted(effect: Effect, rule: Rule, by: str) -> RecoveryDecision:
    """What is done with an unsettled effect of a turn that `by` interrupted: it does not begin, and is not repeated."""
    if effect.state == EffectState.PLANNED:
        return RecoveryDecision(Action.REFUSE, f"{by} stopped the session first.")
    if rule.replay is Replay.PURE:
        return RecoveryDecision(Action.FAIL, f"{by} stopped it.")
    why = f"{by} stopped the session before its outcome was known; it may be partly done."
    return RecoveryDecision(Action.ASK, effect.doubt or why)


def awaits_approval(effect: Effect, approval: Approval | None, stopping: bool) -> bool:
    """Whether a planned effect waits for an approval that is undecided. A session that is stopping waits for none."""
    undecided = approval is not None and approval.decision is None
    return undecided and effect.state == EffectState.PLANNED and not stopping


def is_due(decision: RecoveryDecision, now: int) -> bool:
    """Whether a decision is to dispatch the effect now."""
    dispatches = decision.action in (Action.DISPATCH, Action.RUN_AGAIN)
    return dispatches and (decision.not_before is None or decision.not_before <= now)


NOT_ALLOWED = "It was begun without an approval that is required now."


def permit(effect: Effect, decision: RecoveryDecision, gate: GateFinding, held: str | None = None) -> RecoveryDecision:
    """What policy, gate and leases make of a dispatch that is due. `held` says which lease another effect holds.

    An effect that was dispatched without what is required now is in doubt; it does not run again.
    """
    if gate.answer != "allow":
        if effect.state == EffectState.DISPATCHED and (gate.answer == "deny" or gate.must_ask):
            return RecoveryDecision(Action.ASK, f"{NOT_ALLOWED} {gate.why}")
        if effect.state == EffectState.PLANNED and gate.answer == "deny":
            return RecoveryDecision(Action.REFUSE, gate.why)
        if effect.state == EffectState.PLANNED and gate.must_ask:
            return RecoveryDecision(Action.ASK_FOR_APPROVAL, gate.why)
    return decision if held is None else RecoveryDecision(Action.WAIT_FOR_LEASE, held)


def after_absent(evidence: Evidence, rule: Rule) -> RecoveryDecision:
    """What a probe's `absent` allows. It is not final: a request in flight may still land.

    The evidence is that of the moment when the probe was asked. DISPATCH: it may be held not to have happened.
    """
    course = _counted(Action.PROBE, evidence, rule, "The probe found nothing yet; it may still land.")
    if course.action is Action.ASK or (course.not_before or 0) > evidence.at:
        return course
    if attempts_made(evidence.attempts) >= rule.retry:
        return RecoveryDecision(
            Action.FAIL, f"The probe found nothing, and {attempts_made(evidence.attempts)} attempts are spent."
        )
    return RecoveryDecision(Action.DISPATCH, "The probe found nothing, and nothing can be in flight any more.")
