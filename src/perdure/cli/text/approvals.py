"""Approvals with their votes and the call that they are bound to."""

from __future__ import annotations

from typing import Any

from perdure.cli.shell import Shell
from perdure.cli.store_access import load_arguments
from perdure.cli.text.plain import safe
from perdure.domain.approval import Approval
from perdure.domain.approval_summary import consequence
from perdure.domain.effect import Effect
from perdure.store.move import StoreTransaction
from perdure.store.moves import approval, effect, quorum


def planned_effect(shell: Shell, tx: StoreTransaction, one: Approval) -> Effect:
    """The effect of an approval, with its arguments."""
    return load_arguments(shell, effect.get(tx, one.session_uid, one.effect_id))


def approval_json(shell: Shell, tx: StoreTransaction, one: Approval) -> dict[str, Any]:
    """An approval as `--json` prints it: the exact call, and the name, decision and reason of every voter."""
    about = planned_effect(shell, tx, one)
    call = {"tool": about.tool, "intent": about.intent, "targets": about.targets}
    detail = approval.detail_of(tx, one)
    more = {"about": detail.get("about"), "reason": detail.get("reason", "optional")}
    more |= {"may_remember": approval.may_remember(tx, one), "rules": detail.get("rules", [])}
    more |= {"approving": consequence(about.tool, about.replay, missing=one.quorum - quorum.counted(tx, one))}
    return one.to_dict() | call | more | {"votes": quorum.votes(tx, one.session_uid, one.id)}


def voters_and_reasons(tx: StoreTransaction, one: Approval) -> tuple[str, str]:
    """Who decided an approval, and why; two empty strings if it was not decided by a vote."""
    votes = [vote for vote in quorum.votes(tx, one.session_uid, one.id) if vote.decision == one.decision]
    given = [vote for vote in votes if vote.rationale]
    reasons = [f"{vote.voter}: {vote.rationale}" if len(votes) > 1 else vote.rationale for vote in given]
    return ", ".join(safe(vote.voter) for vote in votes), "; ".join(reasons)
