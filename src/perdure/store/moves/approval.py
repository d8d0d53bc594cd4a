"""Moves and reads of approvals: requested with the plan, decided once, used by one effect. `vote` has the votes."""

from __future__ import annotations

from itertools import count
from typing import Any, NamedTuple

import msgspec

from perdure.domain.approval import Approval, ApprovalDecision
from perdure.domain.effect import Effect, EffectState
from perdure.domain.notification import Topic
from perdure.domain.principal import Conditions, conditions_of
from perdure.domain.recovery_decision import GateFinding
from perdure.domain.wait import WaitKind
from perdure.errors import Conflict, IllegalMove, NotFound
from perdure.ids import encode
from perdure.store.move import Log, StoreTransaction, holder_move, outsider_move
from perdure.store.moves import effect as effects
from perdure.store.moves import event, notification, policy, quorum, requester, wait
from perdure.store.moves.effect_input import NewEffect
from perdure.store.topics import APPROVALS

REQUIRED = "required"  # in the detail of a wait for approval: each vote needs a reason
_SLACK = 1_000_000  # microseconds between a ruling and its transaction


class ApprovalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The approval that a gate requires.

    `may_remember`: the person may allow the call, or its tool, for the rest of the session. `about` is what helps a
    person to judge the call, such as its folder and its sandbox; it is shown, and nothing depends on it. `rules` are
    what asks, each with its reason: an approval does not cover a rule that people were not shown.
    """

    gate: str
    requester: str
    requester_may_decide: bool
    quorum: int
    expires_at: int | None
    reason_required: bool = False
    may_remember: bool = False
    conditions: Conditions = Conditions()
    lifts: tuple[str, ...] = ()  # the rules that an approval which is remembered lifts
    about: dict[str, Any] | None = None
    rules: tuple[tuple[str, str], ...] = ()
    policy_version: str | None = None
    fence: str | None = None  # of the policy that asks; it must be the active one

    def detail(self, tool: str, intent: Any) -> dict[str, Any]:
        """The detail of the wait."""
        shown: dict[str, Any] = {"gate": self.gate, "tool": tool, "intent": intent}
        shown |= {"reason": REQUIRED} if self.reason_required else {}
        shown |= {"may_remember": True, "lifts": list(self.lifts)} if self.may_remember else {}
        shown |= {"rules": [{"rule": rule, "reason": reason} for rule, reason in self.rules]} if self.rules else {}
        shown |= {"policy_version": self.policy_version} if self.policy_version else {}
        return shown | ({"about": self.about} if self.about else {})


@holder_move
def request(log: Log, intent: NewEffect, question: ApprovalRequest) -> Effect:
    """Plan an effect, or take a planned one, that may be dispatched only after approval of exactly this intent.

    An approval that does not satisfy the present gate stays as it is, and another one is requested.
    """
    policy.check_fence(log.tx, question.fence)
    planned = effects.plan.on(log, intent, approval_id=approval_id(intent.id))
    if planned.state != EffectState.PLANNED or not must_ask(log.tx, planned, question):
        return planned
    id = _free_id(log, intent.id)
    log.tx.send("effect.gate", uid=log.uid, id=intent.id, approval_id=id)
    after, requested_by = question.conditions.escalate_after, requester.requesters(log.tx, log.uid)
    log.tx.run(
        "approval.insert",
        uid=log.uid, id=id, effect_id=intent.id, gate=question.gate, intent_digest=intent.intent_digest,
        requester=question.requester, requester_may_decide=int(question.requester_may_decide),
        quorum=question.quorum, expires_at=question.expires_at, now=log.tx.now,
        conditions=encode(msgspec.to_builtins(question.conditions)), requested_by=encode(requested_by),
        escalate_at=None if after is None else log.tx.now + after,
    )  # fmt: skip
    if after is not None:
        log.tx.wake_service(APPROVALS)
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
    yes = quorum.counted(
        tx, requested_here(tx, approved), question.conditions, requester=question.requester,
        requester_may_decide=question.requester_may_decide, reason_required=question.reason_required,
    )  # fmt: skip
    if yes < question.quorum or approved.withdrawn_at is not None or not _shows(tx, approved, question):
        return False
    if question.expires_at is None or approved.decided_at is None:
        return True
    return approved.decided_at - approved.asked_at <= question.expires_at - tx.now + _SLACK


def _shows(tx: StoreTransaction, approved: Approval, question: ApprovalRequest) -> bool:
    """Whether the people who approved were shown every rule that asks now. Older approvals name no rules."""
    shown = detail_of(tx, approved).get("rules")
    return shown is None or {rule for rule, _ in question.rules} <= {one["rule"] for one in shown}


def requested_here(tx: StoreTransaction, approval: Approval) -> Approval:
    """An approval whose requesters also are those who imported its session: they ask for it in this store."""
    found = requester.identities_of(event.imports(tx, approval.session_uid))
    if not found:
        return approval
    requested_by = [*(approval.requested_by or ()), *requester.with_principals(tx, found)]
    return msgspec.structs.replace(approval, requested_by=requested_by)


def _free_id(log: Log, effect_id: str) -> str:
    first = approval_id(effect_id)
    names = (first if number == 1 else f"{first}-{number}" for number in count(1))
    return next(id for id in names if log.tx.one("approval.get", uid=log.uid, id=id) is None)


def approval_id(effect_id: str) -> str:
    """The name of the first approval of an effect."""
    return "a-" + effect_id.removeprefix("e-")


def needs_reason(tx: StoreTransaction, approval: Approval) -> bool:
    """Whether the gate demands a reason with each vote."""
    return detail_of(tx, approval).get("reason") == REQUIRED


def may_remember(tx: StoreTransaction, approval: Approval) -> bool:
    """Whether the person may allow the call, or its tool, for the rest of the session."""
    may = detail_of(tx, approval).get("may_remember") is True and approval.quorum == 1
    return may and not _was_imported(tx, approval)


def _was_imported(tx: StoreTransaction, approval: Approval) -> bool:
    """Whether it was requested in another store: then the bundle says which rules an answer would lift."""
    asked = wait.get(tx, approval.session_uid, approval.id)
    return any(one.number > asked.number for one in event.imports(tx, approval.session_uid))


def detail_of(tx: StoreTransaction, approval: Approval) -> dict[str, Any]:
    """What was recorded for people when the approval was requested."""
    detail = wait.get(tx, approval.session_uid, approval.id).detail
    return detail if isinstance(detail, dict) else {}


@outsider_move
def expire(log: Log, id: str) -> Approval:
    """Expire an approval that was not decided in time. If it is not due any more (`wait.fire`), nothing changes."""
    approval = get(log.tx, log.uid, id)
    if approval.expires_at is None:
        raise IllegalMove(f"Approval {id} never expires.")
    if approval.decision is not None or approval.expires_at > log.tx.now:
        return approval
    decide(log, approval, ApprovalDecision.EXPIRED, "not decided in time")
    return get(log.tx, log.uid, id)


@outsider_move
def escalate(log: Log, id: str) -> Approval:
    """Ask more people, because an approval waits for long. If that is not due any more, nothing changes."""
    approval = get(log.tx, log.uid, id)
    due = approval.escalate_at is not None and approval.escalate_at <= log.tx.now
    if due and log.tx.run("approval.escalate", uid=log.uid, id=id, now=log.tx.now):
        row = {"id": id, "escalated_at": log.tx.now}
        to = list(dict.fromkeys(name for one in conditions_of(approval).every for name in one.escalate_to))
        log.append("approval.escalated", {"approval": id, "to": to}, rows={"approval": [row]})
        tool = effects.get(log.tx, log.uid, approval.effect_id).tool
        about = {"wait": id, "effect": approval.effect_id, "gate": approval.gate, "tool": tool, "escalated_to": to}
        notification.notify(log, Topic.APPROVAL, about)
    return get(log.tx, log.uid, id)


class DueEscalation(NamedTuple):
    """An approval that more people are asked about, and when."""

    session_uid: str
    id: str
    at: int


def first_escalations(tx: StoreTransaction, *, limit: int = 100) -> list[DueEscalation]:
    """Undecided approvals that are to be escalated, by time."""
    return [DueEscalation(*row) for row in tx.all("approval.to_escalate", limit=limit)]


def lapse(log: Log, id: str, because: str) -> None:
    """Close an approval that is no longer needed: its effect will not be dispatched."""
    approval = get(log.tx, log.uid, id)
    if approval.decision is None:
        decide(log, approval, ApprovalDecision.EXPIRED, because)


def decide(log: Log, approval: Approval, decision: ApprovalDecision, because: str) -> None:
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


def find(tx: StoreTransaction, name: str, uid: str | None = None) -> Approval:
    """One approval by its id or a unique prefix of it, of one session or of any."""
    found = with_prefix(tx, name, uid=uid, limit=2) if name else []
    if not found:
        raise NotFound(f"There is no approval {name!r}.", hint="`perdure approvals` lists them.")
    if len(found) > 1 and found[1].id == name:
        raise Conflict(f"Several sessions have an approval {name}.", hint="Name its session.")
    if len(found) > 1 and found[0].id != name:
        raise Conflict(f"Several approvals begin with {name!r}.", hint="Give more characters.")
    return found[0]


def with_prefix(tx: StoreTransaction, prefix: str, *, uid: str | None = None, limit: int) -> list[Approval]:
    """Approvals whose id has this prefix, by id, of one session or of any."""
    rows = tx.all("approval.by_id", prefix=prefix, beyond=prefix + "\U0010ffff", uid=uid, limit=limit)
    return [Approval.from_row(row) for row in rows]


def listing(
    tx: StoreTransaction, *, uid: str | None = None, decision: str | None = None, limit: int = 1000
) -> list[Approval]:
    """Approvals, filtered; `decision` may also be `waiting`."""
    return [Approval.from_row(row) for row in tx.all("approval.list", uid=uid, decision=decision, limit=limit)]
