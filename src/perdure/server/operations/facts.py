"""Facts: what is remembered in a session, for a repository, or in a shared scope.

A fact of a session is visible to whom the session is. The others belong to the whole store.
"""

from __future__ import annotations

from typing import Any

from perdure.domain.caller import Placed, Verb
from perdure.domain.fact import Fact, private_scope
from perdure.server.authorization import Sight, place_of_session
from perdure.server.operation import Body, Context, Ids, Number, Operation, Touch
from perdure.server.page import Page, PageQuery, keyed_page
from perdure.store.moves import fact, page


class FactQuery(PageQuery, frozen=True):
    """Which facts: of a scope, or of a session."""

    scope: str | None = None
    session: str | None = None


class FactName(Body, frozen=True):
    """One fact: its key in exactly one of a scope, a session and a repository."""

    key: str
    scope: str | None = None
    session: str | None = None
    repository: str | None = None


class SetFact(FactName, frozen=True, kw_only=True):
    """A fact, and the version of it that was read (0: none)."""

    value: Any
    expected: Number | None = None
    verify: str | None = None
    stale_after: str | float | None = None


async def listing(context: Context) -> Page[Fact]:
    query: FactQuery = context.query
    sight = Sight(context)
    uid = await sight.session_uid(query.session)
    scope = query.scope if uid is None else private_scope(uid)
    return await keyed_page(context, sight, page.facts, (str, str), scope=scope)


async def place(context: Context) -> Placed:
    body: FactName = context.body
    return await place_of_session(context, body.session)


def _named(body: FactName) -> dict[str, str | None]:
    return {"scope": body.scope, "session": body.session, "repository": body.repository}


async def set_(context: Context) -> Fact:
    body: SetFact = context.body
    return await context.runtime.set_fact(
        body.key, body.value, **_named(body), expected=body.expected, verify=body.verify,
        stale_after=body.stale_after, by=context.by,
    )  # fmt: skip


async def was_set(context: Context, ids: Ids) -> Fact | None:
    return await context.store.read(fact.get, ids["scope"], ids["key"])


async def verify(context: Context) -> None:
    await context.runtime.verify_fact(context.body.key, **_named(context.body), by=context.by)


async def forget(context: Context) -> None:
    await context.runtime.forget_fact(context.body.key, **_named(context.body), by=context.by)


async def nothing(_context: Context, _: Ids) -> None:
    """It was done."""


EXAMPLE = {"key": "branch", "value": "main", "scope": "team", "expected": 0}
NAMED = {"key": "branch", "scope": "team"}
CHANGE: dict[str, Any] = {"method": "POST", "verb": Verb.WRITE_RECORD, "touches": Touch.PLACE, "place": place}

OPERATIONS = (
    Operation(
        name="facts.list", method="GET", path="/v1/facts", verb=Verb.READ_RECORD, touches=Touch.LISTING,
        handler=listing, answer=Page[Fact], query=FactQuery, summary="Facts, by scope and key.",
    ),
    Operation(
        name="facts.set", path="/v1/facts", **CHANGE, handler=set_, answer=Fact, body=SetFact, again=was_set,
        made=lambda result: {"scope": result.scope, "key": result.key}, example=EXAMPLE, summary="Write a fact.",
    ),
    Operation(
        name="facts.verify", path="/v1/facts/verify", **CHANGE, handler=verify, body=FactName, again=nothing,
        example=NAMED, summary="Record that a fact was checked and still holds.",
    ),
    Operation(
        name="facts.forget", path="/v1/facts/forget", **CHANGE, handler=forget, body=FactName, again=nothing,
        example=NAMED, summary="Forget a fact.",
    ),
)  # fmt: skip
