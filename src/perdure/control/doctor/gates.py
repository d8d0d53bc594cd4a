"""Which promises of gates this deployment can keep, and whether an agent could approve its own calls."""

from __future__ import annotations

import msgspec

from perdure.agent.commands.sandbox import Level
from perdure.control.roles import RoleReport
from perdure.domain.approval import Approval
from perdure.domain.policy import Facts, PolicyDocument, judge
from perdure.domain.principal import DECIDING, PrincipalKind, PrincipalView, Voter, conditions_of, why_not
from perdure.store.move import StoreTransaction
from perdure.store.moves import approval, principal

WAITING = 200  # approvals that are examined
NAMES = 5
DECIDES = "perdure approve a-1 --because yes"  # what an agent's command must not do
HIDES = {
    Level.BUBBLEWRAP: "bubblewrap hides the store, the runtime folder and the socket of the service from commands",
    Level.LANDLOCK: "Landlock keeps commands from writing the store; the service gives a confined process no identity",
}


class GateStatus(msgspec.Struct, frozen=True):
    """One promise of gates: whether it is kept here, and the evidence."""

    what: str
    met: bool
    evidence: str


class GateReport(msgspec.Struct, frozen=True):
    """The promises, and the approvals that wait for more votes than there are people who may decide."""

    promises: list[GateStatus] = []
    unreachable: list[str] = []


def examine_gates(
    tx: StoreTransaction, *, roles: RoleReport | None, sandbox: Level, policy: PolicyDocument | None
) -> GateReport:
    """Read the evidence. `policy` is what applies to the commands of agents; None: it cannot be read."""
    known = principal.listing(tx)
    deciders = [one for one in known if may_decide(one)]
    waiting = approval.listing(tx, decision="waiting", limit=WAITING)
    promises = [
        _separation(known),
        _quorum(known, deciders),
        _rights(roles),
        GateStatus("commands of agents cannot reach the store", sandbox in HIDES, HIDES.get(sandbox, NO_SANDBOX)),
        _policy(policy),
    ]
    voters = [principal.voter(tx, one.logins[0], one.name) for one in known if one.logins]
    return GateReport(promises, [one.id for one in waiting if known and _is_unreachable(tx, one, voters)])


NO_SANDBOX = "there is no sandbox on this machine: a command that is allowed can do what its user can, and vote as it"


def may_decide(one: PrincipalView) -> bool:
    """Whether a principal may decide where a gate names no one, and can log in."""
    return one.kind == PrincipalKind.PERSON and bool(DECIDING & set(one.roles)) and bool(one.logins)


def _separation(known: list[PrincipalView]) -> GateStatus:
    said = f"registered logins are compared ({len(known)})" if known else "no principals: only names are compared"
    return GateStatus("another person than the requester decides", bool(known), said)


def _quorum(known: list[PrincipalView], deciders: list[PrincipalView]) -> GateStatus:
    names = ", ".join(one.name for one in deciders[:NAMES]) + (", …" if len(deciders) > NAMES else "")
    said = f"who may decide: {names}" if deciders else "no registered person may decide"
    return GateStatus(
        "a quorum above one", len(deciders) > 1, said if known else "it counts principals, and there are none"
    )


def _rights(roles: RoleReport | None) -> GateStatus:
    what = "the database refuses votes by workers"
    if roles is None:
        return GateStatus(what, met=False, evidence="who may write the file can write votes too")
    powerful = sorted({*roles.powerful_clients, *([roles.login] if roles.is_owner or roles.is_superuser else [])})
    if not roles.in_force:
        return GateStatus(what, met=False, evidence="the roles are not in force: `perdure roles`")
    if powerful:
        return GateStatus(what, met=False, evidence=f"{', '.join(powerful)} may do everything")
    return GateStatus(what, met=True, evidence=f"the rights of {roles.prefix}_worker are as declared")


def _policy(document: PolicyDocument | None) -> GateStatus:
    what = "the policy denies commands that decide"
    if document is None:
        return GateStatus(what, met=False, evidence="the policy cannot be read")
    answer = judge(document, Facts(tool="run_command", reach="machine", command=DECIDES)).answer
    return GateStatus(what, answer == "deny", f"`{DECIDES}`: {answer}")


def _is_unreachable(tx: StoreTransaction, one: Approval, voters: list[Voter]) -> bool:
    """Whether fewer people than votes are needed may decide it, also after its escalation."""
    one = approval.requested_here(tx, one)
    asked = one if one.escalate_at is None else msgspec.structs.replace(one, escalated_at=one.escalate_at)
    owner = principal.with_name(tx, one.requester)
    uid = None if owner is None else owner.uid
    may = [each for each in voters if why_not(each, asked, conditions_of(one), governed=True, owner_uid=uid) is None]
    return len(may) < one.quorum
