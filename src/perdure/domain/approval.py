"""An approval: a person's durable answer to one exact intent. A gate: the rule that asked."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, ClassVar

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

    json_columns: ClassVar[frozenset[str]] = frozenset({"conditions", "requested_by"})

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
    conditions: Any = None
    requested_by: Any = None
    escalate_at: int | None = None
    escalated_at: int | None = None
    withdrawn_at: int | None = None
    withdrawn_by: str | None = None
    withdrawn_because: str | None = None


class Vote(Record, frozen=True):
    """A row of `vote`: what one person said, once."""

    session_uid: str
    approval_id: str
    voter: str
    decision: str
    rationale: str
    at: int
    identity: str | None = None
    principal_uid: str | None = None
