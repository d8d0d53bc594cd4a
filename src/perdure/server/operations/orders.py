"""Standing orders for agents: for all of them, or for those of a repository."""

from __future__ import annotations

import asyncio
from typing import Any

from perdure.domain.caller import Place, Verb
from perdure.domain.fact import Fact
from perdure.runtime.start.repository_identity import identify
from perdure.server.operation import Body, Context, Ids, Operation, Touch
from perdure.server.operations.facts import nothing, was_set
from perdure.server.page import Page, PageQuery, page_of


class OrderQuery(PageQuery, frozen=True):
    """Those of a repository besides those for every agent."""

    repository: str | None = None


class AddOrder(Body, frozen=True):
    """The text; an order of the same name is replaced."""

    text: str
    name: str | None = None
    repository: str | None = None


class RemoveOrder(Body, frozen=True):
    """Which order."""

    name: str
    repository: str | None = None


async def listing(context: Context) -> Page[Fact]:
    query: OrderQuery = context.query
    asked = query.repository
    if asked is not None and not context.caller.may(Verb.READ_RECORD, await _place(asked)):
        asked = None  # only those for every agent
    found = [one async for one in context.runtime.orders(repository=asked)]
    return page_of(found, query, lambda one: (one.scope, one.key))


async def _place(repository: str | None) -> Place:
    return Place("", None if repository is None else await asyncio.to_thread(identify, repository))


async def place(context: Context) -> Place:
    return await _place(context.body.repository)


async def add(context: Context) -> Fact:
    body: AddOrder = context.body
    return await context.runtime.add_order(body.text, name=body.name, repository=body.repository, by=context.by)


async def remove(context: Context) -> None:
    await context.runtime.remove_order(context.body.name, repository=context.body.repository)


async def added(context: Context, ids: Ids) -> Fact | None:
    return await was_set(context, ids)


CHANGE: dict[str, Any] = {"method": "POST", "verb": Verb.WRITE_RECORD, "touches": Touch.PLACE, "place": place}

OPERATIONS = (
    Operation(
        name="orders.list", method="GET", path="/v1/orders", verb=Verb.READ_RECORD, touches=Touch.LISTING,
        handler=listing, answer=Page[Fact], query=OrderQuery, summary="The standing orders for agents.",
    ),
    Operation(
        name="orders.add", path="/v1/orders", **CHANGE, handler=add, answer=Fact, body=AddOrder, status=201,
        again=added, made=lambda result: {"scope": result.scope, "key": result.key},
        example={"text": "Run the tests before you push.", "name": "tests"}, summary="Give a standing order.",
    ),
    Operation(
        name="orders.remove", path="/v1/orders/remove", **CHANGE, handler=remove, body=RemoveOrder, again=nothing,
        example={"name": "tests"}, summary="Remove a standing order.",
    ),
)  # fmt: skip
