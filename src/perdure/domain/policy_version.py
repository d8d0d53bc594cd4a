"""A version of the store's policy, and the fence that every dispatch must match."""

from __future__ import annotations

from perdure.domain.record import Record
from perdure.ids import digest, encode

FIRST_FENCE = "0"  # before any policy was set


class PolicyVersion(Record, frozen=True):
    """A row of `policy`: a text that was activated. The newest is the active one."""

    version: int
    digest: str  # of the text
    fence: str
    source: str
    activated_by: str
    reason: str
    activated_at: int
    move_id: str


class PolicyFence(Record, frozen=True):
    """The row of `policy_fence`. While the policy is frozen, it has no fence and nothing is dispatched."""

    version: int
    fence: str | None
    frozen_at: int | None = None
    frozen_by: str | None = None
    frozen_because: str | None = None


def fence_of(version: int, source_digest: str, activated_by: str, reason: str, at: int, move_id: str) -> str:
    """The fence of a version. A number can come again after a restore; its fence cannot."""
    whole = [version, source_digest, activated_by, reason, at, move_id]
    return f"{version}:{digest(encode(whole))[:32]}"
