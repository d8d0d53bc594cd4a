"""Moves and reads of approvals: requested with the plan, voted once per person, decided once, used by one effect."""

from __future__ import annotations

from itertools import count
from typing import Any

import msgspec

from perdure.domain.approval import Approval, ApprovalDecision, Vote
from perdure.domain.effect import Effect, EffectState
from perdure.domain.fact import Fact
from perdure.domain.permission import PermissionWidth, permission_key, permission_scope
from perdure.domain.recovery_decision import GateFinding
from perdure.domain.wait import WaitKind
from perdure.errors import ConfigError, Conflict, IllegalMove, NotFound
from perdure.ids import check_name
from perdure.store.move import Log, StoreTransaction, holder_move, outsider_move
from perdure.store.moves import effect as effects
from perdure.store.moves import fact, wait
from perdure.store.moves.effect_input import NewEffect

REQUIRED = "required"  # in the detail of a wait for approval: each vote needs a reason
_SLACK = 1_000_000  # microseconds between a ruling and its transaction


class ApprovalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The approval that a gate requires.

    `may_remember`: the person may allow the call, or its tool, for the rest of the session. `about` is what helps a
    person to judge the call, such as its folder and its sandbox; it is shown, and nothing depends on it.
    """

    gate: str
    requester: str
    requester_may_decide: bool
    quorum: int
    expires_at: int | None
    reason_required: bool = False
    may_remember: bool = False
    about: dict[str, Any] | None = None

    def detail(self, tool: str, intent: Any) -> dict[str, Any]:
        """The detail of the wait."""
        shown: dict[str, Any] = {"gate": self.gate, "tool": tool, "intent": intent}
        shown |= {"reason": REQUIRED} if self.reason_required else {}
        shown |= {"may_remember": True} if self.may_remember else {}
        return shown | ({"about": self.about} if self.about else {})


@holder_move
def request(log: Log, intent: NewEffect, question: ApprovalRequest) -> Effect:
    """Plan an effect, or take a planned one, that may be dispatched only after approval of exactly this intent.

    An approval that does not satisfy the present gate stays as it is, and another one is requested.
    """
    planned = effects.plan.on(log, intent, approval_id=approval_id(intent.id))
    if planned.state != EffectState.PLANNED or not must_ask(log.tx, planned, question):
        return planned
    id = _free_id(log, intent.id)
    log.tx.send("effect.gate", uid=log.uid, id=intent.id, approval_id=id)
    log.tx.run(
        "approval.insert",
        uid=log.uid, id=id, effect_id=intent.id, gate=question.gate, intent_digest=intent.intent_digest,
        requester=question.requester, requester_may_decide=int(question.requester_may_decide),
        quorum=question.quorum, expires_at=question.expires_at, now=log.tx.now,
    )  # fmt: skip
    detail = question.detail(intent.tool, planned.intent)
    wait.open_.on(log, id, WaitKind.APPROVAL, ref=intent.id, detail=detail, due_at=question.expires_at)
    rows = {"approval": [get(log.tx, log.uid, id).to_dict()], "effect": [{"id": intent.id, "approval_id": id}]}
    log.append("note", {"approval": id}, rows=rows, effect_id=intent.id)
    return effects.get(log.tx, log.uid, intent.id)


def must_ask(tx: StoreTransaction, planned: Effect, question: ApprovalRequest) -> bool:
    """Whether another approval is needed for the present gate.

    An approval may not be enough: it may have been requested under weaker rules, in another store or by older code.
    """
    row = tx.one("approval.get", uid=planned.session_uid, id=planned.approval_id or "")
    if row is None:
        return True
    asked = Approval.from_row(row)
    return asked.decision == ApprovalDecision.APPROVED and not _suffices(tx, asked, question)


def gate_finding(
    tx: StoreTransaction, effect: Effect, answer: str, why: str, question: ApprovalRequest | None
) -> GateFinding:
    """What policy and gate say about an effect, and whether it needs an approval that it does not have."""
    if answer == "allow":
        return GateFinding()
    if question is None:
        return GateFinding("deny", why)
    return GateFinding(answer, why, must_ask(tx, effect, question))


def _suffices(tx: StoreTransaction, approved: Approval, question: ApprovalRequest) -> bool:
    yes = {
        one.voter
        for one in votes(tx, approved.session_uid, approved.id)
        if one.decision == ApprovalDecision.APPROVED and (one.rationale or not question.reason_required)
    }
    if not question.requester_may_decide:
        yes -= {approved.requester, question.requester}
    if len(yes) < question.quorum:
        return False
    if question.expires_at is None or approved.decided_at is None:
        return True
    return approved.decided_at - approved.asked_at <= question.expires_at - tx.now + _SLACK


def _free_id(log: Log, effect_id: str) -> str:
    first = approval_id(effect_id)
    names = (first if number == 1 else f"{first}-{number}" for number in count(1))
    return next(id for id in names if log.tx.one("approval.get", uid=log.uid, id=id) is None)


def approval_id(effect_id: str) -> str:
    """The name of the first approval of an effect."""
    return "a-" + effect_id.removeprefix("e-")


@outsider_move
def vote(
    log: Log,
    id: str,
    decision: ApprovalDecision,
    *,
    because: str | None = None,
    remember: PermissionWidth = PermissionWidth.ONCE,
) -> Approval:
    """Approve or deny. One denial decides; approvals decide when the quorum is reached.

    With `remember`, the same move grants a permission, and approves what else waits in this session and is covered.
    """
    check_name("The voter", log.actor)
    approval = get(log.tx, log.uid, id)
    _check_reason(log, approval, because)
    wide = remember is not PermissionWidth.ONCE
    if wide:
        _check_may_grant(log, approval, decision)
    fresh = log.tx.run(
        "vote.insert",
        uid=log.uid, approval_id=id, voter=log.actor, decision=decision, rationale=because or "", now=log.tx.now,
    )  # fmt: skip
    cast = {vote.voter: vote for vote in votes(log.tx, log.uid, id)}
    if not fresh and cast[log.actor].decision == decision:
        if wide and _permission(log, approval, remember) is None:
            raise IllegalMove(f"Approval {id} is {approval.decision} already, for one call.")
        return approval
    if not fresh:
        raise Conflict(f"{log.actor} has voted on approval {id} already.")
    _check_may_vote(log, approval)
    log.append("approval.voted", {"approval": id, "decision": decision, "because": because or ""})
    yes = sum(vote.decision == ApprovalDecision.APPROVED for vote in cast.values())
    if decision is ApprovalDecision.DENIED or yes >= approval.quorum:
        _decide(log, approval, decision, because or "")
    if wide:
        _grant(log, approval, remember, because)
    return get(log.tx, log.uid, id)


def _check_may_grant(log: Log, approval: Approval, decision: ApprovalDecision) -> None:
    if decision is not ApprovalDecision.APPROVED:
        raise ConfigError("A denial covers one call.")
    if not may_remember(log.tx, approval):
        raise ConfigError(
            f"The gate {approval.gate} asks every time; its approvals cover one call.",
            hint="Approve it once. Only the questions of an agent's own policy can be answered for a session.",
        )


def _check_reason(log: Log, approval: Approval, because: str | None) -> None:
    if because is not None and not because.strip():
        raise ConfigError("The reason is empty.", hint="Give a text with --because, or no reason at all.")
    if because is None and needs_reason(log.tx, approval):
        raise ConfigError(f"The gate {approval.gate} needs a reason.", hint="Give one with --because.")


def needs_reason(tx: StoreTransaction, approval: Approval) -> bool:
    """Whether the gate demands a reason with each vote."""
    return detail_of(tx, approval).get("reason") == REQUIRED


def may_remember(tx: StoreTransaction, approval: Approval) -> bool:
    """Whether the person may allow the call, or its tool, for the rest of the session."""
    return detail_of(tx, approval).get("may_remember") is True and approval.quorum == 1


def detail_of(tx: StoreTransaction, approval: Approval) -> dict[str, Any]:
    """What was recorded for people when the approval was requested."""
    detail = wait.get(tx, approval.session_uid, approval.id).detail
    return detail if isinstance(detail, dict) else {}


def _permission(log: Log, approval: Approval, width: PermissionWidth) -> Fact | None:
    key = permission_key(width, effects.get(log.tx, log.uid, approval.effect_id))
    return fact.get(log.tx, permission_scope(log.uid), key)


def _grant(log: Log, approval: Approval, width: PermissionWidth, because: str | None) -> None:
    """Record the permission, and approve the waiting calls of this session that it covers."""
    planned = effects.get(log.tx, log.uid, approval.effect_id)
    key = permission_key(width, planned)
    value = {"because": because or "", "tool": planned.tool, "approval": approval.id}
    fact.remember.on(log, permission_scope(log.uid), key, value)
    for other in listing(log.tx, uid=log.uid, decision="waiting"):
        if other.gate != approval.gate or not may_remember(log.tx, other) or needs_reason(log.tx, other):
            continue
        if permission_key(width, effects.get(log.tx, log.uid, other.effect_id)) == key:
            vote.on(log, other.id, ApprovalDecision.APPROVED, because=f"covered by the answer to {approval.id}")


def _check_may_vote(log: Log, approval: Approval) -> None:
    if approval.decision is not None:
        raise IllegalMove(f"Approval {approval.id} is {approval.decision} already.")
    if approval.expires_at is not None and approval.expires_at <= log.tx.now:
        raise IllegalMove(f"Approval {approval.id} has expired.")
    if log.actor == approval.requester and not approval.requester_may_decide:
        raise IllegalMove(
            f"{log.actor} requested approval {approval.id} and may not decide it.", hint="Another person must decide."
        )


@outsider_move
def expire(log: Log, id: str) -> Approval:
    """Expire an approval that was not decided in time. If it is not due any more (`wait.fire`), nothing changes."""
    approval = get(log.tx, log.uid, id)
    if approval.expires_at is None:
        raise IllegalMove(f"Approval {id} never expires.")
    if approval.decision is not None or approval.expires_at > log.tx.now:
        return approval
    _decide(log, approval, ApprovalDecision.EXPIRED, "not decided in time")
    return get(log.tx, log.uid, id)


def lapse(log: Log, id: str, because: str) -> None:
    """Close an approval that is no longer needed: its effect will not be dispatched."""
    approval = get(log.tx, log.uid, id)
    if approval.decision is None:
        _decide(log, approval, ApprovalDecision.EXPIRED, because)


def _decide(log: Log, approval: Approval, decision: ApprovalDecision, because: str) -> None:
    log.tx.run("approval.decide", uid=log.uid, id=approval.id, decision=decision, now=log.tx.now)
    row = {"id": approval.id, "decision": decision, "decided_at": log.tx.now}
    log.append("approval.decided", {"approval": approval.id, "because": because}, rows={"approval": [row]})
    if decision is not ApprovalDecision.APPROVED:
        planned = effects.get(log.tx, log.uid, approval.effect_id)
        if planned.state == EffectState.PLANNED:
            message = because or f"{log.actor} denied it, without a reason."
            effects.refuse.on(log, approval.effect_id, f"approval-{decision}", message)
    asked = wait.get(log.tx, log.uid, approval.id)
    if asked.resolved_at is None:
        wait.settle(log, asked, decision)


def get(tx: StoreTransaction, uid: str, id: str) -> Approval:
    row = tx.one("approval.get", uid=uid, id=id)
    if row is None:
        raise NotFound(f"There is no approval {id} in this session.")
    return Approval.from_row(row)


def find(tx: StoreTransaction, name: str) -> Approval:
    """One approval by its id, or by a unique prefix of it."""
    found = with_prefix(tx, name, limit=2) if name else []
    if not found:
        raise NotFound(f"There is no approval {name!r}.", hint="`perdure approvals` lists them.")
    if len(found) > 1 and (found[0].id != name or found[1].id == name):
        raise Conflict(f"Several approvals begin with {name!r}.", hint="Give more characters.")
    return found[0]


def with_prefix(tx: StoreTransaction, prefix: str, *, limit: int) -> list[Approval]:
    """Approvals whose id has this prefix, by id."""
    rows = tx.all("approval.by_id", prefix=prefix, beyond=prefix + "\U0010ffff", limit=limit)
    return [Approval.from_row(row) for row in rows]


def votes(tx: StoreTransaction, uid: str, id: str) -> list[Vote]:
    return [Vote.from_row(row) for row in tx.all("vote.of_approval", uid=uid, approval_id=id, limit=1000)]


def listing(
    tx: StoreTransaction, *, uid: str | None = None, decision: str | None = None, limit: int = 1000
) -> list[Approval]:
    """Approvals, filtered; `decision` may also be `waiting`."""
    return [Approval.from_row(row) for row in tx.all("approval.list", uid=uid, decision=decision, limit=limit)]
