"""Gates: one request for approval that meets the demands of every gate that asks.

The largest quorum, the earliest expiry and the strictest separation of duties count. A voter must be one whom each gate
allows, so a vote counts for all of them (`Conditions.also`).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from perdure.domain.policy import PolicyGate
from perdure.domain.principal import Conditions
from perdure.runtime.definitions.durations import microseconds
from perdure.runtime.definitions.tool import Gate
from perdure.store.moves.approval import ApprovalRequest


def gate_of(written: PolicyGate | None) -> Gate | None:
    """The gate of a rule."""
    return None if written is None else Gate(**msgspec.structs.asdict(written))


def approval_request(
    gates: Sequence[Gate], *, requester: str, now: int, lifts: tuple[str, ...], rules: tuple[tuple[str, str], ...],
    policy_version: str, fence: str,
) -> ApprovalRequest:  # fmt: skip
    """The approval that meets every gate; it is named after the first."""
    ends = [now + microseconds(one.expires) for one in gates if one.expires is not None]
    return ApprovalRequest(
        gate=gates[0].name,
        requester=requester,
        requester_may_decide=all(one.requester_may_decide for one in gates),
        quorum=max(one.quorum for one in gates),
        expires_at=min(ends, default=None),
        reason_required=any(one.reason == "required" for one in gates),
        conditions=_conditions(gates),
        may_remember=bool(lifts),
        lifts=lifts,
        rules=rules,
        policy_version=policy_version,
        fence=fence,
    )


def _conditions(gates: Sequence[Gate]) -> Conditions:
    """Who may decide, as an approval records it. More people are asked only when every gate would ask more."""
    waits = [microseconds(one.escalate_after) for one in gates if one.escalate_after is not None]
    escalates = len(waits) == len(gates)
    every = [
        Conditions(
            roles=tuple(one.roles), people=tuple(one.people), owner_may_decide=one.owner_may_decide,
            escalate_after=max(waits) if escalates and place == 0 else None,
            escalate_to=tuple(one.escalate_to) if escalates else (),
        )
        for place, one in enumerate(gates)
    ]  # fmt: skip
    return msgspec.structs.replace(every[0], also=tuple(every[1:]))
