"""Schedules: what starts sessions at certain times. A schedule is where its sessions are."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.domain.caller import Place, Verb
from perdure.domain.literals import CatchUpWord, OverlapWord
from perdure.domain.schedule import Schedule
from perdure.domain.session import SessionRecord
from perdure.errors import NotFound
from perdure.runtime.queries import SessionView
from perdure.server.authorization import Sight, missing_name, owner_of_start
from perdure.server.operation import Body, Context, Ids, Nothing, Operation, Touch
from perdure.server.operations.facts import nothing
from perdure.server.operations.sessions import bind, made_again, place_of
from perdure.server.page import Page, PageQuery, page_of
from perdure.store.moves import schedule

NEWEST = 20


class PutSchedule(Body, frozen=True):
    """A program with its arguments, when it is started, and how."""

    program: str
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)
    cron: str | None = None
    every: str | float | None = None
    timezone: str = "UTC"
    jitter: str | float = 0
    overlap: OverlapWord = "skip"
    catch_up: CatchUpWord = "last"
    owner: str | None = None
    repository: str | None = None
    title: str | None = None
    queue: str = "default"
    priority: int = 0
    key: str | None = None
    retries: int | None = None
    timeout: str | float | None = None
    pin: bool = False


class Backfill(Body, frozen=True):
    """From which time to which, with an offset, or in the time zone of the schedule."""

    since: str
    until: str


class StartedSessions(msgspec.Struct, frozen=True):
    """The ids of sessions that were started."""

    sessions: list[str]


async def _place(one: Schedule) -> Place:
    options = one.options if isinstance(one.options, dict) else {}
    return await place_of(str(options.get("queue") or "default"), options.get("repository"))


async def listing(context: Context) -> Page[Schedule]:
    sight = Sight(context)
    found = [one async for one in context.runtime.schedules() if sight.sees_all or sight.sees(await _place(one))]
    return page_of(found, context.query, lambda one: (one.name,))


async def get(context: Context) -> Schedule:
    name, sight = context.params["name"], Sight(context, Verb.READ_SCHEDULE)
    try:
        found = await context.runtime.schedule_handler.get(name)
    except NotFound:
        raise missing_name("schedule", name) from None
    if not sight.sees(await _place(found)):
        raise missing_name("schedule", name)
    return found


async def again(context: Context, _: Ids) -> Schedule:
    return await get(context)


async def place(context: Context) -> Place:
    return await _place(await get(context))


async def newest(context: Context) -> list[SessionRecord]:
    found = await get(context)
    sight = Sight(context, Verb.READ_SESSION)
    return [
        one for one in await context.store.read(schedule.newest_sessions, found.uid, limit=NEWEST) if sight.sees(one)
    ]


async def place_of_put(context: Context) -> Place:
    """Where its sessions will be. One that exists elsewhere is not changed by who may not see it."""
    body: PutSchedule = context.body
    wanted = await place_of(body.queue, body.repository)
    try:
        found = await context.runtime.schedule_handler.get(context.params["name"])
    except NotFound:
        return wanted
    there = await _place(found)
    return wanted if context.caller.may(Verb.CHANGE_SCHEDULE, there) else Place()


async def put(context: Context) -> Schedule:
    body: PutSchedule = context.body
    given = {
        name: getattr(body, name)
        for name in PutSchedule.__struct_fields__
        if name not in ("program", "arguments", "owner")
    }
    owner = owner_of_start(context, body.owner)
    return await context.runtime.add_schedule(
        context.params["name"], bind(body.program, body.arguments), owner=owner, by=context.by, **given
    )  # fmt: skip


async def pause(context: Context) -> Schedule:
    return await context.runtime.pause_schedule(context.params["name"], by=context.by)


async def resume(context: Context) -> Schedule:
    return await context.runtime.resume_schedule(context.params["name"], by=context.by)


async def remove(context: Context) -> None:
    await context.runtime.remove_schedule(context.params["name"], by=context.by)


async def trigger(context: Context) -> SessionView:
    return await context.runtime.trigger_schedule(context.params["name"], by=context.by)


async def backfill(context: Context) -> StartedSessions:
    body: Backfill = context.body
    return StartedSessions(await context.runtime.backfill(context.params["name"], body.since, body.until))


async def backfilled(_context: Context, _: Ids) -> StartedSessions:
    return StartedSessions([])


PATH = "/v1/schedules/{name}"
CHANGE: dict[str, Any] = {"method": "POST", "verb": Verb.CHANGE_SCHEDULE, "touches": Touch.PLACE}
HERE: dict[str, Any] = {**CHANGE, "place": place}
EXAMPLE = {"program": "review", "arguments": {"pr": 7}, "cron": "0 6 * * *", "timezone": "Europe/Berlin"}

OPERATIONS = (
    Operation(
        name="schedules.list", method="GET", path="/v1/schedules", verb=Verb.READ_SCHEDULE, touches=Touch.LISTING,
        handler=listing, answer=Page[Schedule], query=PageQuery, summary="Schedules, by name.",
    ),
    Operation(
        name="schedules.get", method="GET", path=PATH, verb=Verb.READ_SCHEDULE, touches=Touch.LISTING, handler=get,
        answer=Schedule, summary="One schedule.",
    ),
    Operation(
        name="schedules.sessions", method="GET", path=f"{PATH}/sessions", verb=Verb.READ_SCHEDULE,
        touches=Touch.LISTING, handler=newest, answer=list[SessionRecord],
        summary="The newest sessions that a schedule started.",
    ),
    Operation(
        name="schedules.put", path=PATH, **CHANGE, place=place_of_put, handler=put, answer=Schedule, body=PutSchedule,
        again=again, example=EXAMPLE, summary="Add a schedule, or change the one of this name.",
    ),
    Operation(
        name="schedules.pause", path=f"{PATH}/pause", **HERE, handler=pause, answer=Schedule, body=Nothing,
        again=again, summary="Start no sessions of a schedule until it is resumed.",
    ),
    Operation(
        name="schedules.resume", path=f"{PATH}/resume", **HERE, handler=resume, answer=Schedule, body=Nothing,
        again=again, summary="Resume a paused schedule.",
    ),
    Operation(
        name="schedules.trigger", path=f"{PATH}/trigger", **HERE, handler=trigger, answer=SessionView, body=Nothing,
        status=201, again=made_again, decisive="schedule.trigger",
        made=lambda result: {"session": result.uid}, summary="Start a session of a schedule now.",
    ),
    Operation(
        name="schedules.backfill", path=f"{PATH}/backfill", **HERE, handler=backfill, answer=StartedSessions,
        body=Backfill, again=backfilled, many_moves=True, example={"since": "2026-11-01", "until": "2026-11-08"},
        summary="Start a session for each past tick that has none. The ids are those that this request started.",
    ),
    Operation(
        name="schedules.remove", path=f"{PATH}/remove", **HERE, handler=remove, body=Nothing, again=nothing,
        summary="Remove a schedule. Its sessions stay.",
    ),
)  # fmt: skip
