"""Queues and the limits of model providers."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from perdure.domain.caller import Place, Verb
from perdure.domain.queue import Queue, QueueView
from perdure.domain.queue_latency import QueueLatency
from perdure.domain.rate_limit import RateLimit
from perdure.server.authorization import Sight, missing_name
from perdure.server.operation import Body, Context, Ids, Operation, Touch
from perdure.server.page import Page, PageQuery, page_of
from perdure.store.moves import queue, rate_limit


class SetQueue(Body, frozen=True):
    """What changes; what is left out stays, and null removes a limit. `rate` is such as `10/1m`."""

    concurrency: int | UnsetType | None = UNSET
    per_key: int | UnsetType | None = UNSET
    per_worker: int | UnsetType | None = UNSET
    rate: str | UnsetType | None = UNSET
    max_depth: int | UnsetType | None = UNSET
    paused: bool | UnsetType = UNSET
    closed: bool | UnsetType = UNSET


class SetRateLimit(Body, frozen=True):
    """Requests and tokens in a minute; what is left out stays, and null removes a limit."""

    requests: int | UnsetType | None = UNSET
    tokens: int | UnsetType | None = UNSET


async def listing(context: Context) -> Page[QueueView]:
    sight = Sight(context)
    found = [one async for one in context.runtime.queues() if sight.sees(Place(one.name))]
    return page_of(found, context.query, lambda one: (one.name,))


async def place(context: Context) -> Place:
    return Place(context.params["name"])


async def get(context: Context) -> QueueView:
    name = context.params["name"]
    if Sight(context).sees(Place(name)):
        async for one in context.runtime.queues():
            if one.name == name:
                return one
    raise missing_name("queue", name)


async def latency(context: Context) -> QueueLatency:
    name = context.params["name"]
    if not Sight(context).sees(Place(name)):
        raise missing_name("queue", name)
    return await context.runtime.queue_latency(name)


async def set_(context: Context) -> Queue:
    given = {name: getattr(context.body, name) for name in SetQueue.__struct_fields__}
    return await context.runtime.set_queue(context.params["name"], **given, by=context.by)


async def was_set(context: Context, _: Ids) -> Queue | None:
    return await context.store.read(queue.get, context.params["name"])


async def limits(context: Context) -> Page[RateLimit]:
    found = [one async for one in context.runtime.rate_limits()]
    return page_of(found, context.query, lambda one: (one.name,))


async def set_limit(context: Context) -> RateLimit:
    body: SetRateLimit = context.body
    return await context.runtime.set_rate_limit(
        context.params["name"], requests=body.requests, tokens=body.tokens, by=context.by
    )


async def limit_again(context: Context, _: Ids) -> RateLimit | None:
    return await context.store.read(rate_limit.get, context.params["name"])


LIMITS: dict[str, Any] = {"touches": Touch.STORE}

OPERATIONS = (
    Operation(
        name="queues.list", method="GET", path="/v1/queues", verb=Verb.READ_QUEUE, touches=Touch.LISTING,
        handler=listing, answer=Page[QueueView], query=PageQuery,
        summary="Queues with their limits and the numbers of their sessions, by name.",
    ),
    Operation(
        name="queues.get", method="GET", path="/v1/queues/{name}", verb=Verb.READ_QUEUE, touches=Touch.LISTING,
        handler=get, answer=QueueView, summary="One queue.",
    ),
    Operation(
        name="queues.latency", method="GET", path="/v1/queues/{name}/latency", verb=Verb.READ_QUEUE,
        touches=Touch.LISTING, handler=latency, answer=QueueLatency,
        summary="How many sessions of a queue ended in the last hour and day, how long they waited, how long they ran.",
    ),
    Operation(
        name="queues.set", method="POST", path="/v1/queues/{name}", verb=Verb.CHANGE_QUEUE, touches=Touch.PLACE,
        place=place, handler=set_, answer=Queue, body=SetQueue, again=was_set,
        example={"concurrency": 4, "rate": "10/1m"}, summary="Change the limits of a queue, pause it or close it.",
    ),
    Operation(
        name="rate_limits.list", method="GET", path="/v1/rate-limits", verb=Verb.READ_QUEUE, **LIMITS, handler=limits,
        answer=Page[RateLimit], query=PageQuery, summary="The limits of model providers that all workers share.",
    ),
    Operation(
        name="rate_limits.set", method="POST", path="/v1/rate-limits/{name}", verb=Verb.CHANGE_QUEUE, **LIMITS,
        handler=set_limit, answer=RateLimit, body=SetRateLimit, again=limit_again,
        example={"requests": 60, "tokens": 100000}, summary="Set what a provider or a model accepts in a minute.",
    ),
)  # fmt: skip
