"""The effect ledger: list, read, settle a doubt, request an undo."""

from __future__ import annotations

from typing import Any

from perdure.domain.caller import Verb
from perdure.domain.effect import Effect
from perdure.domain.literals import EffectStateWord, VerdictWord
from perdure.runtime.effect_details import EffectDetails
from perdure.server.authorization import Sight
from perdure.server.operation import Body, Context, Ids, InSession, Number, Operation, Touch
from perdure.server.page import Page, PageQuery, keyed_page
from perdure.store.moves import effect as effects
from perdure.store.moves import page


class EffectQuery(PageQuery, frozen=True):
    """Which effects. `target` may end with `*`; `since` is a time in microseconds."""

    session: str | None = None
    state: EffectStateWord | None = None
    tool: str | None = None
    in_doubt: bool = False
    since: Number = 0
    target: str | None = None


class SettleEffect(Body, frozen=True):
    """The outcome of an effect in doubt, and how you know it."""

    verdict: VerdictWord
    because: str
    reference: str | None = None
    result: Any = None


class UndoEffect(Body, frozen=True):
    """Why it is undone."""

    because: str


async def listing(context: Context) -> Page[Effect]:
    query: EffectQuery = context.query
    sight = Sight(context)
    uid = await sight.session_uid(query.session)
    await context.runtime.queries.access.note("transcript", uid, subject="effects")
    found = await keyed_page(
        context, sight, page.effects, (int, str), uid=uid, state=query.state, tool=query.tool,
        in_doubt=query.in_doubt, since=query.since, target=query.target,
    )  # fmt: skip
    return Page([context.runtime.values.shown(one) for one in found.items], found.next)


async def get(context: Context) -> EffectDetails:
    found: Effect = context.found
    return await context.runtime.effect(found.id, session=found.session_uid)


async def settle(context: Context) -> Effect:
    body: SettleEffect = context.body
    return await context.runtime.settle(
        context.found.id, body.verdict, session=context.uid, by=context.by, because=body.because,
        reference=body.reference, result=body.result,
    )  # fmt: skip


async def undo(context: Context) -> Effect:
    return await context.runtime.ask_undo(
        context.found.id, session=context.uid, by=context.by, because=context.body.because
    )


async def again(context: Context, _: Ids) -> Effect:
    found = await context.store.read(effects.get, context.found.session_uid, context.found.id)
    return context.runtime.values.shown(found)


OPERATIONS = (
    Operation(
        name="effects.list", method="GET", path="/v1/effects", verb=Verb.READ_EFFECT, touches=Touch.LISTING,
        handler=listing, answer=Page[Effect], query=EffectQuery, summary="Effects, the newest first.",
    ),
    Operation(
        name="effects.get", method="GET", path="/v1/effects/{id}", verb=Verb.READ_EFFECT, touches=Touch.EFFECT,
        query=InSession,
        handler=get, answer=EffectDetails, summary="One effect with its attempts, its result and its output.",
    ),
    Operation(
        name="effects.settle", method="POST", path="/v1/effects/{id}/settle", query=InSession, verb=Verb.SETTLE_EFFECT,
        touches=Touch.EFFECT, handler=settle, answer=Effect, body=SettleEffect, again=again,
        example={"verdict": "happened", "because": "the comment is on the page", "reference": "comment 7"},
        summary="Settle an effect in doubt, as a person who has looked.",
    ),
    Operation(
        name="effects.undo", method="POST", path="/v1/effects/{id}/undo", query=InSession, verb=Verb.SETTLE_EFFECT,
        touches=Touch.EFFECT, handler=undo, answer=Effect, body=UndoEffect, again=again,
        example={"because": "it was the wrong page"},
        summary="Request the undo of an acknowledged effect; the next process that runs the session does it.",
    ),
)  # fmt: skip
