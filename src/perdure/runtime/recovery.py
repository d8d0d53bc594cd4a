"""Recovery, shown before it runs: what would be done with each unsettled effect, and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from perdure.domain.effect import Action, Attempt, Effect, EffectState, recover
from perdure.domain.worker import Life
from perdure.runtime.tool import TOOLS
from perdure.store import approval
from perdure.store import effect as effects
from perdure.store.move import Transaction


class Recovery(msgspec.Struct, frozen=True):
    """What a run would do with one effect."""

    effect_id: str
    tool: str
    state: str
    attempts: int
    action: str
    why: str
    not_before: int | None


def plan(tx: Transaction, uid: str, life_of: Callable[[dict[str, Any]], Life]) -> list[Recovery]:
    """The recovery plan of a session; reads only."""
    return [_for(tx, effect, life_of) for effect in effects.unsettled(tx, uid)]


def _for(tx: Transaction, effect: Effect, life_of: Callable[[dict[str, Any]], Life]) -> Recovery:
    attempts = effects.of_effect(tx, effect.session_uid, effect.id)

    def say(action: str, why: str, not_before: int | None = None) -> Recovery:
        return Recovery(effect.id, effect.tool, effect.state, len(attempts), action, why, not_before)

    if effect.tool not in TOOLS:
        return say("wait for code", f"No tool named {effect.tool} is loaded here.")
    if effect.approval_id is not None and effect.state == EffectState.PLANNED:
        asked = approval.get(tx, effect.session_uid, effect.approval_id)
        if asked.decision is None:
            return say("wait for approval", f"The gate {asked.gate} asks, and nobody has decided approval {asked.id}.")
    if attempts and attempts[-1].ended_at is None and effect.state == EffectState.DISPATCHED:
        life = life_of(attempts[-1].process)
        if life is Life.DEAD:
            attempts = [*attempts[:-1], msgspec.structs.replace(attempts[-1], ended_at=tx.now)]
    course = recover(effect, attempts, TOOLS[effect.tool].rule, tx.now)
    return say(course.action, course.why + _evidence(attempts, course.action), course.not_before)


def _evidence(attempts: list[Attempt], action: Action) -> str:
    if not attempts or action is Action.DISPATCH:
        return ""
    last = attempts[-1]
    if last.outcome is not None:
        return f" Attempt {last.number} ended without saying what came of it."
    return f" Worker {last.worker} ended in the middle of attempt {last.number}." if last.ended_at else ""
