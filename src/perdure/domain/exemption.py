"""An exemption: a person lifts a rule of the policy, for what the exemption covers, until it ends.

It lifts the rules that it names and nothing else. A gate of the tool itself, and every other rule that asks or denies,
still decide. A use is counted in the transaction of an effect's first dispatch; later attempts of the same effect are
covered, and a use never returns.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from perdure.domain.effect import Effect
from perdure.domain.record import Record

DEFAULT = "default"  # the rule of a policy's default answer
UNPARSED = "unparsed"  # the rule for a command that cannot be judged
AGENT = "agent"  # the rule of an agent's own policy
BUDGET = "budget:"  # before the name of a budget
OF_REPOSITORY = "repository:"  # before the name of a rule of a repository's policy
ANY_TOOL = "*"  # an exemption from before, for one exact call


class PermissionWidth(StrEnum):
    """What an approval covers: this effect, exactly this call again in this session, or its tool in this session."""

    ONCE = "once"
    THIS = "this"
    TOOL = "tool"


class ExemptionState(StrEnum):
    ACTIVE = "active"
    REVOKED = "revoked"
    EXPIRED = "expired"
    USED_UP = "used up"


class Exemption(Record, frozen=True):
    """A row of `exemption`. A scope that is None covers everything; times are in microseconds."""

    id: str
    rule: str
    session_uid: str | None
    repository: str | None
    owner: str | None
    tool: str | None
    intent_digest: str | None
    reason: str
    granted_by: str
    grantor: str | None
    granted_at: int
    approval_id: str | None
    expires_at: int | None
    uses: int | None
    used: int
    revoked_at: int | None
    revoked_by: str | None
    revoked_because: str | None
    move_id: str

    def state(self, now: int) -> ExemptionState:
        if self.revoked_at is not None:
            return ExemptionState.REVOKED
        if self.expires_at is not None and self.expires_at <= now:
            return ExemptionState.EXPIRED
        return ExemptionState.USED_UP if self.uses is not None and self.used >= self.uses else ExemptionState.ACTIVE


class ExemptionUse(Record, frozen=True):
    """A row of `exemption_use`: the effect that used it, at its first dispatch."""

    session_uid: str
    effect_id: str
    exemption_id: str
    at: int


class ExemptionScope(msgspec.Struct, frozen=True, kw_only=True):
    """What an exemption covers. Every part that is given must fit; at least one is given."""

    session_uid: str | None = None
    repository: str | None = None
    owner: str | None = None
    tool: str | None = None
    intent_digest: str | None = None


def remembered_scope(width: PermissionWidth, effect: Effect) -> ExemptionScope:
    """What an approval of this effect covers, in the width that the person chose."""
    digest = effect.intent_digest if width is PermissionWidth.THIS else None
    return ExemptionScope(session_uid=effect.session_uid, tool=effect.tool, intent_digest=digest)
