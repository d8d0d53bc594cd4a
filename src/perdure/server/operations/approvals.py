"""Approvals: list, read, vote, withdraw.

The voter is the caller that was authenticated. Nothing in the body of a request names one.
"""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.domain.approval import Approval, Vote
from perdure.domain.caller import Verb
from perdure.domain.effect import Effect
from perdure.domain.literals import DecisionWord, RememberWord
from perdure.errors import Conflict
from perdure.server.authorization import Sight
from perdure.server.operation import Body, Context, Ids, InSession, Operation, Touch
from perdure.server.page import Page, PageQuery, keyed_page
from perdure.store.move import StoreTransaction
from perdure.store.moves import approval, page, quorum
from perdure.store.moves import effect as effects
from perdure.store.moves import session as sessions


class ApprovalQuery(PageQuery, frozen=True):
    """Which approvals; those that are not decided are `waiting`."""

    session: str | None = None
    decision: DecisionWord | None = None


class ApproveCall(Body, frozen=True):
    """Why, and whether later calls like it are allowed in this session too."""

    because: str | None = None
    remember: RememberWord = "once"
    intent_digest: str | None = None  # of the call that was shown: the vote is for this one only


class DenyCall(Body, frozen=True):
    """Why; an agent's model is told."""

    because: str | None = None
    intent_digest: str | None = None  # of the call that was shown: the vote is for this one only


class WithdrawApproval(Body, frozen=True):
    """Why the approval does not hold any more."""

    because: str


class ApprovalDetails(msgspec.Struct, frozen=True):
    """An approval with the exact effect that it is bound to, from the ledger, and the votes so far."""

    approval: Approval
    effect: Effect
    session: str  # the id of its session
    votes: list[Vote]
    detail: Any = None  # what the gate or the policy said


async def listing(context: Context) -> Page[Approval]:
    query: ApprovalQuery = context.query
    sight = Sight(context)
    uid = await sight.session_uid(query.session)
    return await keyed_page(context, sight, page.approvals, (int, int, str, str), uid=uid, decision=query.decision)


async def get(context: Context) -> ApprovalDetails:
    found: Approval = context.found
    await context.note_read("approval", found.id)
    details = await context.store.read(_details, found.session_uid, found.id)
    return msgspec.structs.replace(details, effect=context.runtime.values.whole(details.effect))


def _details(tx: StoreTransaction, uid: str, id: str) -> ApprovalDetails:
    one = approval.get(tx, uid, id)
    planned = effects.get(tx, uid, one.effect_id)
    votes = quorum.votes(tx, uid, id)
    return ApprovalDetails(one, planned, sessions.get(tx, uid).id, votes, approval.detail_of(tx, one))


async def approve(context: Context) -> Approval:
    body: ApproveCall = context.body
    check_intent(context.found, body.intent_digest)
    return await context.runtime.approve(
        context.found.id, session=context.uid, by=context.by, because=body.because, remember=body.remember
    )


def check_intent(asked: Approval, shown: str | None) -> None:
    """Refuse a vote of a person who was shown another call. What an approval is bound to never changes."""
    if shown is not None and shown != asked.intent_digest:
        raise Conflict(
            f"Approval {asked.id} is for another call than the one that was shown.", hint="Read it again, then decide."
        )


async def deny(context: Context) -> Approval:
    check_intent(context.found, context.body.intent_digest)
    return await context.runtime.deny(
        context.found.id, session=context.uid, by=context.by, because=context.body.because
    )


async def withdraw(context: Context) -> Approval:
    return await context.runtime.withdraw(
        context.found.id, session=context.uid, by=context.by, because=context.body.because
    )


async def again(context: Context, _: Ids) -> Approval:
    return await context.store.read(approval.get, context.found.session_uid, context.found.id)


OPERATIONS = (
    Operation(
        name="approvals.list", method="GET", path="/v1/approvals", verb=Verb.READ_APPROVAL, touches=Touch.LISTING,
        handler=listing, answer=Page[Approval], query=ApprovalQuery,
        summary="Approvals; undecided ones first, the oldest at the top.",
    ),
    Operation(
        name="approvals.get", method="GET", path="/v1/approvals/{id}", query=InSession, verb=Verb.READ_APPROVAL,
        touches=Touch.APPROVAL, handler=get, answer=ApprovalDetails,
        summary="An approval with the exact call that it is bound to, and its votes.",
    ),
    Operation(
        name="approvals.approve", method="POST", path="/v1/approvals/{id}/approve", query=InSession, verb=Verb.VOTE,
        touches=Touch.APPROVAL, handler=approve, answer=Approval, body=ApproveCall, again=again,
        example={"because": "the tests pass"}, summary="Approve exactly this call, as yourself.",
    ),
    Operation(
        name="approvals.deny", method="POST", path="/v1/approvals/{id}/deny", verb=Verb.VOTE, touches=Touch.APPROVAL,
        query=InSession,
        handler=deny, answer=Approval, body=DenyCall, again=again, example={"because": "not on a Friday"},
        summary="Deny this call, as yourself.",
    ),
    Operation(
        name="approvals.withdraw", method="POST", path="/v1/approvals/{id}/withdraw", verb=Verb.WITHDRAW_APPROVAL,
        query=InSession,
        touches=Touch.APPROVAL, handler=withdraw, answer=Approval, body=WithdrawApproval, again=again,
        example={"because": "the branch has moved"},
        summary="Withdraw an approval, or the request for one, before the effect was dispatched.",
    ),
)  # fmt: skip
