"""The withdrawal of an approval before its effect was dispatched: the effect is refused, and is never done.

dispatched first    the withdrawal is refused, because the act may be under way
withdrawn first     the effect is refused, and so is its dispatch; both hold the lock of the session's row
"""

from __future__ import annotations

from perdure.domain.approval import Approval, ApprovalDecision
from perdure.domain.effect import EffectState
from perdure.domain.principal import DECIDING, Voter, conditions_of, why_not
from perdure.errors import ConfigError, IllegalMove
from perdure.ids import check_name, check_text
from perdure.store.move import Log, StoreTransaction, outsider_move
from perdure.store.moves import approval as approvals
from perdure.store.moves import effect as effects
from perdure.store.moves import principal, quorum


@outsider_move
def withdraw(log: Log, id: str, *, because: str) -> Approval:
    """Withdraw an approval, or a request that is not decided. The same person may repeat it."""
    check_name("Who withdraws it", log.actor)
    if not because.strip():
        raise ConfigError("A withdrawal needs a reason.", hint="Give one with --because.")
    check_text("The reason", because)
    approval, me = approvals.get(log.tx, log.uid, id), principal.voter(log.tx, log.tx.identity or None, log.actor)
    log.actor = me.name
    if approval.withdrawn_at is not None and approval.withdrawn_by == me.name:
        return approval
    _check(log, approval, me)
    log.tx.run("approval.withdraw", uid=log.uid, id=id, by=me.name, because=because, now=log.tx.now)
    row = {"id": id, "withdrawn_at": log.tx.now, "withdrawn_by": me.name, "withdrawn_because": because}
    log.append("approval.withdrawn", {"approval": id, "because": because}, rows={"approval": [row]})
    why = f"{me.name} withdrew the approval: {because}"
    if approval.decision is None:
        approvals.decide(log, approval, ApprovalDecision.DENIED, why)
    else:
        effects.refuse.on(log, approval.effect_id, "approval-denied", why)
    return approvals.get(log.tx, log.uid, id)


def _check(log: Log, approval: Approval, me: Voter) -> None:
    if approval.withdrawn_at is not None:
        raise IllegalMove(f"{approval.withdrawn_by} has withdrawn approval {approval.id} already.")
    if approval.decision not in (None, ApprovalDecision.APPROVED):
        raise IllegalMove(f"Approval {approval.id} is {approval.decision} already.")
    planned = effects.get(log.tx, log.uid, approval.effect_id)
    if approval.consumed_by is not None or planned.state != EffectState.PLANNED:
        raise IllegalMove(
            f"Effect {planned.id} was dispatched already; its approval cannot be withdrawn any more.",
            hint=f"`perdure undo {planned.id}` undoes it, if its tool can.",
        )
    if not may_withdraw(log.tx, approval, me):
        raise IllegalMove(
            f"{me.name} may not withdraw approval {approval.id}.",
            hint="Those who voted, who requested it, or who may decide can withdraw it.",
        )


def may_withdraw(tx: StoreTransaction, approval: Approval, me: Voter) -> bool:
    """Whether a person may withdraw an approval: who requested it, who voted, or who may decide."""
    if not principal.is_governed(tx):
        return True
    if me.identity is not None and (
        me.identity in (approval.requested_by or ())
        or any(one.identity == me.identity for one in quorum.votes(tx, approval.session_uid, approval.id))
    ):
        return True
    if me.principal is None:
        return False
    is_owner = approval.requester in (me.principal.name, *me.logins)
    may_decide = why_not(me, approval, conditions_of(approval), governed=True) is None
    return is_owner or may_decide or bool(DECIDING & set(me.principal.roles))
