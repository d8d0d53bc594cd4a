"""What a person is told about an approval besides the call: what approving does, and who may decide.

It is made from the rows, never from what an agent says about its call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.domain.approval import Approval
from perdure.domain.effect import Replay
from perdure.domain.principal import DECIDING, Conditions

IF_LOST: Mapping[str, str] = {
    Replay.PURE: "It changes nothing outside",
    Replay.IDEMPOTENT: "If its outcome is lost, it is repeated with the same key",
    Replay.PROBE: "If its outcome is lost, the outside is asked whether it happened",
    Replay.COMPENSATE: "If its outcome is lost, it is undone and made again",
    Replay.ESCALATE: "If its outcome is lost, a person is asked",
    Replay.JOINT: "It commits together with its record",
}


def consequence(tool: str, replay: str, *, missing: int) -> str:
    """What one more approval does; `missing` is how many votes are still needed."""
    if missing > 1:
        return f"counts as one of {missing} votes that are still missing; nothing is done before the last one"
    after = IF_LOST.get(replay, IF_LOST[Replay.ESCALATE])
    return f"lets the session call {tool} once, with exactly these arguments. {after}."


def deciders(approval: Approval, conditions: Conditions, *, governed: bool) -> str:
    """Who may decide. Without principals only names are compared, and the sentence says so."""
    barred = [] if approval.requester_may_decide else ["not the person who requested it"]
    owner_may = [one.owner_may_decide for one in conditions.every]
    if not all(approval.requester_may_decide if one is None else one for one in owner_may):
        barred.append("not the owner of the session")
    who = " and also ".join(dict.fromkeys(_named(approval, one) for one in conditions.every))
    said = ", ".join([who, *barred])
    return said if governed else f"{said}; this store has no principals, so it compares only names"


def _named(approval: Approval, conditions: Conditions) -> str:
    """Whom one gate accepts."""
    roles = conditions.roles or (() if conditions.people else tuple(sorted(DECIDING)))
    more = conditions.escalate_to if approval.escalated_at is not None else ()
    return " or ".join(
        [*(f"an {one}" if one[:1] in "aeiou" else f"a {one}" for one in roles), *conditions.people, *more]
    )


def asking_rules(detail: Mapping[str, Any]) -> list[str]:
    """The rules that asked, each with its reason, as recorded with the request. The reason of a gate names it."""
    found = detail.get("rules")
    rules = [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []
    return [str(one.get("reason")) if _is_gate(one) else f"{one.get('rule')}: {one.get('reason')}" for one in rules]


def _is_gate(rule: Mapping[str, Any]) -> bool:
    name = str(rule.get("rule") or "")
    return name.startswith("gate:") and name.removeprefix("gate:") in str(rule.get("reason"))
