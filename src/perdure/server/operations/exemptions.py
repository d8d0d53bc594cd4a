"""Exemptions from rules of the policy: list, read, grant, revoke."""

from __future__ import annotations

import asyncio

from perdure.domain.caller import Place, Placed, Verb
from perdure.domain.exemption import Exemption, ExemptionUse
from perdure.errors import Conflict, NotFound
from perdure.runtime.policy.exemptions import repository_name
from perdure.server.authorization import Sight, missing_name, place_of_session
from perdure.server.operation import Body, Context, Ids, Operation, Touch
from perdure.server.page import Page, PageQuery, page_of


class ExemptionQuery(PageQuery, frozen=True):
    """Which exemptions; `active`: only those that still cover something."""

    session: str | None = None
    rule: str | None = None
    active: bool = False


class GrantExemption(Body, frozen=True):
    """The rule that is lifted, for what, why and for how long."""

    rule: str
    because: str
    session: str | None = None
    repository: str | None = None
    owner: str | None = None
    tool: str | None = None
    expires: str | float = "24h"
    uses: int | None = None


class RevokeExemption(Body, frozen=True):
    """Why the exemption ends early."""

    because: str


async def _sees(sight: Sight, one: Exemption) -> bool:
    if one.session_uid is not None:
        return await sight.sees_session(one.session_uid)
    return sight.sees(Place("", one.repository))


async def listing(context: Context) -> Page[Exemption]:
    query: ExemptionQuery = context.query
    sight = Sight(context)
    uid = await sight.session_uid(query.session)
    found = context.runtime.exemptions(session=uid, rule=query.rule, active=query.active)
    kept = [one async for one in found if await _sees(sight, one)]
    return page_of(kept, query, lambda one: (-one.granted_at, one.id))


async def get(context: Context) -> Exemption:
    id = context.params["id"]
    sight = Sight(context, Verb.READ_EXEMPTION)
    try:
        found = await context.runtime.exemption(id)
    except (NotFound, Conflict):
        if sight.sees_all:
            raise
        raise missing_name("exemption", id) from None
    if not await _sees(sight, found):
        raise missing_name("exemption", id)
    return found


async def uses(context: Context) -> Page[ExemptionUse]:
    found = [one async for one in context.runtime.exemption_uses((await get(context)).id)]
    return page_of(found, context.query, lambda one: (-one.at, one.session_uid, one.effect_id))


async def place_of_grant(context: Context) -> Placed:
    """Where it is for; what is authorized is what is granted: a folder is looked at once."""
    body: GrantExemption = context.body
    context.found = await asyncio.to_thread(repository_name, body.repository)
    if body.session is not None:
        return await place_of_session(context, body.session)
    return Place("", context.found)


async def place(context: Context) -> Placed:
    found = await get(context)
    if found.session_uid is not None:
        return await place_of_session(context, found.session_uid)
    return Place("", found.repository)


async def grant(context: Context) -> Exemption:
    body: GrantExemption = context.body
    return await context.runtime.grant_exemption(
        body.rule, because=body.because, session=body.session, repository=context.found, owner=body.owner,
        tool=body.tool, expires=body.expires, uses=body.uses, by=context.by,
    )  # fmt: skip


async def granted(context: Context, ids: Ids) -> Exemption:
    return await context.runtime.exemption(ids["exemption"])


async def revoke(context: Context) -> Exemption:
    found = await get(context)
    return await context.runtime.revoke_exemption(found.id, because=context.body.because, by=context.by)


async def again(context: Context, _: Ids) -> Exemption:
    return await get(context)


OPERATIONS = (
    Operation(
        name="exemptions.list", method="GET", path="/v1/exemptions", verb=Verb.READ_EXEMPTION, touches=Touch.LISTING,
        handler=listing, answer=Page[Exemption], query=ExemptionQuery, summary="Exemptions, the newest first.",
    ),
    Operation(
        name="exemptions.get", method="GET", path="/v1/exemptions/{id}", verb=Verb.READ_EXEMPTION,
        touches=Touch.LISTING, handler=get, answer=Exemption, refusals=(409,), summary="One exemption.",
    ),
    Operation(
        name="exemptions.uses", method="GET", path="/v1/exemptions/{id}/uses", verb=Verb.READ_EXEMPTION,
        touches=Touch.LISTING, handler=uses, answer=Page[ExemptionUse], query=PageQuery, refusals=(409,),
        summary="The effects that used an exemption.",
    ),
    Operation(
        name="exemptions.grant", method="POST", path="/v1/exemptions", verb=Verb.GRANT_EXEMPTION,
        touches=Touch.PLACE, place=place_of_grant, handler=grant, answer=Exemption, body=GrantExemption, status=201,
        made=lambda result: {"exemption": result.id}, again=granted,
        example={"rule": "no-push", "because": "release day", "session": "review-7", "expires": "2h"},
        summary="Lift a rule of the policy for what is named.",
    ),
    Operation(
        name="exemptions.revoke", method="POST", path="/v1/exemptions/{id}/revoke", verb=Verb.GRANT_EXEMPTION,
        touches=Touch.PLACE, place=place, handler=revoke, answer=Exemption, body=RevokeExemption, again=again,
        example={"because": "the release is out"}, summary="Revoke an exemption: it covers nothing new.",
    ),
)  # fmt: skip
