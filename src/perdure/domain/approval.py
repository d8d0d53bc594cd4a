"""An approval: a person's durable answer to one exact intent. A gate: the rule that asked."""

from __future__ import annotations

from enum import StrEnum

from perdure.domain.record import Record


class ApprovalDecision(StrEnum):
    """The decision on an approval. Only `approved` is true: `if await s.approve("Deploy"):`."""

    __module__ = "perdure"

    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"

    def __bool__(self) -> bool:
        return self is ApprovalDecision.APPROVED


class Approval(Record, frozen=True):
    """A row of `approval`, bound to one intent digest and consumed by one effect."""

    session_uid: str
    id: str
    effect_id: str
    gate: str
    intent_digest: str
    requester: str
    requester_may_decide: int
    quorum: int
    expires_at: int | None
    decision: str | None
    asked_at: int
    decided_at: int | None
    consumed_by: str | None


class Vote(Record, frozen=True):
    """A row of `vote`: what one person said, once."""

    session_uid: str
    approval_id: str
    voter: str
    decision: str
    rationale: str
    at: int
