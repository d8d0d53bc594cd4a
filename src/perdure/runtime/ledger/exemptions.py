"""Exemptions in the ledger: a call begins without a question if exemptions lift everything that objects to it.

They are read only for a call that is not allowed, so a call that is allowed costs nothing more. What is read here is
only looked up; the use is counted in the transaction of the dispatch, and one that ended meanwhile is refused there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perdure.domain.exemption import Exemption, ExemptionScope
from perdure.domain.session import SessionRecord
from perdure.runtime.ledger.policy import Objection, Ruling, rule_on
from perdure.runtime.run.run import Run
from perdure.store.move import StoreTransaction
from perdure.store.moves import exemption


async def lift(run: Run, ruling: Ruling, tool: str, effect_id: str, intent_digest: str) -> Ruling:
    """The ruling without the objections that exemptions lift."""
    if not (rules := _liftable(ruling)):
        return ruling
    scope = scope_of(run.session, tool, intent_digest)
    return lifted(ruling, await run.read(exemption.lifting, rules, scope, effect_id))


def lift_in(
    tx: StoreTransaction, ruling: Ruling, session: SessionRecord, tool: str, effect_id: str, intent_digest: str
) -> Ruling:
    """The same in a transaction, for a plan that only shows what would be done."""
    if not (rules := _liftable(ruling)):
        return ruling
    return lifted(ruling, exemption.lifting(tx, rules, scope_of(session, tool, intent_digest), effect_id))


def scope_of(session: SessionRecord, tool: str, intent_digest: str) -> ExemptionScope:
    """What an exemption is compared with."""
    return ExemptionScope(
        session_uid=session.uid, repository=session.repository_id, owner=session.owner, tool=tool,
        intent_digest=intent_digest,
    )  # fmt: skip


def lifted(ruling: Ruling, found: Mapping[str, Exemption]) -> Ruling:
    """What remains of a ruling."""
    left = [one for one in ruling.objections if not (one.may_lift and one.rule in found)]
    if len(left) == len(ruling.objections):
        return ruling
    used = [found[rule] for rule in dict.fromkeys(one.rule for one in ruling.objections if one.rule in found)]
    why = "; ".join(f"{one.granted_by} lifted the rule {one.rule}: {one.reason}" for one in used)
    return rule_on(left, ruling.basis, tuple(one.id for one in used), why)


def _liftable(ruling: Ruling) -> Sequence[tuple[str, exemption.Grantor]]:
    """The rules that exemptions may lift, each with who must have granted them."""
    may = [one for one in ruling.objections if one.may_lift]
    return [(rule, _grantor(may, rule)) for rule in dict.fromkeys(one.rule for one in may)]


def _grantor(objections: Sequence[Objection], rule: str) -> exemption.Grantor:
    """An exemption is not weaker than the rule: what denies, or names who decides, is lifted by an owner."""
    return "any" if all(one.may_remember for one in objections if one.rule == rule) else "owner"
