"""Decisions of sessions, and their outcomes."""

from __future__ import annotations

from perdure.domain.caller import Verb
from perdure.domain.decision import Decision
from perdure.server.authorization import Sight
from perdure.server.operation import Body, Context, Ids, Operation, Touch
from perdure.server.page import Page, PageQuery, keyed_page
from perdure.store.moves import decision, page


class DecisionQuery(PageQuery, frozen=True):
    """Which decisions: of one session, or only those without an outcome."""

    session: str | None = None
    incomplete: bool = False


class SettleDecision(Body, frozen=True):
    """What became of it."""

    outcome: str


async def listing(context: Context) -> Page[Decision]:
    query: DecisionQuery = context.query
    sight = Sight(context)
    uid = await sight.session_uid(query.session)
    return await keyed_page(
        context, sight, page.decisions, (int, str, str), uid=uid, incomplete=query.incomplete
    )  # fmt: skip


async def settle(context: Context) -> Decision:
    return await context.runtime.settle_decision(
        context.uid, context.params["decision"], context.body.outcome, by=context.by
    )


async def again(context: Context, _: Ids) -> Decision:
    return await context.store.read(decision.find, context.uid, context.params["decision"])


OPERATIONS = (
    Operation(
        name="decisions.list", method="GET", path="/v1/decisions", verb=Verb.READ_RECORD, touches=Touch.LISTING,
        handler=listing, answer=Page[Decision], query=DecisionQuery, summary="Decisions, the newest first.",
    ),
    Operation(
        name="decisions.settle", method="POST", path="/v1/sessions/{id}/decisions/{decision}/settle",
        verb=Verb.WRITE_RECORD, touches=Touch.SESSION, handler=settle, answer=Decision, body=SettleDecision,
        again=again, example={"outcome": "commented"}, summary="Record the outcome of a decision.",
    ),
)  # fmt: skip
