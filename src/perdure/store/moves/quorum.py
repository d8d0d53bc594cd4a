"""The quorum of an approval: the votes that were cast, and how many of them count now."""

from __future__ import annotations

import msgspec

from perdure.domain.approval import Approval, ApprovalDecision, Vote
from perdure.domain.principal import Conditions, conditions_of, why_not
from perdure.store.move import StoreTransaction
from perdure.store.moves import principal


def votes(tx: StoreTransaction, uid: str, id: str) -> list[Vote]:
    """The votes on an approval, in the order in which they were cast."""
    return [Vote.from_row(row) for row in tx.all("vote.of_approval", uid=uid, approval_id=id, limit=1000)]


def counted(
    tx: StoreTransaction,
    approval: Approval,
    conditions: Conditions | None = None,
    *,
    requester: str | None = None,
    requester_may_decide: bool | None = None,
    reason_required: bool = False,
) -> int:
    """How many votes for an approval count, by its own conditions or by those of a gate that asks now."""
    asked = conditions or conditions_of(approval)
    governed, may = principal.is_governed(tx), requester_may_decide
    judged = approval if may is None else msgspec.structs.replace(approval, requester_may_decide=int(may))
    owner = principal.with_name(tx, requester or approval.requester) if governed else None
    people: set[str] = set()
    for one in votes(tx, approval.session_uid, approval.id):
        if one.decision != ApprovalDecision.APPROVED or (reason_required and not one.rationale):
            continue
        me = principal.voter(tx, one.identity, one.voter)
        refused = why_not(me, judged, asked, governed=governed, owner_uid=None if owner is None else owner.uid)
        if refused is None and (governed or me.name != requester or judged.requester_may_decide):
            people.add(me.name if me.principal is None else me.principal.uid)
    return len(people) if governed else min(len(people), 1)
