"""The refusal of an effect by the policy, recorded with the rule that decided and the version of the policy.

It is refused in one transaction with its plan, and only under the policy that is active then.
"""

from __future__ import annotations

from perdure.domain.effect import Effect, EffectState
from perdure.errors import PolicyDenied
from perdure.store.move import Log, holder_move
from perdure.store.moves import effect as effects
from perdure.store.moves import policy
from perdure.store.moves.effect_input import NewEffect


@holder_move
def refuse(log: Log, intent: NewEffect, why: str, fence: str | None) -> Effect:
    """Plan an effect, or take a planned one, and refuse it. One that is not planned any more stays as it is."""
    policy.check_fence(log.tx, fence)
    planned = effects.plan.on(log, intent)
    if planned.state != EffectState.PLANNED:
        return planned
    if (planned.rule, planned.policy_version) != (intent.rule, intent.policy_version):
        judged = {"rule": intent.rule, "policy_version": intent.policy_version}
        log.tx.send("effect.judge", uid=log.uid, id=planned.id, **judged)
        log.append("note", rows={"effect": [{"id": planned.id, **judged}]}, effect_id=planned.id)
    return effects.refuse.on(log, planned.id, PolicyDenied.code, why)
