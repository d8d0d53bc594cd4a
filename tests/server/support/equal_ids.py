"""Sessions whose effects, approvals and questions have the same ids."""

from __future__ import annotations

from perdure.domain.effect import AttemptOutcome
from perdure.domain.wait import WaitKind
from perdure.ids import digest, encode
from perdure.store.moves import approval, doubt, effect, wait
from perdure.store.moves.approval import ApprovalRequest
from perdure.store.moves.effect_input import AttemptResult, Dispatch, NewEffect
from perdure.store.store import Store
from tests.store.support.sessions import a_holder, a_session

QUESTION = "w-0000000000000001"
TO_APPROVE, TO_DENY, TO_WITHDRAW, DOUBT, DONE = (f"e-000000000000000{number}" for number in range(5))
DISPATCH = Dispatch(worker="w", process="{}")
REQUEST = ApprovalRequest(gate="g", requester="ada", requester_may_decide=True, quorum=1, expires_at=None)


def approval_of(effect_id: str) -> str:
    return approval.approval_id(effect_id)


def an_intent(uid: str, id: str) -> NewEffect:
    return NewEffect(
        id=id, position=encode([0, "", "do", id]), generation=0, tool="equal-tool", replay="escalate", targets="[]",
        intent="{}", intent_digest=digest(id), idempotency_key=digest(uid + id),
    )  # fmt: skip


def make_equal_ids(store: Store, *ids: str) -> None:
    """Sessions of these ids, each with a question, three approvals, a doubt and an acknowledged effect."""
    for number, id in enumerate(ids):
        uid = a_session(store, id).uid
        holder = a_holder(store, uid, by=f"worker-{number}")
        store.write_now(wait.open_(holder, QUESTION, WaitKind.INPUT, ref="q"))
        for one in (TO_APPROVE, TO_DENY, TO_WITHDRAW):
            store.write_now(approval.request(holder, an_intent(uid, one), REQUEST))
        for one, outcome in ((DOUBT, AttemptOutcome.UNKNOWN), (DONE, AttemptOutcome.ACKNOWLEDGED)):
            store.write_now(effect.plan_and_dispatch(holder, an_intent(uid, one), DISPATCH))
            result = "1" if outcome is AttemptOutcome.ACKNOWLEDGED else None
            error = None if result else encode({"type": "TimeoutError", "message": "late"})
            store.write_now(effect.settle(uid, "w", one, 1, AttemptResult(outcome=outcome, result=result, error=error)))
        store.write_now(doubt.open_doubt(holder, DOUBT, "late"))
