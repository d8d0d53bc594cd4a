"""Votes on approvals: cast once by each authenticated identity, counted by principal.

    who         the identity of the process or of the caller (`tx.identity`), never a name that was typed
    counted     in a store with principals: the votes of principals who may decide, each once, whatever their logins
                in a store without: votes count to a quorum of one, and to no larger one
    decided     by one denial, or when the counted votes reach the quorum; the database demands the same

A vote that is cast again changes nothing but counts anew, so a quorum is also reached when a voter was registered after
voting.
"""

from __future__ import annotations

import msgspec

from perdure.domain.approval import Approval, ApprovalDecision, Vote
from perdure.domain.exemption import AGENT, PermissionWidth, remembered_scope
from perdure.domain.principal import Voter, conditions_of, why_not
from perdure.errors import ConfigError, Conflict, IllegalMove
from perdure.ids import check_name
from perdure.store.move import Log, outsider_move
from perdure.store.moves import approval as approvals
from perdure.store.moves import effect as effects
from perdure.store.moves import exemption, principal, quorum


@outsider_move
def cast(
    log: Log,
    id: str,
    decision: ApprovalDecision,
    *,
    because: str | None = None,
    remember: PermissionWidth = PermissionWidth.ONCE,
) -> Approval:
    """Approve or deny. One denial decides; approvals decide when the quorum is reached.

    With `remember`, the same move grants an exemption, and approves what else waits in this session and is covered.
    """
    check_name("The voter", log.actor)
    approval = approvals.requested_here(log.tx, approvals.get(log.tx, log.uid, id))
    _check_reason(log, approval, because)
    wide = remember is not PermissionWidth.ONCE
    if wide:
        _check_may_grant(log, approval, decision)
    given, me = log.actor, principal.voter(log.tx, log.tx.identity or None, log.actor)
    before = _earlier(log, approval, me)
    if before is not None and (before.decision != decision or not _is_same(before, me)):
        _check_undecided(approval)
        raise Conflict(f"{_named(me)} has voted on approval {id} already, as {before.voter}.")
    if before is not None and approval.decision is not None:
        if wide and not _is_granted(log, approval, remember):
            raise IllegalMove(f"Approval {id} is {approval.decision} already, for one call.")
        return approval
    _check_may_vote(log, approval, me, decision)
    if before is None:
        log.actor = _insert(log, approval, me, decision, because)
        body = {"approval": approval.id, "decision": decision, "because": because or ""}
        body |= {} if me.principal is None else {"principal": me.principal.uid}
        body |= {"by": given} if given != log.actor else {}
        log.append("approval.voted", body)
    if decision is ApprovalDecision.DENIED or quorum.counted(log.tx, approval) >= approval.quorum:
        approvals.decide(log, approval, decision, because or "")
    if wide:
        _grant(log, approval, remember, because)
    return approvals.get(log.tx, log.uid, id)


def _earlier(log: Log, approval: Approval, me: Voter) -> Vote | None:
    """The vote that this identity, or another login of its principal, has cast before."""
    for one in quorum.votes(log.tx, log.uid, approval.id):
        same = one.voter == me.name if one.identity is None or me.identity is None else one.identity == me.identity
        if same or (me.principal is not None and one.principal_uid == me.principal.uid):
            return one
    return None


def _is_same(before: Vote, me: Voter) -> bool:
    """Whether a vote that is cast again gives the same name, or comes from a principal that is registered since."""
    return before.voter == me.name or me.principal is not None or before.voter == f"{me.name} ({me.identity})"


def _named(me: Voter) -> str:
    return me.name if me.identity is None else f"{me.name} ({me.identity})"


def _insert(log: Log, approval: Approval, me: Voter, decision: str, because: str | None) -> str:
    """Insert the vote; returns its name. A name that another voter used already is told apart by the identity."""
    taken = {one.voter for one in quorum.votes(log.tx, log.uid, approval.id)}
    name = _named(me) if me.name in taken else me.name
    log.tx.run(
        "vote.insert",
        uid=log.uid, approval_id=approval.id, voter=name, decision=decision, rationale=because or "", now=log.tx.now,
        identity=me.identity, principal_uid=None if me.principal is None else me.principal.uid,
    )  # fmt: skip
    return name


def _check_may_vote(log: Log, approval: Approval, me: Voter, decision: ApprovalDecision) -> None:
    _check_undecided(approval)
    if approval.expires_at is not None and approval.expires_at <= log.tx.now:
        raise IllegalMove(f"Approval {approval.id} has expired.")
    governed = principal.is_governed(log.tx)
    owner = principal.with_name(log.tx, approval.requester) if governed else None
    asked = conditions_of(approval)
    if not governed and decision is ApprovalDecision.DENIED:
        asked = msgspec.structs.replace(
            asked, roles=(), people=(), also=()
        )  # to deny is safe, even if the voter is not known
    refused = why_not(me, approval, asked, governed=governed, owner_uid=None if owner is None else owner.uid)
    if refused is not None:
        hint = "Another person must decide." if me.principal or not governed else "An owner can register you: "
        hint += "" if me.principal or not governed else f"`perdure principals add NAME --login {me.identity}`."
        raise IllegalMove(f"{refused}.", hint=hint)


def _check_undecided(approval: Approval) -> None:
    if approval.decision is not None:
        raise IllegalMove(f"Approval {approval.id} is {approval.decision} already.")


def _check_may_grant(log: Log, approval: Approval, decision: ApprovalDecision) -> None:
    if decision is not ApprovalDecision.APPROVED:
        raise ConfigError("A denial covers one call.")
    if not approvals.may_remember(log.tx, approval):
        raise ConfigError(
            f"The gate {approval.gate} asks every time; its approvals cover one call.",
            hint="Approve it once. Only what a rule asks that may be exempted can be answered for a session.",
        )


def _check_reason(log: Log, approval: Approval, because: str | None) -> None:
    if because is not None and not because.strip():
        raise ConfigError("The reason is empty.", hint="Give a text with --because, or no reason at all.")
    if because is None and approvals.needs_reason(log.tx, approval):
        raise ConfigError(f"The gate {approval.gate} needs a reason.", hint="Give one with --because.")


def _lifts(log: Log, approval: Approval) -> tuple[str, ...]:
    """The rules that asked, as they were recorded with the request; older requests are of an agent's own policy."""
    return tuple(approvals.detail_of(log.tx, approval).get("lifts") or (AGENT,))


def _is_granted(log: Log, approval: Approval, width: PermissionWidth) -> bool:
    """Whether exemptions of this width, or of a greater one, are there already."""
    scope = remembered_scope(width, effects.get(log.tx, log.uid, approval.effect_id))
    return exemption.covering(log.tx, _lifts(log, approval), scope, "") is not None


def _grant(log: Log, approval: Approval, width: PermissionWidth, because: str | None) -> None:
    """Grant exemptions of this width, and approve the waiting calls of this session that they cover."""
    rules, scope = _lifts(log, approval), remembered_scope(width, effects.get(log.tx, log.uid, approval.effect_id))
    reason = because or f"remembered with approval {approval.id}"
    exemption.grant_with_approval(log, rules, scope, because=reason, approval_id=approval.id)
    for other in approvals.listing(log.tx, uid=log.uid, decision="waiting"):
        if (
            other.gate != approval.gate
            or not approvals.may_remember(log.tx, other)
            or approvals.needs_reason(log.tx, other)
            or not set(_lifts(log, other)) <= set(rules)
        ):
            continue
        if remembered_scope(width, effects.get(log.tx, log.uid, other.effect_id)) == scope:
            cast.on(log, other.id, ApprovalDecision.APPROVED, because=f"covered by the answer to {approval.id}")
